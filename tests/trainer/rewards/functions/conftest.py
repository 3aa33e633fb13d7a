"""Transcripts of questions and of games, as functions that ship see them."""

import sys
from pathlib import Path

import pytest
from earl_envs import GameRecord, register_game
from earl_trainer.rewards.transcript import GameTranscript, Transcript

sys.path.append(str(Path(__file__).parent))
for _name in ("Question", "Sum", "Doubling"):
    register_game(f"test/{_name}-v0", f"question_games:{_name}")


@pytest.fixture(scope="session")
def told():
    """Make the transcript of an episode; every game gives its moves, and one reply."""

    def make(game_id, *replies, seat=0, moves=None):
        moves = [()] * len(replies) if moves is None else moves
        return Transcript(
            game_id=game_id,
            seat=seat,
            replies=replies,
            reply_tokens=tuple(len(reply) for reply in replies),
            games=tuple(
                GameTranscript(
                    seed=3, moves=each, first_reply=number, end_reason="finished", outcome=0.0
                )
                for number, each in enumerate(moves)
            ),
            outcome=0.0,
            truncated=False,
        )

    return make


@pytest.fixture(scope="session")
def position_after():
    """Return the state that moves lead to."""

    def play(game_id, moves):
        return GameRecord(game_id=game_id, seed=3, moves=moves).positions()[-1].state

    return play
