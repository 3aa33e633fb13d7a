"""Flags, files and recipes become one config, or one line that says what is wrong."""

from dataclasses import replace

import pytest
import yaml
from earl_trainer.config import ModelConfig, RunConfig
from earl_trainer.overrides import (
    CONFIG_FILE,
    field_names,
    parse_flags,
    read_run_config,
    read_yaml,
    resolve,
    to_tree,
)
from earl_trainer.recipes import RECIPES
from hypothesis import given, settings
from hypothesis import strategies as st


def refusal(call):
    with pytest.raises(ValueError, match=r".") as caught:
        call()
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_both_forms_of_a_flag_and_dashes_mean_the_same():
    spellings = (
        ["--rollout.group-size", "8", "--seed", "3"],
        ["--rollout.group_size=8", "--seed=3"],
        ["--seed=3", "--rollout.group-size=8"],
    )

    for arguments in spellings:
        assert parse_flags(arguments) == {"rollout": {"group_size": "8"}, "seed": "3"}


def test_a_value_may_hold_an_equals_sign_or_begin_with_dashes():
    assert parse_flags(["--model=a=b", "--tracking.wandb_project", "--x"]) == {
        "model": "a=b",
        "tracking": {"wandb_project": "--x"},
    }


@pytest.mark.parametrize(
    "arguments",
    [
        ["--model", "some/folder", "--model.device", "cpu"],
        ["--model.device", "cpu", "--model", "some/folder"],
        ["--model.name", "some/folder", "--model.device=cpu"],
    ],
)
def test_a_plain_value_for_a_group_sets_its_name_in_any_order(arguments):
    config = resolve(RunConfig(), parse_flags(arguments))

    assert config.model == ModelConfig(name="some/folder", device="cpu")


def test_a_group_without_a_name_takes_no_plain_value():
    message = refusal(lambda: resolve(RunConfig(), {"dispatch": "3"}))

    assert message == (
        "'dispatch' is a group of fields; set one of dispatch.transport, "
        "dispatch.max_buffer_bytes, dispatch.timeout_s"
    )


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["tiny"], "expected a --field, got 'tiny'"),
        (["-x", "1"], "expected a --field, got '-x'"),
        (["--seed"], "--seed needs a value"),
    ],
)
def test_what_is_no_flag_is_refused(arguments, message):
    assert refusal(lambda: parse_flags(arguments)) == message


@pytest.mark.parametrize(
    ("field", "nearest"),
    [
        ("rollout.group_sise", "rollout.group_size"),
        ("modle.name", "model.name"),
        ("sed", "seed"),
        ("rollout.temprature.x", "rollout.temperature"),
    ],
)
def test_an_unknown_field_is_refused_with_the_nearest(field, nearest):
    message = refusal(lambda: resolve(RunConfig(), parse_flags([f"--{field}", "1"])))

    assert message.startswith("unknown field '")
    assert nearest in message.split("nearest: ")[1].split(" (all:")[0].split(", ")
    assert "earl train --help" in message


@pytest.mark.parametrize(
    "flag", ["--rollout.top-p", "--rollout.top_k", "--rollout.min-p", "--top-p"]
)
def test_a_cut_vocabulary_is_refused_with_the_rule(flag):
    message = refusal(lambda: resolve(RunConfig(), parse_flags([flag, "0.9"])))

    assert "importance ratios need the full support" in message
    assert message.endswith(f"got {flag[2:].replace('-', '_')} = 0.9")


def test_a_field_below_a_plain_field_is_refused():
    message = refusal(lambda: resolve(RunConfig(), parse_flags(["--learner.lr.x", "1"])))

    assert message.startswith("learner.lr: ")


@pytest.mark.parametrize("text", ["1,2", "1, 2"])
def test_a_list_is_written_with_commas(text):
    config = resolve(RunConfig(), parse_flags(["--selector.tp_degrees", text]))

    assert config.selector.tp_degrees == (1, 2)


