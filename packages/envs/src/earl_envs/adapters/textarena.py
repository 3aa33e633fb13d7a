"""TextArena's games; TextArena holds their rules, their texts and the reading of replies."""

import copy
import re
from collections.abc import Callable
from typing import NoReturn, final

from earl_envs.adapters.textarena_game import TextArenaGame, env_ids, refuse
from earl_envs.boundary import Failure
from earl_envs.end_reason import CUTS, FAILURES, EndReason
from earl_envs.text.chat_step import ChatStep
from earl_envs.text.history import Message, make_history
from earl_envs.text.illegal import Verdict, make_illegal_policy
from earl_envs.text.protocol import ParseFailure
from earl_envs.text.transcript import Transcript
from earl_envs.text.usage import TokenUsage, rough_tokens

MAX_REPLY_CHARS = 4_000
"""A longer reply is handed over without its beginning: some of TextArena's parsers take time that
grows with the square of a line's length (a second for 60,000 characters in Connect Four)."""

_REASONING = re.compile(r"<(think|thinking|thought|reasoning)>.*?(?:</\1>|\Z)", re.DOTALL)
_UNOPENED = re.compile(r"\A.*</(?:think|thinking|thought|reasoning)>", re.DOTALL)


@final
class TextArenaEnv:
    """An episode of a game of TextArena, all of its seats played by text, like a `ChatEnv`.

    The game's first message to a seat is its system message, what happened since its last turn its
    next user message. Its own words come back to no seat; the words of others do where the game
    passes them on, without their reasoning blocks. TextArena does not say whether a refused reply
    was illegal or unreadable: all count as illegal. It has no numbered actions, so that there is no
    `play` and the action of a `ChatStep` is None.

    Each call runs with random generators of the episode's own in place of the process's, which
    TextArena seeds and draws from.

    Example:
        env = TextArenaEnv("Nim-v0", num_players=2, illegal="retry(1)")
        env.reset(seed=0)
        while not env.done:
            env.step(player.reply(env.messages(env.seat)))
        env.end_reason, env.returns

    Attributes:
        env_id: TextArena's id of the game.
        num_seats: Players of the game.
        seed: The seed the episode started from; with `replies` it plays the episode again.
        seat: The seat to move, -1 when the episode is over or was never begun.
        returns: One score per seat, None while the episode runs; 0 for all if a limit or a failure
            ended it.
        end_reason: Why the episode ended, None while it runs.
        detail: One line for people about the end: TextArena's reason, or the error.
        replies: What the seats replied so far, in order.
        usage: What each reply cost in tokens, in order.
        num_turns: Turns so far, all seats together; a turn may hold several tries.
    """

    def __init__(
        self,
        env_id: str,
        *,
        num_players: int,
        history: str = "full",
        illegal: str = "forfeit",
        max_turns: int = 1_000,
        count_tokens: Callable[[str], int] = rough_tokens,
    ) -> None:
        """Set up episodes of one game.

        Args:
            env_id: As TextArena spells it, with or without `textarena/`. Its `-raw` and `-train`
                ids differ only in wrappers, which are taken off.
            num_players: As many as the game is for.
            history: What players are sent of their past; see `make_history`.
            illegal: What follows a reply that the game refuses: `forfeit` or `retry(k)`.
            max_turns: Turns after which an episode is cut: some games have no end of their own.
            count_tokens: Length of a text.

        Raises:
            ValueError: If there is no such game, it cannot start with so many players or without
                data or services that are not there, or a policy is unknown.
        """
        policy = make_illegal_policy(illegal)
        if policy.last is not Verdict.FORFEIT:
            raise ValueError(f"TextArena's games know 'forfeit' and 'retry(k)', got {illegal!r}")
        if max_turns < 1:
            raise ValueError(f"max_turns must be >= 1, got {max_turns}")
        self.env_id = env_id.removeprefix("textarena/")
        self.num_seats = num_players
        self._history = make_history(history)
        self._max_turns = max_turns
        self._count_tokens = count_tokens
        self._game = TextArenaGame(
            self.env_id, num_seats=num_players, num_retries=policy.num_retries
        )
        self.reset(seed=0)
        if self.end_reason is not None:
            refuse(self.env_id, self.detail)
        self._clear(seed=0)

    @property
    def done(self) -> bool:
        """Whether no seat has a turn."""
        return self.seat < 0

    def reset(self, *, seed: int) -> None:
        """Begin an episode whose every chance comes from `seed`, and forget the last one."""
        if seed < 0:
            raise ValueError(f"seed must not be negative, got {seed}")
        self._clear(seed=seed)
        systems = self._game.start(seed)
        if isinstance(systems, Failure):
            self._end(EndReason.ENV_ERROR, systems.error)
            return
        self._transcripts = {
            seat: Transcript(
                history=self._history,
                count_tokens=self._count_tokens,
                system=system,
                system_tokens=self._count_tokens(system),
            )
            for seat, system in enumerate(systems)
        }
        self._ask()

    def messages(self, seat: int) -> list[Message]:
        """Return the whole prompt of a seat: rules, its own past as far as kept, newest message."""
        newest = self.observation(seat)
        return self._transcripts[seat].messages(newest)

    def observation(self, seat: int) -> str:
        """Return the newest message to a seat; while it has no turn, what it will be told."""
        if seat not in self._transcripts:
            raise ValueError(
                f"seat must be in 0..{self.num_seats - 1} of a begun episode, got {seat}"
            )
        if seat == self.seat:
            return self._message
        return self._game.news(seat)

    def step(self, reply: str, *, cut: bool = False) -> ChatStep:
        """Take the reply of the seat to move.

        Args:
            reply: The player's words.
            cut: Whether they were cut at a token limit. A cut reply that the game refuses ends the
                episode as `turn_token_limit`: it is no fault of the player's.

        Raises:
            ValueError: If the episode is over.
        """
        self._check_running()
        self._account(reply, cut=cut)
        refused = self._game.move(self.seat, _spoken(reply)[-MAX_REPLY_CHARS:])
        if isinstance(refused, Failure):
            self._end(EndReason.ENV_ERROR, refused.error)
            return ChatStep(action=None, detail=refused.error)
        self.num_turns += not refused
        if cut and refused:
            self._end(EndReason.TURN_TOKEN_LIMIT, f"the reply was cut: {refused}")
        elif self._game.finished:
            self._score(EndReason.ILLEGAL_MOVE if refused else EndReason.FINISHED)
        else:
            self._ask()
        failure = ParseFailure.ILLEGAL if refused else None
        return ChatStep(action=None, failure=failure, detail=refused)

    def fail(self, reason: EndReason, detail: str = "") -> None:
        """End the episode for a reason that lies outside the game and the replies.

        Raises:
            ValueError: If the episode is over, or the reason is neither a cut nor a failure.
        """
        self._check_running()
        if reason not in CUTS | FAILURES:
            valid = ", ".join(sorted(CUTS | FAILURES))
            raise ValueError(f"an outside reason is one of {valid}, got {reason}")
        self._end(reason, detail)

    def clone(self) -> "TextArenaEnv":
        """Return a copy that plays on by itself, with the same future chance."""
        return copy.deepcopy(self)

    def _clear(self, *, seed: int) -> None:
        self.seed = seed
        self.seat = -1
        self.returns: tuple[float, ...] | None = None
        self.end_reason: EndReason | None = None
        self.detail = ""
        self.replies: tuple[str, ...] = ()
        self.usage: tuple[TokenUsage, ...] = ()
        self.num_turns = 0
        self._message = ""
        self._transcripts: dict[int, Transcript] = {}

    def _check_running(self) -> None:
        if self.done:
            raise ValueError("the episode is over or was never begun: call reset(seed=...)")

    def _ask(self) -> None:
        if self.num_turns >= self._max_turns:
            self._end(EndReason.MOVE_LIMIT, f"not over after {self.num_turns} turns")
            return
        asked = self._game.ask()
        if isinstance(asked, Failure):
            self._end(EndReason.ENV_ERROR, asked.error)
        else:
            self.seat, self._message = asked

    def _account(self, reply: str, *, cut: bool) -> None:
        before = self._transcripts[self.seat]
        after = before.add(self._message, reply)
        usage = TokenUsage(
            seat=self.seat,
            turn=self.num_turns,
            prompt_tokens=before.prompt_tokens(self._message),
            reply_tokens=after.exchanges[-1].reply_tokens,
            cut=cut,
        )
        self.usage = (*self.usage, usage)
        self.replies = (*self.replies, reply)
        self._transcripts = {**self._transcripts, self.seat: after}

    def _score(self, reason: EndReason) -> None:
        scored = self._game.scores()
        if isinstance(scored, Failure):
            self._end(EndReason.ENV_ERROR, scored.error)
        else:
            self._end(reason, *scored)

    def _end(
        self, reason: EndReason, detail: str, returns: tuple[float, ...] | None = None
    ) -> None:
        self.end_reason, self.detail = reason, detail
        self.returns = (0.0,) * self.num_seats if returns is None else returns
        self.seat = -1
        self._message = ""


def family_ids() -> list[str]:
    """Return the ids of all games, without those that differ in wrappers only."""
    return [f"textarena/{env_id}" for env_id in env_ids()]


def make_family_game(name: str, **params: object) -> NoReturn:
    """Refuse: these games list no moves, so that there is no `Game` of them.

    Raises:
        ValueError: Always; it says what to use instead.
    """
    raise ValueError(
        f"'textarena/{name}' is played by text alone: use "
        f"earl_envs.adapters.textarena.TextArenaEnv({name!r}, num_players=...)"
    )


def _spoken(reply: str) -> str:
    return _UNOPENED.sub("", _REASONING.sub("", reply))
