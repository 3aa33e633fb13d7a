"""What the words behind `earl train` mean, and what is said when they mean nothing."""

import pytest
from earl_trainer.cli.train import USAGE, read_train
from earl_trainer.overrides import describe_fields, to_tree
from earl_trainer.recipes import RECIPES


def refusal(*arguments):
    with pytest.raises(ValueError, match=r".") as caught:
        read_train(arguments)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_the_help_lists_every_recipe_and_field_with_default_and_meaning(capsys):
    assert read_train(["tictactoe-tiny", "--help"])() == 0
    printed = capsys.readouterr().out

    for recipe in RECIPES:
        assert recipe in printed
    for line in USAGE:
        assert line in printed
    for name, default, text in describe_fields():
        assert f"  --{name.replace('_', '-')} ({default})\n      {text}\n" in printed


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("tictactoe-tini",), "unknown recipe 'tictactoe-tini'; did you mean 'tictactoe-"),
        (("--recipe", "tictactoe-tini"), "unknown recipe 'tictactoe-tini'; did you mean"),
        (("--sed", "1"), "unknown field 'sed'; nearest: seed"),
        (("--seed",), "--seed needs a value"),
        (("--seed", "x"), "seed: "),
        (("tictactoe-tiny", "extra"), "expected a --field, got 'extra'"),
        (("--config", "/no/such.yaml"), "cannot read the config '/no/such.yaml'"),
        (("--config.x", "1"), "--config has no fields"),
        (("--run-dir.x", "1"), "--run-dir has no fields"),
        (("--resume", "/no/such"), "'/no/such' is no run folder"),
        (("tictactoe-tiny", "--resume", "x"), "--resume goes on with the run in its"),
        (("--resume", "x", "--run-dir", "y"), "--resume goes on with the run in its"),
        (("--env", "earl/Chess-v0"), "unknown game 'earl/Chess-v0'"),
    ],
)
def test_words_that_mean_nothing_are_refused_in_one_line(arguments, message):
    assert refusal(*arguments).startswith(message)


def test_a_recipe_named_by_flag_or_file_is_the_base_of_the_run(tmp_path):
    # Refused for the batch, whose group size of 8 is that of the recipe.
    wrong = ("--rollout.num-episodes", "7")
    message = "rollout.num_episodes must be a multiple of rollout.group_size, got 7 and 8"
    path = tmp_path / "run.yaml"
    path.write_text("recipe: tictactoe-smollm2\n")

    assert refusal("tictactoe-smollm2", *wrong) == message
    assert refusal("--recipe", "tictactoe-smollm2", *wrong) == message
    assert refusal("--config", str(path), *wrong) == message
    assert refusal(*wrong).endswith("got 7 and 16")


def test_a_run_has_one_recipe():
    assert refusal("tictactoe-tiny", "--recipe", "tictactoe-smollm2") == (
        "a run has one recipe, got tictactoe-smollm2 and tictactoe-tiny"
    )


def test_a_file_lies_over_the_recipe_and_flags_over_the_file(tmp_path):
    path = tmp_path / "run.yaml"
    path.write_text("rollout: {num_episodes: 9, group_size: 4}\n")

    assert refusal("--config", str(path)).endswith("got 9 and 4")
    assert refusal("--config", str(path), "--rollout.group-size", "5").endswith("9 and 5")


def test_a_refused_run_leaves_no_folder(tmp_path):
    refusal("--run-dir", str(tmp_path / "run"), "--rollout.max-context-tokens", "14")

    assert list(tmp_path.iterdir()) == []


def test_a_run_folder_is_not_run_over(tmp_path):
    (tmp_path / "config.yaml").write_text(str(to_tree(RECIPES["tictactoe-tiny"])))

    assert "already holds a run" in refusal("--run-dir", str(tmp_path))
