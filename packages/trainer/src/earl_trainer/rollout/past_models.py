"""A run's own checkpoints as opponents."""

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import final

import numpy as np
from earl_envs import Failure, Game, TextProtocol
from earl_envs.opponents.pool import OpponentPool, PoolMember

from earl_trainer.rollout.chat import ChatFormat
from earl_trainer.rollout.engine import Completion
from earl_trainer.rollout.policies import Query, ReplyPolicy
from earl_trainer.types import EpisodeStart

_PREFIX, _MARKER = "step-", "COMPLETE"
_RATINGS_FILE = "ratings.jsonl"


@final
class LanguageOpponent:
    """A language model in an opponent's seat.

    In training it replies to the conversation of its own seat, many tables in one batch. As an
    opponent like any other it sees the present position only, so that its moves depend on nothing
    else.

    Args:
        policy: Generates the replies.
        game: The rules.
        chat: Renders the conversations.
        max_reply_tokens: A longer reply is cut.
    """

    def __init__(
        self, policy: ReplyPolicy, *, game: Game, chat: ChatFormat, max_reply_tokens: int
    ) -> None:
        self._policy = policy
        self._protocol = TextProtocol(game)
        self._chat = chat
        self._max_reply_tokens = max_reply_tokens

    def reply(self, queries: Sequence[Query]) -> Sequence[Completion | Failure]:
        """Answer every query, in order."""
        return self._policy.reply(queries)

    def move(self, game: Game, state: object, seat: int, rng: np.random.Generator) -> int:
        """Reply to the present position alone.

        Raises:
            ValueError: If the reply names no legal move.
        """
        message = self._protocol.turn_message(state, seat)
        dialogue = self._chat.start(self._protocol.system_message(), message)
        start = EpisodeStart(
            episode=0,
            table=0,
            group=0,
            seat=seat,
            game_seed=0,
            reply_seed=int(rng.integers(2**63)),
        )
        query = Query(
            start=start,
            turn=0,
            state=state,
            prompt_ids=dialogue.prompt_ids,
            max_new_tokens=self._max_reply_tokens,
        )
        (completion,) = self._policy.reply([query])
        if isinstance(completion, Failure):
            raise ValueError(completion.error)  # noqa: TRY004 - a failed reply is no wrong type
        parsed = self._protocol.parse(self._chat.decode(completion.ids), state)
        if parsed.action is None:
            raise ValueError(f"the model's reply names no legal move: {parsed.detail}")
        return parsed.action


@final
class PastModels:
    """The checkpoints of a run as a pool that grows while it trains.

    Lifecycle: `pool` before every collection, `record` after it. Members are the checkpoints of
    every `every_steps` steps that the run still keeps; none at first. Ratings stand in
    `ratings.jsonl` by the version of the weights that played, so that a resumed run goes on from
    those of its own past.

    Args:
        folder: Where the checkpoints are.
        sampling: A name of `earl_envs.opponents.pool.SAMPLINGS`.
        every_steps: A checkpoint of another step, as Ctrl-C leaves one, is no member: it would make
            the resumed run another one.
        load: Makes an opponent of a model folder.
        version: Tells the version of the weights that play now.
    """

    def __init__(
        self,
        folder: Path,
        *,
        sampling: str,
        every_steps: int,
        load: Callable[[Path], LanguageOpponent],
        version: Callable[[], int],
    ) -> None:
        self._folder = folder
        self._sampling = sampling
        self._every_steps = every_steps
        self._load = load
        self._version = version
        self._loaded: dict[str, LanguageOpponent] = {}

    def pool(self) -> OpponentPool | None:
        """Return the pool as it is now, or None before the first checkpoint."""
        names = self._names()
        self._loaded = {
            name: self._loaded.get(name) or self._load(self._folder / name / "model")
            for name in names
        }
        if not names:
            return None
        ratings = self._ratings()
        learner = ratings.get("", 0.0)
        members = [
            PoolMember(
                name=name,
                opponent=self._loaded[name],
                step=_step(name),
                # A new member is as strong as the learner that it is a copy of.
                rating=ratings.get(name, learner),
            )
            for name in names
        ]
        return OpponentPool(members=members, sampling=self._sampling, learner_rating=learner)

    def record(self, pool: OpponentPool, scores: Sequence[tuple[str, float]]) -> None:
        """Rate the members by the games of a collection.

        Args:
            pool: What `pool` returned before it.
            scores: Name of the member, and the learner's points: 1, 0.5 or 0.
        """
        for name, score in scores:
            pool = pool.update_rating(name, learner_score=score)
        ratings = {member.name: member.rating for member in pool.members}
        line = {"version": self._version(), "ratings": {"": pool.learner_rating, **ratings}}
        kept = [*self._earlier_lines(), json.dumps(line)]
        (self._folder / _RATINGS_FILE).write_text("".join(f"{kept_line}\n" for kept_line in kept))

    def _names(self) -> list[str]:
        found = [
            path.name
            for path in self._folder.glob(f"{_PREFIX}*")
            if not path.suffix and (path / _MARKER).is_file()
        ]
        return sorted(name for name in found if _step(name) % self._every_steps == 0)

    def _ratings(self) -> dict[str, float]:
        lines = self._earlier_lines()
        return json.loads(lines[-1])["ratings"] if lines else {}

    def _earlier_lines(self) -> list[str]:
        path = self._folder / _RATINGS_FILE
        lines = path.read_text().splitlines() if path.is_file() else []
        return [line for line in lines if json.loads(line)["version"] < self._version()]


def _step(name: str) -> int:
    return int(name.removeprefix(_PREFIX))
