"""`earl profile` from its words to a table in a file."""

import pytest
from earl_selector import ProfileTable
from earl_trainer.cli.profile import read_profile
from earl_trainer.rollout.transformers_engine import TransformersEngine

SMALL = (
    "--model.hidden-size", "16", "--model.num-layers", "1", "--model.num-heads", "2",
    "--selector.num-devices", "1", "--selector.tp-degrees", "1",
)  # fmt: skip
FEW = ("--responses", "1,2", "--context", "16,32")


@pytest.fixture(autouse=True)
def cache(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache" / "earl" / "profiles"


def refusal(*arguments):
    with pytest.raises(ValueError, match=r".") as caught:
        read_profile(arguments)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def keys(path):
    return [point.key for point in ProfileTable.load(path).points]


def test_the_engine_is_measured_and_the_table_kept_where_it_is_asked_for(capsys, tmp_path):
    path = tmp_path / "deep" / "mine.json"
    assert read_profile((*SMALL, *FEW, "--out", str(path)))() == 0

    printed = capsys.readouterr().out
    assert printed.startswith("1/4 tp 1, 1 x 16 tokens: ")
    assert f"\nkept in {path}\n" in printed
    assert sorted(keys(path)) == [(1, 1, 16), (1, 1, 32), (1, 2, 16), (1, 2, 32)]
    table = ProfileTable.load(path)
    for point in table.points:
        assert f"{point.tokens_per_s_per_device:,.0f}" in printed
        assert point.tokens_per_s_per_device > 0.0
    assert table.subject.model.startswith("llama ")


def test_without_a_file_the_users_cache_holds_what_the_run_needs(capsys, cache):
    fields = ("--rollout.num-episodes", "4", "--rollout.group-size", "2",
              "--warmup.num-episodes", "3", "--rollout.max-context-tokens", "48")  # fmt: skip
    assert read_profile((*SMALL, *fields))() == 0
    (path,) = cache.iterdir()
    grid = ProfileTable.load(path).grid
    assert (grid.num_responses, grid.context_tokens) == ((1, 2, 4), (12, 24, 48))
    assert f"kept in {path}" in capsys.readouterr().out


def test_started_again_it_measures_only_what_is_missing(capsys, tmp_path):
    path = tmp_path / "mine.json"
    read_profile((*SMALL, "--responses", "1", "--context", "16", "--out", str(path)))()
    first = ProfileTable.load(path).points
    capsys.readouterr()
    read_profile((*SMALL, "--responses", "1:2", "--context", "16", "--out", str(path)))()
    assert ProfileTable.load(path).points[:1] == first
    assert keys(path) == [(1, 1, 16), (1, 2, 16)]
    assert capsys.readouterr().out.startswith("2/2 tp 1, 2 x 16 tokens: ")


def test_ctrl_c_keeps_what_was_measured_and_says_how_to_go_on(capsys, tmp_path, monkeypatch):
    generate = TransformersEngine.generate

    def interrupted(self, requests):
        if len(requests) == 2:
            raise KeyboardInterrupt
        return generate(self, requests)

    path = tmp_path / "my profile.json"
    arguments = (*SMALL, "--responses", "1,2", "--context", "16", "--out", str(path))
    with monkeypatch.context() as patch:
        patch.setattr(TransformersEngine, "generate", interrupted)
        assert read_profile(arguments)() == 130
    assert keys(path) == [(1, 1, 16)]
    *_, first, second = capsys.readouterr().out.splitlines()
    assert first == f"interrupted: 1 of 2 points are in {path}"
    assert second.startswith("go on with: earl profile --model.hidden-size 16 ")
    assert second.endswith(f"--out '{path}'")
    assert read_profile(arguments)() == 0
    assert keys(path) == [(1, 1, 16), (1, 2, 16)]


def test_a_load_beyond_the_memory_is_said_to_be_so(capsys, tmp_path):
    path = tmp_path / "mine.json"
    # 1 layer x 2 x 16 values of 4 bytes are 128 bytes a token: 48 tokens beside some weights.
    memory = ("--rollout.max-context-tokens", "40", "--selector.memory-bytes", "22000")
    arguments = (*SMALL, *memory, "--responses", "1", "--context", "32,512", "--out", str(path))
    assert read_profile(arguments)() == 0
    rates = {p.context_tokens: p.tokens_per_s_per_device for p in ProfileTable.load(path).points}
    assert rates[32] > rates[512] == 0.0
    assert "tp 1, 1 x 512 tokens: could not be run" in capsys.readouterr().out


def test_a_profile_of_something_else_is_not_gone_on_with(tmp_path):
    path = tmp_path / "mine.json"
    read_profile((*SMALL, "--responses", "1", "--context", "16", "--out", str(path)))()
    content = path.read_text()
    text = refusal(*SMALL, *FEW, "--model.num-layers", "2", "--out", str(path))
    assert text.startswith(f"{path}: the profile was measured for model 'llama ")
    assert path.read_text() == content
    path.write_text("{}")
    assert refusal(*SMALL, *FEW, "--out", str(path)).startswith(f"{path} is not a profile: ")


@pytest.mark.slow
def test_ranks_are_measured_at_every_degree_and_in_changing_it(capsys, tmp_path):
    path = tmp_path / "mine.json"
    ranks = ("--selector.num-devices", "2", "--selector.tp-degrees", "1,2")
    assert read_profile((*SMALL, *ranks, *FEW, "--out", str(path)))() == 0
    table = ProfileTable.load(path)
    assert len(table.points) == 8
    assert min(point.tokens_per_s_per_device for point in table.points) > 0.0
    assert table.switch_s is not None
    assert f"8/8 a change of degree takes {table.switch_s:.3g} s" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("tictactoe-tini",), "unknown recipe 'tictactoe-tini'"),
        (("--sed", "1"), "unknown field 'sed'; nearest: seed"),
        (("--responses", ""), "--responses takes whole numbers >= 1 such as 64,128 or 64:256 "),
        (("--responses", "0"), "--responses takes whole numbers >= 1"),
        (("--responses", "1,,2"), "--responses takes whole numbers >= 1"),
        (("--responses", "8:2"), "--responses takes a range that rises, got '8:2'"),
        (("--context", "4"), "--context must be at least 8 tokens and at most the model's 1024 "),
        (("--context", "16:2k"), "--context must be at least 8 tokens and at most the model's 10"),
        (("--context.x", "4"), "--context has no fields"),
        (("--out", "/proc/no/p.json"), "cannot write the profile '/proc/no/p.json': No such"),
        (("--config", "/no/such.yaml"), "cannot read the config '/no/such.yaml'"),
        (("--selector.tp-degrees", "1,2"), "selector.num_devices must be a multiple of every"),
        (
            ("--selector.tp-degrees", "1,3", "--selector.num-devices", "3"),
            "selector: tp 3 does not divide the model's 2 attention heads",
        ),
        (("--rollout.max-context-tokens", "14"), "rollout.max_context_tokens must hold one turn"),
    ],
)
def test_what_does_not_fit_is_refused_in_one_line(arguments, message):
    # A recipe comes first; of fields the last counts.
    recipe = [word for word in arguments[:1] if not word.startswith("--")]
    assert refusal(*recipe, *SMALL, *arguments[len(recipe) :]).startswith(message)


def test_a_file_of_fields_is_read(tmp_path):
    path = tmp_path / "run.yaml"
    path.write_text("rollout: {num_episodes: 9, group_size: 4}\n")
    assert refusal("--config", str(path)).endswith("got 9 and 4")


def test_the_help_says_what_is_measured_and_how(capsys):
    assert read_profile(("--help",))() == 0
    printed = capsys.readouterr().out
    for word in ("usage: earl profile [RECIPE]", "--responses", "--context", "--out", "recipes: "):
        assert word in printed
