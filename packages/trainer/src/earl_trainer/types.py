"""What crosses module boundaries inside the trainer: turns, episodes and samples."""

from collections.abc import Sequence
from dataclasses import dataclass

from earl_envs import FAILURES, FORFEITS, EndReason


class RunFailedError(RuntimeError):
    """A run cannot go on, for a reason that its user can act on; the message is one line."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EpisodeStart:
    """Everything that fixes one episode before it begins, apart from the weights that play it."""

    episode: int
    """Identity within the collection; replies are seeded by it."""
    group: int
    """Episodes of one group share game, seat and the opponent's random stream."""
    seat: int
    """The seat that the learner plays."""
    game_seed: int
    """Seeds the game's chance and the opponent."""
    reply_seed: int
    """Seeds the learner's own sampling."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """One reply of the learner, exactly as the engine emitted it."""

    prompt_ids: Sequence[int]
    """[P] the whole context in front of the reply."""
    reply_ids: Sequence[int]
    """[R] what the engine emitted, the end-of-turn token included when it came."""
    logprobs: Sequence[float]
    """[R] log-probability of each emitted token under the weights that emitted it."""
    versions: Sequence[int]
    """[R] weight version that emitted each token."""
    text: str
    """The reply, decoded for the parser; never encoded again."""
    action: int | None
    """The move that was played; None when the reply was a forfeit."""
    cut: bool
    """The reply ended at a token limit and not by an end-of-turn token."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Episode:
    """One finished game as the learner's seat lived it."""

    start: EpisodeStart
    turns: Sequence[Turn]
    moves: Sequence[int]
    """Moves of all seats in the order they were played."""
    end_reason: EndReason
    outcome: float
    """The rules' return for the learner's seat; -1 after a forfeit; 0 when cut or failed."""
    detail: str = ""
    """What went wrong, when something did."""

    @property
    def truncated(self) -> bool:
        """Whether a token limit, and not the game, ended the episode or one of its replies."""
        return self.end_reason is EndReason.CONTEXT_LIMIT or any(turn.cut for turn in self.turns)

    @property
    def failed(self) -> bool:
        """Whether the episode says nothing about the policy, because other code raised."""
        return self.end_reason in FAILURES

    @property
    def forfeited(self) -> bool:
        """Whether the learner lost by a reply that was no legal move."""
        return self.end_reason in FORFEITS

    @property
    def context_tokens(self) -> int:
        """Length of the context when the episode ended."""
        if not self.turns:
            return 0
        return len(self.turns[-1].prompt_ids) + len(self.turns[-1].reply_ids)
