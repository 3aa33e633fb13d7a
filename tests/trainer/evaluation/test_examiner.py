"""Who is met in a checkup, and which weights are kept for the next ones."""

from dataclasses import replace

import pytest
from earl_envs import RandomOpponent
from earl_envs.opponents.perfect import PerfectOpponent
from earl_trainer.checkpoint import CheckpointStore
from earl_trainer.evaluation.checkup import CheckupHistory
from earl_trainer.evaluation.examiner import Examiner
from earl_trainer.evaluation.playing import MatchPlan
from earl_trainer.rollout.collector import Collector
from earl_trainer.rollout.policies import ScriptedPolicy
from earl_trainer.workers.team import Team

GAME_ID = "earl/TicTacToe-v0"


@pytest.fixture
def loaded():
    return []


@pytest.fixture
def examiner(tmp_path, tic_tac_toe, tiny_chat, loaded):
    def play(player):
        return ScriptedPolicy(player, game=tic_tac_toe, chat=tiny_chat)

    def load(folder):
        loaded.append(folder.parent.name)
        return play(RandomOpponent())

    return Examiner(
        every_steps=10,
        opponents=("random", "first"),
        num_past_selves=2,
        plan=MatchPlan(seed=1, num_games=2, num_seats=2, games_at_once=4),
        game=tic_tac_toe,
        seat=lambda rival: Collector(
            tic_tac_toe,
            game_id=GAME_ID,
            opponent=None,
            match_opponent=rival,
            chat=tiny_chat,
            max_context_tokens=256,
            max_reply_tokens=4,
        ),
        policy=play(PerfectOpponent()),
        past_weights=CheckpointStore(tmp_path, keep=3),
        load=load,
        solver=PerfectOpponent(),
        team=Team(),
    )


def examine(examiner, steps, history=None):
    history, checkups = history or CheckupHistory(), []
    for step in steps:
        checkup, history = examiner.examine(
            step,
            history,
            save_model=lambda folder: folder.mkdir(),
            show=lambda detail: None,
        )
        checkups.append(checkup)
    return checkups, history


def test_everybody_is_met_and_the_latest_past_selves_alone(examiner, loaded, tmp_path):
    checkups, history = examine(examiner, [0, 10, 20, 30])
    names = [list(checkup.past_selves) for checkup in checkups]
    assert names == [
        [],
        ["step-000000"],
        ["step-000000", "step-000010"],
        ["step-000010", "step-000020"],
    ]
    assert loaded == [name for checkup in names for name in checkup]
    assert all(list(each.matches) == ["random", "first"] for each in checkups)
    assert checkups[-1].optimal.num_moves == checkups[-1].optimal.num_optimal > 8
    assert checkups[-1].matches["random"].games == 2
    assert checkups[-1].matches["random"].loss_rate == 0.0
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "step-000010",
        "step-000020",
        "step-000030",
    ]
    assert history.step == 30
    summary = examiner.summary(history)
    assert set(summary["ratings"]) == {
        "random", "first", "step-000000", "step-000010", "step-000020", "step-000030"
    }  # fmt: skip
    assert summary["ratings"]["step-000000"]["games"] == 2 + 2 + 2 + 2


def test_equal_weights_play_equal_games_at_every_step(examiner):
    first, second = examine(examiner, [0, 10])[0]
    assert first.matches == second.matches


def test_a_run_that_was_sent_back_forgets_what_came_later(examiner, tmp_path):
    _, halfway = examine(examiner, [0, 10])
    examine(examiner, [20, 30], halfway)
    (again,), history = examine(examiner, [20], halfway)
    # Of those before it, what its weights were kept for.
    assert list(again.past_selves) == ["step-000010"]
    assert (tmp_path / "step-000020").is_dir()
    assert not (tmp_path / "step-000030").exists()
    assert "step-000030" not in examiner.summary(history)["ratings"]


def test_a_past_self_that_fails_at_every_game_is_left_out(examiner):
    class Lost:
        def reply(self, queries):
            from earl_envs import Failure

            return [Failure(error="gone")] * len(queries)

    examiner = replace(examiner, load=lambda folder: Lost())
    _, second = examine(examiner, [0, 10])[0]
    assert second.past_selves == {}


def test_checkups_are_due_every_so_many_steps_at_the_end_and_once(examiner):
    none, history = CheckupHistory(), CheckupHistory(latest={"checkup/step": 20.0})
    assert [step for step in range(31) if examiner.is_due(step, none, at_end=False)] == [
        0, 10, 20, 30
    ]  # fmt: skip
    assert not examiner.is_due(20, history, at_end=True)
    assert examiner.is_due(23, history, at_end=True)
    never = replace(examiner, every_steps=0)
    assert not never.is_due(20, none, at_end=True)
