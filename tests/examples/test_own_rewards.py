"""The example's functions score games as they say."""

import importlib.util
from pathlib import Path

from earl_trainer.rewards.transcript import GameTranscript, Transcript

ROOT = Path(__file__).parents[2]


def load_example():
    spec = importlib.util.spec_from_file_location("own_rewards", ROOT / "examples/own_rewards.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def played(seat, *games):
    return Transcript(
        game_id="earl/TicTacToe-v0",
        seat=seat,
        replies=(),
        reply_tokens=(),
        games=tuple(
            GameTranscript(
                seed=0, moves=moves, first_reply=0, end_reason="finished", outcome=outcome
            )
            for moves, outcome in games
        ),
        outcome=0.0,
        truncated=False,
    )


def test_a_quick_win_counts_most():
    example = load_example()
    quick, slow = (0, 3, 1, 4, 2), (0, 3, 1, 4, 8, 2, 5, 7, 6, 1)
    assert example.quick_win(played(0, (quick, 1.0))) == 1.0
    assert example.quick_win(played(0, (slow, 1.0))) == 0.5
    assert example.quick_win(played(0, (quick, 1.0), (slow, 1.0))) == 0.75
    assert example.quick_win(played(1, (quick, -1.0))) == 0.0


def test_the_centre_counts_for_who_took_it():
    example = load_example()
    moves = (0, 4, 1, 3, 2)
    assert example.centre(played(1, (moves, -1.0))) == 1.0
    assert example.centre(played(0, (moves, 1.0))) == 0.0


def test_the_guide_shows_the_examples_command():
    functions = "examples.own_rewards:quick_win=0.3,examples.own_rewards:centre=0.1"
    for path in ("examples/own_rewards.py", "docs/rewards.md"):
        assert functions in (ROOT / path).read_text()
