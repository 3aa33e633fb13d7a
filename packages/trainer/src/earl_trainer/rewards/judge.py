"""Episodes in, episodes with the rewards of functions out, while others are played."""

import time
from collections.abc import Sequence
from concurrent.futures import wait
from dataclasses import replace
from typing import Literal, final

from earl_trainer.rewards.function import RewardFunction, weigh
from earl_trainer.rewards.service import RewardService, Ticket
from earl_trainer.rewards.transcript import GameTranscript, Transcript
from earl_trainer.types import Episode, EpisodeStart, RunFailedError


@final
class Judge:
    """Has a run's reward functions computed for its episodes.

    Lifecycle of an episode: `submit` when it has ended, `is_done` at any time, then `collect`. One
    that has nothing to train on, as it failed or has no reply, is not judged.

    Args:
        service: Knows the functions; closed with this.
        functions: All of them.
        game_id: Of the episodes.
        on_failure: Whether a function that failed leaves the episode out of training, or counts 0.
        timeout_s: Longest time that `collect` waits.
    """

    def __init__(
        self,
        service: RewardService,
        functions: Sequence[RewardFunction],
        *,
        game_id: str,
        on_failure: Literal["drop", "zero"],
        timeout_s: float | int,
    ) -> None:
        self._service = service
        self._functions = functions
        self._game_id = game_id
        self._on_failure: Literal["drop", "zero"] = on_failure
        self._timeout_s = timeout_s
        self._tickets: dict[EpisodeStart, dict[str, Ticket]] = {}
        self._waited_s = 0.0

    def submit(self, episode: Episode) -> None:
        """Begin to judge an episode; returns at once."""
        if not episode.turns or episode.summary.failed:
            return
        transcript = transcript_of(self._game_id, episode)
        self._tickets[episode.start] = {
            function.name: self._service.submit(function.target, transcript)
            for function in self._functions
        }

    def is_done(self, episodes: Sequence[Episode]) -> bool:
        """Return whether `collect` would not have to wait."""
        return all(ticket.done() for ticket in self._waiting_for(episodes))

    def collect(self, episodes: Sequence[Episode]) -> list[Episode]:
        """Return these episodes judged, waiting if need be.

        Raises:
            RunFailedError: If it takes too long, or no process computes rewards.
        """
        start_s = time.perf_counter()
        open_tickets = wait(self._waiting_for(episodes), timeout=self._timeout_s).not_done
        self._waited_s += time.perf_counter() - start_s
        if open_tickets:
            raise RunFailedError(
                f"{len(open_tickets)} rewards were not there after {self._timeout_s:g} s"
            )
        return [self._judged(episode) for episode in episodes]

    def take_waited_s(self) -> float:
        """Return how long `collect` has waited since this was last asked."""
        waited_s, self._waited_s = self._waited_s, 0.0
        return waited_s

    def close(self) -> None:
        """End the service, whatever it does; a second time does nothing."""
        self._service.close()

    def _waiting_for(self, episodes: Sequence[Episode]) -> list[Ticket]:
        return [
            ticket
            for episode in episodes
            for ticket in self._tickets.get(episode.start, {}).values()
        ]

    def _judged(self, episode: Episode) -> Episode:
        tickets = self._tickets.pop(episode.start, None)
        if tickets is None:
            return episode
        outcomes = {name: ticket.result(timeout=0.0) for name, ticket in tickets.items()}
        return replace(episode, judgement=weigh(outcomes, self._functions, self._on_failure))


def transcript_of(game_id: str, episode: Episode) -> Transcript:
    """Write an episode down for a reward function."""
    summary = episode.summary
    return Transcript(
        game_id=game_id,
        seat=episode.start.seat,
        replies=summary.replies,
        reply_tokens=tuple(len(turn.reply_ids) for turn in episode.turns),
        games=tuple(
            GameTranscript(
                seed=game.game_seed,
                moves=tuple(game.moves),
                first_reply=game.first_turn,
                end_reason=game.end_reason.value,
                outcome=game.outcome,
            )
            for game in episode.games
        ),
        outcome=summary.outcome,
        truncated=summary.truncated,
        num_games=episode.start.num_games,
    )
