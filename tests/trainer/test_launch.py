"""How a run ends."""

import signal

import earl_envs
import torch
from earl_envs.games.tic_tac_toe import TicTacToe
from earl_trainer.launch import run_to_end
from earl_trainer.rollout.capacity_error import CapacityError


class BrokenAfterTheStart(TicTacToe):
    """Fails at every move."""

    def apply(self, state, action):
        raise RuntimeError("no move\nis possible")


earl_envs.register_game("test/BrokenAfterTheStart-v0", BrokenAfterTheStart)


def test_a_run_that_cannot_go_on_says_why_in_one_line(
    tmp_path, small_config, open_run, silent_display
):
    display = silent_display()
    config = small_config({"env": "test/BrokenAfterTheStart-v0"})
    assert run_to_end(open_run(config, tmp_path, display=display)) == 1
    assert display.notes[-1].startswith("earl: none of 16 episodes gave anything to train on")
    assert "no move is possible" in display.notes[-1]
    assert "\n" not in display.notes[-1]


def test_a_context_that_no_engine_holds_ends_the_run_in_one_line(
    tmp_path, small_config, open_run, silent_display
):
    def overflow(step, stage):
        if (step, stage) == (1, "rollout"):
            raise CapacityError("a context of 126 tokens does not fit the capacity of 100 tokens")

    display = silent_display(overflow)
    assert run_to_end(open_run(small_config(), tmp_path, display=display)) == 1
    assert display.notes[-1] == (
        "earl: a context of 126 tokens does not fit the capacity of 100 tokens"
    )


def test_a_finished_run_says_what_learning_brought_and_where_the_results_are(
    tmp_path, small_config, open_run, silent_display
):
    display = silent_display()
    assert run_to_end(open_run(small_config(), tmp_path, display=display)) == 0
    assert display.notes[-2].startswith("due to reinforcement learning: ")
    assert str(tmp_path) in display.notes[-1]
    for name in ("config.yaml", "metrics.jsonl", "episodes.jsonl", "summary.json", "run.png"):
        assert (tmp_path / name).stat().st_size > 0, name


def test_ctrl_c_pressed_again_while_the_run_is_saved_changes_nothing(
    tmp_path, small_config, open_run, silent_display, monkeypatch
):
    def interrupt(step, stage):
        if (step, stage) == (2, "rollout"):
            raise KeyboardInterrupt

    display = silent_display(interrupt)
    run = open_run(small_config(), tmp_path, display=display)
    save = run.checkpoints.save

    def impatient(step, write):
        signal.raise_signal(signal.SIGINT)
        return save(step, write)

    monkeypatch.setattr(
        type(run.checkpoints), "save", lambda store, step, write: impatient(step, write)
    )
    assert run_to_end(run) == 0
    assert display.notes[-3:-1] == [
        "Ctrl-C: the checkpoint is being written",
        f"interrupted: 2 steps are saved in {tmp_path / 'checkpoints' / 'step-000002'}",
    ]
    assert display.notes[-1] == f"go on with: earl train --resume {tmp_path}"


def test_ctrl_c_leaves_the_checkpoints_alone_where_the_weights_are_not_finite(
    tmp_path, small_config, open_run, silent_display
):
    def interrupt(step, stage):
        if (step, stage) == (1, "rollout"):
            with torch.no_grad():
                next(run.model.parameters())[0, 0] = float("nan")
            raise KeyboardInterrupt

    display = silent_display(interrupt)
    run = open_run(small_config(), tmp_path, display=display)
    assert run_to_end(run) == 1
    assert display.notes[-1].startswith("earl: weights of the policy are not finite")
    assert not run.checkpoints.complete()