@pytest.mark.parametrize(
    ("text", "field"),
    [
        ("1,x", "selector.tp_degrees.1"),
        ("", "selector.tp_degrees.0"),
        ("0", "selector.tp_degrees.0"),
    ],
)
def test_a_bad_entry_of_a_list_is_named(text, field):
    message = refusal(lambda: resolve(RunConfig(), parse_flags(["--selector.tp_degrees", text])))

    assert message.startswith(f"{field}: ")


def test_an_empty_list_is_refused():
    message = refusal(lambda: resolve(RunConfig(), {"selector": {"tp_degrees": []}}))

    assert message.startswith("selector.tp_degrees: ")


def test_later_overrides_win_and_leave_the_rest(tmp_path):
    path = tmp_path / "run.yaml"
    path.write_text("seed: 4\nmodel: ./folder\nrollout:\n  group_size: 8\n  num_episodes: 32\n")
    flags = parse_flags(["--rollout.group-size", "4", "--model.dtype", "bfloat16"])
    config = resolve(RunConfig(), read_yaml(path), flags)

    assert config == replace(
        RunConfig(),
        seed=4,
        model=ModelConfig(name="./folder", dtype="bfloat16"),
        rollout=replace(RunConfig().rollout, group_size=4, num_episodes=32),
    )
    assert resolve(RunConfig()) == RunConfig(), "the base is not changed"


@pytest.mark.parametrize("name", RECIPES)
def test_a_config_comes_back_from_its_tree_and_its_yaml(name, tmp_path):
    config = RECIPES[name]
    (tmp_path / CONFIG_FILE).write_text(yaml.safe_dump(to_tree(config), sort_keys=False))

    assert resolve(RunConfig(), to_tree(config)) == config
    assert read_run_config(tmp_path) == config


numbers = st.fixed_dictionaries({
    "seed": st.integers(0, 2**40),
    "learner": st.fixed_dictionaries({"lr": st.floats(0.0, 1.0), "beta1": st.floats(0.0, 0.99)}),
    "selector": st.fixed_dictionaries({
        "tp_degrees": st.lists(st.integers(1, 64), min_size=1, max_size=4)
    }),
})


@settings(derandomize=True, max_examples=30)
@given(tree=numbers)
def test_values_survive_yaml_exactly(tree):
    config = resolve(RunConfig(), tree)

    assert resolve(RunConfig(), yaml.safe_load(yaml.safe_dump(to_tree(config)))) == config
    assert config.learner.lr == tree["learner"]["lr"]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("- 1\n- 2\n", "must hold `field: value` lines"),
        ("", "must hold `field: value` lines"),
        ("seed: [1\nmodel: }", "cannot read the config"),
    ],
)
def test_a_file_that_holds_no_fields_is_refused(tmp_path, content, message):
    path = tmp_path / "run.yaml"
    path.write_text(content)

    said = refusal(lambda: read_yaml(path))
    assert message in said
    assert str(path) in said


def test_a_file_that_is_not_there_is_refused(tmp_path):
    assert "No such file" in refusal(lambda: read_yaml(tmp_path / "none.yaml"))
    assert refusal(lambda: read_run_config(tmp_path)) == (
        f"{str(tmp_path)!r} is no run folder: it holds no config.yaml"
    )


def test_a_key_of_a_file_that_is_no_name_is_refused(tmp_path):
    path = tmp_path / "run.yaml"
    path.write_text("1: 2\n")

    assert "unknown field '1'" in refusal(lambda: resolve(RunConfig(), read_yaml(path)))


def test_field_names_are_in_the_order_of_the_definition():
    names = field_names()

    assert names[:4] == ["recipe", "seed", "env", "opponent"]
    assert names[4:8] == ["rollout_workers", "learner_workers", "max_staleness", "model.name"]
    assert names[-1] == "tracking.keep_checkpoints"
    assert len(set(names)) == len(names)
