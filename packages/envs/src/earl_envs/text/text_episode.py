"""What an episode played by text keeps and tells, whoever knows the rules."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence

from earl_envs.checks import flag, whole_number
from earl_envs.end_reason import CUTS, FAILURES, EndReason
from earl_envs.text.chat_step import ChatStep
from earl_envs.text.history import Message, make_history
from earl_envs.text.protocol import check_reply
from earl_envs.text.transcript import Transcript
from earl_envs.text.usage import TokenUsage


class TextEpisode(ABC):
    """An episode in which every seat is told its turn and replies in words.

    Lifecycle: `reset` begins an episode and forgets the last one; then `step` with the reply of
    `seat` until `done`. `end_reason` says why it ended and `returns` holds the scores, 0 for
    everybody if a limit or somebody else's failure ended it. A step takes as long late in an
    episode as early on; only the prompts grow, as the history policy lets them.

    Attributes:
        num_seats: Players of the game.
        seed: The seed the episode started from.
        seat: The seat to move, -1 when the episode is over or was never begun.
        returns: One score per seat, None while the episode runs.
        end_reason: Why the episode ended, None while it runs.
        detail: One line for people about the end; empty where there is nothing to add.
        num_turns: Turns so far, all seats together; a turn may hold several tries.
    """

    def __init__(
        self, *, num_seats: int, history: str, max_turns: int, count_tokens: Callable[[str], int]
    ) -> None:
        self.num_seats = num_seats
        self._history = make_history(history)
        self._max_turns = whole_number(max_turns, "max_turns", least=1)
        _check_function(count_tokens, "count_tokens")
        self._count_tokens = count_tokens
        self._clear(seed=0)

    @property
    def done(self) -> bool:
        """Whether no seat has a turn."""
        return self.seat < 0

    @property
    def replies(self) -> tuple[str, ...]:
        """What the seats wrote so far, in order and wrong replies too."""
        return tuple(self._replies)

    @property
    def usage(self) -> tuple[TokenUsage, ...]:
        """What each reply cost in tokens, in order."""
        return tuple(self._usage)

    @abstractmethod
    def reset(self, *, seed: int) -> None:
        """Begin an episode whose every chance comes from `seed`, and forget the last one."""

    @abstractmethod
    def step(self, reply: str, *, cut: bool = False) -> ChatStep:
        """Take the reply of the seat to move; `cut` says that it was cut at a token limit."""

    def messages(self, seat: int) -> list[Message]:
        """Return the whole prompt of a seat: rules, its own past as far as kept, newest message."""
        newest = self.observation(seat)
        return self._transcripts[seat].messages(newest)

    def observation(self, seat: int) -> str:
        """Return the newest message to a seat; while it has no turn, what it would be told.

        Raises:
            Exception: Whatever the game raises for a seat that has no turn.
        """
        whole_number(seat, "seat", least=0, most=self.num_seats - 1)
        return self._message if seat == self.seat else self._news(seat)

    def prompt_tokens(self, seat: int) -> int:
        """Return the length of what `messages` gives, without a chat template's own tokens."""
        newest = self.observation(seat)
        return self._transcripts[seat].past_tokens + self._count_tokens(newest)

    def fail(self, reason: EndReason, detail: str = "") -> None:
        """End the episode for a reason that lies outside the game and the replies.

        Raises:
            ValueError: If the episode is over, or the reason is neither a cut nor a failure.
        """
        self._check_running()
        if reason not in CUTS | FAILURES:
            valid = ", ".join(sorted(CUTS | FAILURES))
            raise ValueError(f"an outside reason is one of {valid}; got {str(reason)!r}")
        self._end(reason, detail)

    @abstractmethod
    def _news(self, seat: int) -> str:
        """Return what a seat that has no turn would be told."""

    def _clear(self, *, seed: int) -> None:
        self.seed = whole_number(seed, "seed", least=0)
        self.seat = -1
        self.returns: tuple[float, ...] | None = None
        self.end_reason: EndReason | None = None
        self.detail = ""
        self.num_turns = 0
        self._message = ""
        self._replies: list[str] = []
        self._usage: list[TokenUsage] = []
        self._transcripts: list[Transcript] = []

    def _brief(self, systems: Sequence[str]) -> None:
        """Tell every seat the rules."""
        tokens = {system: self._count_tokens(system) for system in dict.fromkeys(systems)}
        self._transcripts = [
            Transcript(
                history=self._history,
                count_tokens=self._count_tokens,
                system=system,
                system_tokens=tokens[system],
            )
            for system in systems
        ]

    def _check_running(self) -> None:
        if self.done:
            raise ValueError("the episode is over or was never begun: call reset(seed=...)")

    def _account(self, reply: str, *, cut: bool) -> None:
        check_reply(reply)
        flag(cut, "cut")
        transcript = self._transcripts[self.seat]
        past_tokens = transcript.past_tokens
        newest = transcript.add(self._message, reply)
        usage = TokenUsage(
            seat=self.seat,
            turn=self.num_turns,
            prompt_tokens=past_tokens + newest.message_tokens,
            reply_tokens=newest.reply_tokens,
            cut=cut,
        )
        self._replies.append(reply)
        self._usage.append(usage)

    def _out_of_turns(self) -> bool:
        """Cut the episode if it has had all its turns, and return whether it has."""
        over = self.num_turns >= self._max_turns
        if over:
            self._end(EndReason.MOVE_LIMIT, f"not over after {self.num_turns} turns")
        return over

    def _end(self, reason: EndReason, detail: str, returns: tuple[float, ...] = ()) -> None:
        self.end_reason, self.detail = reason, detail
        self.returns = returns or (0.0,) * self.num_seats
        self.seat = -1

    def _unshare(self) -> None:
        """Make what grows this episode's own, after a shallow copy."""
        self._replies, self._usage = [*self._replies], [*self._usage]
        self._transcripts = [transcript.copy() for transcript in self._transcripts]


def _check_function(value: object, what: str) -> None:
    if not callable(value):
        raise ValueError(f"{what} must be a function of a text, got {value!r}")  # noqa: TRY004
