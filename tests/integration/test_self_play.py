"""The learner against itself, over several games in a context, and against its own past."""

import json
import signal

import pytest
from earl_trainer.experience.samples import build_columns
from earl_trainer.launch import run_to_end

SELF_PLAY = {"opponent": "self", "learner": {"num_steps": 3}}
SEVERAL_GAMES = {
    "rollout": {"games_per_episode": 3},
    # Enough for a reply to end with its move now and then.
    "warmup": {"lr": 1e-2},
    "learner": {"num_steps": 3},
}
BOTH = SEVERAL_GAMES | {"opponent": "self", "rollout": {"games_per_episode": 2}}
PAST = {
    "opponent": "pool:rating",
    # Enough for a past model to name a legal move now and then.
    "warmup": {"num_steps": 60, "num_episodes": 32, "lr": 5e-3},
    "learner": {"num_steps": 4},
    "tracking": {"checkpoint_every_steps": 60, "keep_checkpoints": 9},
}


def episodes_of(folder, phase):
    lines = (folder / "episodes.jsonl").read_text().splitlines()
    return [row for row in map(json.loads, lines) if row["phase"] == phase]


@pytest.mark.parametrize(
    "changes",
    [
        SELF_PLAY,
        pytest.param(SEVERAL_GAMES, marks=pytest.mark.slow),
        pytest.param(BOTH, marks=pytest.mark.slow),
    ],
)
def test_a_run_learns_from_every_kind_of_episode(
    tmp_path, small_config, open_run, repeatable_rows, changes
):
    assert run_to_end(open_run(small_config(changes), tmp_path / "run")) == 0

    rows = repeatable_rows(tmp_path / "run")
    assert [row["phase"] for row in rows] == ["warmup"] * 6 + ["rl"] * 3
    for row in rows:
        assert row["game/failed_episodes"] == 0
        assert row["policy/grad_norm"] > 0
        assert row["policy/skipped_updates"] == 0
    for row in rows[6:]:
        assert row["reward/std"] > 0
        # Each seat's context is scored as it was played: nothing of another seat is in it.
        assert row["mismatch/max_logprob_difference"] < 1e-4
    summary = json.loads((tmp_path / "run" / "summary.json").read_text())
    assert summary["evaluation"]["after"]["games"] == 20
    assert {row["seat"] for row in episodes_of(tmp_path / "run", "evaluation-after")} == {0, 1}


@pytest.mark.slow
def test_in_self_play_both_seats_of_every_table_are_trained(
    tmp_path, small_config, open_run, repeatable_rows
):
    assert run_to_end(open_run(small_config(SELF_PLAY), tmp_path / "run")) == 0

    for phase in ("warmup", "rl"):
        played = episodes_of(tmp_path / "run", phase)
        assert [row["seat"] for row in played] == [0, 1] * (len(played) // 2)
        for first, second in zip(played[::2], played[1::2], strict=True):
            assert first["moves"] == second["moves"]
            assert first["outcome"] == -second["outcome"]
    for row in repeatable_rows(tmp_path / "run"):
        # A seat whose opponent forfeits first has said nothing that could be trained.
        assert 8 < row["dispatch/rows"] <= 16
        assert row["game/win_rate"] == pytest.approx(
            (row["game/win_rate_seat_0"] + row["game/win_rate_seat_1"]) / 2
        )


@pytest.mark.parametrize("changes", [SELF_PLAY, SEVERAL_GAMES, BOTH])
def test_only_a_seats_own_replies_are_trained(tmp_path, small_config, open_run, changes):
    run = open_run(small_config(changes), tmp_path)
    phase = run.phases[0]
    rollout = run.collector.collect(phase.policy, phase.starts(0, 0, num_seats=2))
    run.tracker.close()
    episodes = rollout.episodes
    columns = build_columns(episodes, run.config.reward)

    ids = columns.per_token["token_ids"].split(columns.lengths.tolist())
    masks = columns.per_token["mask"].split(columns.lengths.tolist())
    assert len(ids) == len(episodes), "a context is one row, however many games it holds"
    for episode, row, mask in zip(episodes, ids, masks, strict=True):
        said = [token for turn in episode.turns for token in turn.reply_ids]
        assert row[mask].tolist() == said
        own = [move for game in episode.games for move in game.moves[episode.start.seat :: 2]]
        assert [turn.action for turn in episode.turns] == own
        assert len(episode.games) == run.config.rollout.games_per_episode


@pytest.mark.slow
def test_a_run_against_its_own_past_resumes_as_if_it_had_never_stopped(
    tmp_path, small_config, open_run, repeatable_rows, silent_display
):
    config = small_config(PAST)
    assert run_to_end(open_run(config, tmp_path / "whole")) == 0

    pending = [(62, "rollout")]

    def press_ctrl_c(step, stage):
        if pending == [(step, stage)]:
            pending.clear()
            signal.raise_signal(signal.SIGINT)

    stopped = open_run(config, tmp_path / "parts", display=silent_display(press_ctrl_c))
    assert run_to_end(stopped) == 0
    assert stopped.state.step == 62
    assert run_to_end(open_run(config, tmp_path / "parts", resume=True)) == 0

    rows = repeatable_rows(tmp_path / "whole")
    assert repeatable_rows(tmp_path / "parts") == rows
    # A past model whose reply is no move has failed; it is no win for the learner.
    assert sum(row["game/failed_episodes"] for row in rows) == sum(
        row["end/opponent_error"] for row in rows
    )
    ratings = (tmp_path / "whole" / "checkpoints" / "ratings.jsonl").read_text()
    assert (tmp_path / "parts" / "checkpoints" / "ratings.jsonl").read_text() == ratings
    # Games of the warm-up are a script's and rate nobody.
    lines = [json.loads(line) for line in ratings.splitlines()]
    assert {line["version"] for line in lines} <= {60, 61, 62, 63}
    assert set(lines[-1]["ratings"]) == {"", "step-000060"}
