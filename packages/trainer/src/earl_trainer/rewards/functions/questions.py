"""Answers to questions: a question is a game whose reply is looked at, whatever the move."""

from collections.abc import Iterator, Sequence
from typing import Any, Protocol, runtime_checkable

from earl_envs import make_game, start_position

from earl_trainer.rewards.transcript import Transcript


@runtime_checkable
class Question(Protocol):
    """What a game has besides its rules so that its replies can be verified."""

    def solution(self, state: Any) -> str | Sequence[str]:  # noqa: ANN401 - the game's own
        """Return the right answer from a start, or the tests that it has to pass."""
        ...


def answers(transcript: Transcript) -> Iterator[tuple[str, str | Sequence[str]]]:
    """Go through an episode's games: the last reply in each, and what it is compared with.

    Raises:
        ValueError: If the game has no `solution`.
    """
    game = make_game(transcript.game_id)
    if not isinstance(game, Question):
        raise ValueError(  # noqa: TRY004 - what does not fit is the run's game
            f"{transcript.game_id} has no solution(state) to compare answers with"
        )
    ends = [*(played.first_reply for played in transcript.games[1:]), len(transcript.replies)]
    for played, end in zip(transcript.games, ends, strict=True):
        reply = transcript.replies[end - 1] if end > played.first_reply else ""
        yield reply, game.solution(start_position(game, played.seed).state)
