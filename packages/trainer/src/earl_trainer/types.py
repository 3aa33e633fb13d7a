"""What crosses module boundaries inside the trainer: turns, episodes and samples."""

from collections.abc import Sequence
from dataclasses import dataclass

from earl_envs import CUTS, FAILURES, FORFEITS, EndReason

from earl_trainer.rewards.outcome import Judgement


class RunFailedError(RuntimeError):
    """A run cannot go on, for a reason that its user can act on; the message is one line."""


class NonFiniteWeightsError(RunFailedError):
    """A model that is to be saved has parameters that are NaN or infinite."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EpisodeStart:
    """Everything that fixes one episode before it begins, apart from the weights that play it."""

    episode: int
    """Identity within the collection; replies are seeded by it."""
    table: int
    """Starts of one table are seats of the same games; every other seat is the opponent's."""
    group: int
    """Tables of one group share the games' seeds and the opponent's random stream."""
    seat: int
    """The seat that the learner plays."""
    game_seed: int
    """Seeds the games' chance and the opponent."""
    reply_seed: int
    """Seeds the learner's own sampling."""
    num_games: int = 1
    """Games played one after the other in one context, against the same opponent."""
    match: bool = False
    """Whether the episode belongs to a match, which has an opponent of its own."""
    greedy: bool = False
    """Whether replies are decoded greedily: what others of the group are compared with."""
    level: str = ""
    """Of a curriculum, where there is one: the opponent, and the size of the game if it varies."""


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
class PlayedGame:
    """One game of an episode, as the learner's seat lived it."""

    game_seed: int
    first_turn: int
    """Index of the seat's first reply in this game among the episode's turns."""
    moves: Sequence[int]
    """Moves of all seats in the order they were played."""
    end_reason: EndReason
    outcome: float
    """Score of the learner's seat, by the rules or for a forfeit; 0 when cut or failed."""
    forfeited_by: int | None = None
    """The seat whose reply lost the game, where that ended it."""
    detail: str = ""
    """What went wrong, when something did."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EpisodeSummary:
    """What is counted, recorded and shown of an episode: everything but its tokens."""

    start: EpisodeStart
    games: Sequence[PlayedGame]
    """At least one; fewer than asked for when something cut the episode or failed."""
    replies: Sequence[str]
    """As the parser saw them."""
    context_tokens: int
    """Length of the context when the episode ended."""
    reply_cut: bool
    """Whether a reply ended at a token limit."""
    min_return: float | int
    """The lowest score of the game."""
    judgement: Judgement | None = None
    """Of the run's reward functions, where it has any."""
    dropped_by: str = ""
    """The filter that keeps it from being trained on, if one does."""

    @property
    def moves(self) -> Sequence[int]:
        """Moves of all games, one after the other."""
        return tuple(move for game in self.games for move in game.moves)

    @property
    def end_reason(self) -> EndReason:
        """Why the last game ended."""
        return self.games[-1].end_reason

    @property
    def outcome(self) -> float:
        """Mean score of the games that were asked for.

        A later game for whose first reply a cut episode had no room counts `min_return`: to fill
        the context is no way out of games that might be lost. The game that was cut in its course
        counts 0, as a single one does. A failed episode says nothing of the policy: what it did not
        play counts 0.
        """
        scores = [game.outcome for game in self.games]
        if self.end_reason in CUTS:
            last = len(self.games) - 1
            if last and self.games[-1].first_turn == len(self.replies):
                scores[last] = self.min_return
            scores += [self.min_return] * (self.start.num_games - len(scores))
        return sum(scores) / self.start.num_games

    @property
    def detail(self) -> str:
        """What went wrong; of several games, how each of them ended."""
        if self.start.num_games == 1:
            return self.games[0].detail
        ends = [f"{game.end_reason} {game.outcome:+g} {game.detail}" for game in self.games]
        return "; ".join(f"game {number + 1}: {end.strip()}" for number, end in enumerate(ends))

    @property
    def truncated(self) -> bool:
        """Whether a token limit, and not the game, ended the episode or one of its replies."""
        return self.end_reason in CUTS or self.reply_cut

    @property
    def failed(self) -> bool:
        """Whether the episode says nothing about the policy, because other code raised."""
        return self.end_reason in FAILURES

    @property
    def trainable(self) -> bool:
        """Whether there is anything to train on: a reply, and a reward of which nothing failed."""
        unrewarded = self.judgement is not None and self.judgement.bonus is None
        return bool(self.replies) and not self.failed and not unrewarded

    @property
    def num_forfeits(self) -> int:
        """Games that the learner lost by a reply that was no legal move."""
        return sum(game.end_reason in FORFEITS for game in self.games)


@dataclass(frozen=True, slots=True, kw_only=True)
class Episode:
    """The games that a seat played in one context, token by token."""

    start: EpisodeStart
    turns: Sequence[Turn]
    games: Sequence[PlayedGame]
    """At least one; fewer than asked for when something cut the episode or failed."""
    min_return: float | int = -1.0
    """The lowest score of the game."""
    judgement: Judgement | None = None
    """Of the run's reward functions, where it has any."""
    dropped_by: str = ""
    """The filter that keeps it from being trained on, if one does."""

    @property
    def summary(self) -> EpisodeSummary:
        """The episode without its tokens."""
        last = self.turns[-1] if self.turns else None
        return EpisodeSummary(
            start=self.start,
            games=self.games,
            replies=tuple(turn.text for turn in self.turns),
            context_tokens=len(last.prompt_ids) + len(last.reply_ids) if last else 0,
            reply_cut=any(turn.cut for turn in self.turns),
            min_return=self.min_return,
            judgement=self.judgement,
            dropped_by=self.dropped_by,
        )
