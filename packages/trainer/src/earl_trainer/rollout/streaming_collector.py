"""Playing episodes while others begin and end: every game goes on when its own reply is there."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Protocol, final, runtime_checkable

from earl_envs import GameBatch

from earl_trainer.rollout.engine import Completion, Request
from earl_trainer.rollout.play import OpenTurn, Play
from earl_trainer.rollout.policies import Query, ReplyPolicy
from earl_trainer.rollout.seating import Seating
from earl_trainer.rollout.table import Table
from earl_trainer.types import Episode, EpisodeStart


@runtime_checkable
class StreamingGenerator(Protocol):
    """An engine that requests join and leave at every token."""

    def submit(self, request: Request) -> None:
        """Take on a reply."""
        ...

    def advance(self) -> list[tuple[int, Completion]]:
        """Generate a token of every reply; return those that ended, by their sequence."""
        ...

    def release(self, sequence_id: int) -> None:
        """Forget a conversation."""
        ...


@runtime_checkable
class StreamingPolicy(ReplyPolicy, Protocol):
    """A policy that also says what to ask an engine for."""

    def request(self, query: Query) -> Request:
        """Write the request of a turn."""
        ...


@dataclass(slots=True, kw_only=True)
class _Group:
    """Episodes that were begun together."""

    number: int
    starts: Sequence[EpisodeStart]
    batches: Sequence[GameBatch]
    tables: Sequence[Table]
    waiting: set[int] = field(default_factory=set[int])
    """Indices of the tables that wait for a reply."""
    over: set[int] = field(default_factory=set[int])
    """Indices of the tables whose contexts the engine has forgotten."""


@final
class StreamingCollector:
    """Plays groups of episodes, each at its own pace.

    Between two tokens scripted opponents move and prompts are written wherever a reply has ended;
    an opponent with another policy than the learner's replies at once.

    Lifecycle: `begin` groups at any time, `advance` while `is_busy`.

    Args:
        seating: Sets the tables.
        play: Moves them on.
        engine: Generates.
        policy: The learner's, whose requests the engine answers.
        on_episode: Called with every episode when it has ended, others of its group still running.
    """

    def __init__(
        self,
        seating: Seating,
        play: Play,
        *,
        engine: StreamingGenerator,
        policy: StreamingPolicy,
        on_episode: Callable[[Episode], None] | None = None,
    ) -> None:
        self._seating = seating
        self._play = play
        self._engine = engine
        self._policy = policy
        self._on_episode = on_episode
        self._groups: dict[int, _Group] = {}
        self._to_move: list[int] = []
        self._asked: dict[int, tuple[int, OpenTurn]] = {}

    @property
    def is_busy(self) -> bool:
        """Whether a group has not ended."""
        return bool(self._groups)

    @property
    def num_replies_running(self) -> int:
        """Replies that the engine has not finished."""
        return len(self._asked)

    def begin(self, number: int, starts: Sequence[EpisodeStart]) -> None:
        """Begin a group; its episodes' identities are not those of any other group running."""
        batches, tables = self._seating.set_tables(self._policy, starts)
        self._groups[number] = _Group(number=number, starts=starts, batches=batches, tables=tables)
        self._to_move.append(number)

    def advance(self, *, ask: bool = True) -> list[tuple[int, list[Episode]]]:
        """Let every reply gain a token and every game go on that can.

        Args:
            ask: Whether new replies are begun; else those running come to their end.

        Returns:
            The groups that ended, by their numbers, with their episodes in the order of the starts.
        """
        ended: list[tuple[int, list[Episode]]] = []
        if ask:
            to_move, self._to_move = self._to_move, []
            for number in to_move:
                ended.extend(self._move(self._groups[number]))
        if self._asked:
            self._hear(self._engine.advance())
        return ended

    def _move(self, group: _Group) -> list[tuple[int, list[Episode]]]:
        while True:
            tables = [table for table in group.tables if table.index not in group.waiting]
            self._play.move_opponents(group.batches, tables)
            turns = self._play.open_turns(tables, self._play.max_context_tokens)
            others = [turn for turn in turns if turn.talker.policy is not self._policy]
            for turn in turns:
                if turn.talker.policy is self._policy:
                    self._ask(group, turn)
            if not others:
                break
            for turn in others:
                (reply,) = turn.talker.policy.reply([turn.query])
                self._play.take_replies(group.batches, [turn], [reply])
        self._release(group)
        if group.waiting:
            return []
        return [(group.number, self._end(group))]

    def _release(self, group: _Group) -> None:
        """Let the engine forget the contexts of tables that are over; tell of their episodes."""
        for table in group.tables:
            if table.mover >= 0 or table.index in group.over:
                continue
            group.over.add(table.index)
            for talker in table.talkers.values():
                if talker.policy is self._policy:
                    self._engine.release(talker.start.episode)
                if talker.learns and self._on_episode is not None:
                    self._on_episode(talker.episode(min_return=self._play.min_return))

    def _ask(self, group: _Group, turn: OpenTurn) -> None:
        request = self._policy.request(turn.query)
        group.waiting.add(turn.table.index)
        self._asked[request.sequence_id] = group.number, turn
        self._engine.submit(request)

    def _hear(self, finished: Sequence[tuple[int, Completion]]) -> None:
        """Play the moves of replies that ended, those of a group at the same time."""
        heard: dict[int, list[tuple[OpenTurn, Completion]]] = {}
        for sequence_id, completion in finished:
            number, turn = self._asked.pop(sequence_id)
            heard.setdefault(number, []).append((turn, completion))
        for number, replies in heard.items():
            group = self._groups[number]
            turns = [turn for turn, _ in replies]
            group.waiting -= {turn.table.index for turn in turns}
            self._play.take_replies(group.batches, turns, [reply for _, reply in replies])
            if number not in self._to_move:
                self._to_move.append(number)

    def _end(self, group: _Group) -> list[Episode]:
        del self._groups[group.number]
        self._seating.record(group.tables)
        talkers = [talker for table in group.tables for talker in table.talkers.values()]
        min_return = self._play.min_return
        played = {t.start: t.episode(min_return=min_return) for t in talkers if t.learns}
        return [played[start] for start in group.starts]
