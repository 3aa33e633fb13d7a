"""Who replies at a table: the language model, or a script that shows it how."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, final, runtime_checkable

from earl_envs import Failure, Game, Opponent, TextProtocol, attempt, episode_rng

from earl_trainer.rollout.chat import ChatFormat
from earl_trainer.rollout.engine import NO_WEIGHTS, Completion, Engine, FinishReason, Request
from earl_trainer.seeding import derive_seed
from earl_trainer.types import EpisodeStart


@dataclass(frozen=True, slots=True, kw_only=True)
class Query:
    """One turn of a seat that replies."""

    start: EpisodeStart
    turn: int
    state: object
    """The game's state; a language model sees only `prompt_ids`."""
    prompt_ids: Sequence[int]
    max_new_tokens: int


@runtime_checkable
class ReplyPolicy(Protocol):
    """Answers turns with token ids."""

    def reply(self, queries: Sequence[Query]) -> Sequence[Completion | Failure]:
        """Answer every query, in order; where the game's own code failed, with that failure."""
        ...


@final
class LanguagePolicy:
    """The language model behind an engine.

    A reply is seeded by its episode and turn alone, so it does not depend on the batch it is in.
    """

    def __init__(self, engine: Engine, *, temperature: float) -> None:
        self._engine = engine
        self._temperature = temperature

    def reply(self, queries: Sequence[Query]) -> list[Completion]:
        """Generate a reply to every query."""
        return self._engine.generate([self.request(query) for query in queries])

    def request(self, query: Query) -> Request:
        """Write what the engine is asked for."""
        return Request(
            sequence_id=query.start.episode,
            prompt_ids=query.prompt_ids,
            max_new_tokens=query.max_new_tokens,
            temperature=0.0 if query.start.greedy else self._temperature,
            seed=derive_seed(query.start.reply_seed, query.turn),
        )


@final
class ScriptedPolicy:
    """An opponent of the suite in the learner's seat, its moves written as replies.

    Its episodes are demonstrations: in tokens and masks they look as if the model had played them.
    """

    def __init__(self, player: Opponent, *, game: Game, chat: ChatFormat) -> None:
        self._player = player
        self._game = game
        self._protocol = TextProtocol(game)
        self._chat = chat

    def reply(self, queries: Sequence[Query]) -> list[Completion | Failure]:
        """Write down the player's move for every query."""
        return [attempt(self._reply, query) for query in queries]

    def _reply(self, query: Query) -> Completion:
        rng = episode_rng(
            query.start.reply_seed, game_id="script", episode=query.turn, seat=query.start.seat
        )
        action = self._player.move(self._game, query.state, query.start.seat, rng)
        ids = self._chat.encode_reply(self._protocol.format_move(query.state, action))
        cut = len(ids) > query.max_new_tokens
        ids = ids[: query.max_new_tokens]
        return Completion(
            ids=ids,
            logprobs=(0.0,) * len(ids),
            versions=(NO_WEIGHTS,) * len(ids),
            finish_reason=FinishReason.LENGTH if cut else FinishReason.STOP,
        )
