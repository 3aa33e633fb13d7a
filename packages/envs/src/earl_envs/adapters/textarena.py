"""TextArena's games; TextArena holds their rules, their texts and the reading of replies."""

import copy
from collections.abc import Callable
from typing import NoReturn, final

from earl_envs.adapters.textarena_game import TextArenaGame, env_ids, refuse
from earl_envs.boundary import Failure
from earl_envs.end_reason import EndReason
from earl_envs.text.chat_step import ChatStep
from earl_envs.text.illegal import Verdict, make_illegal_policy
from earl_envs.text.protocol import ParseFailure
from earl_envs.text.reasoning import without_reasoning
from earl_envs.text.text_episode import TextEpisode
from earl_envs.text.usage import rough_tokens

MAX_REPLY_CHARS = 4_000
"""A reply that is longer without its reasoning is not handed over: some of TextArena's parsers take
time that grows with the square of a line's length (a second for 60,000 characters in Connect Four),
and a part of it may name another move than the whole."""


@final
class TextArenaEnv(TextEpisode):
    """An episode of a game of TextArena, played by text; see `TextEpisode`.

    The game's first message to a seat is its system message, what happened since its last turn its
    next user message. Its own words come back to no seat; the words of others do where the game
    passes them on, without their reasoning blocks. TextArena does not say whether a refused reply
    was illegal or unreadable: all count as illegal, but those of more than `MAX_REPLY_CHARS`
    characters, which it never sees, as unparsable. It lists no legal moves and its games decide
    whose turn it is, so that a turn can neither be spent without a move nor be played by chance:
    of the illegal-move policies there are `forfeit` and `retry(k)`. A game that some replies keep
    busy for ever is refused. It has no numbered actions: the action of a
    `ChatStep` is None, and `seed` and `replies` are what plays an episode again. `detail` is
    TextArena's own reason for an end, or the error.

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
            raise ValueError(
                f"TextArena's games know 'forfeit' and 'retry(k)', as they list no legal moves and "
                f"choose whose turn it is themselves, got {illegal!r}"
            )
        self.env_id = env_id.removeprefix("textarena/")
        super().__init__(
            num_seats=num_players, history=history, max_turns=max_turns, count_tokens=count_tokens
        )
        self._game = TextArenaGame(
            self.env_id, num_seats=num_players, num_retries=policy.num_retries
        )
        self.reset(seed=0)
        if self.end_reason is not None:
            refuse(self.env_id, self.detail)
        self._clear(seed=0)

    def reset(self, *, seed: int) -> None:
        """Begin an episode whose every chance comes from `seed`, and forget the last one."""
        self._clear(seed=seed)
        systems = self._game.start(seed)
        if isinstance(systems, Failure):
            self._end(EndReason.ENV_ERROR, systems.error)
            return
        self._brief(systems)
        self._ask()

    def step(self, reply: str, *, cut: bool = False) -> ChatStep:
        """Take the reply of the seat to move.

        Args:
            reply: The player's words.
            cut: Whether they were cut at a token limit. A cut reply that the game refuses ends the
                episode as `turn_token_limit`: it is no fault of the player's.

        Raises:
            ValueError: If the episode is over, or the reply no string.
        """
        self._check_running()
        self._account(reply, cut=cut)
        spoken = without_reasoning(reply)
        if len(spoken) > MAX_REPLY_CHARS:
            return self._refuse_long(len(spoken), cut=cut)
        refused = self._game.move(self.seat, spoken)
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

    def clone(self) -> "TextArenaEnv":
        """Return a copy that plays on by itself, with the same future chance."""
        return copy.deepcopy(self)

    def _news(self, seat: int) -> str:
        if not self._transcripts:
            raise ValueError(f"there is no news: {self.detail or 'call reset(seed=...) first'}")
        return self._game.news(seat)

    def _refuse_long(self, num_chars: int, *, cut: bool) -> ChatStep:
        detail = f"a reply has at most {MAX_REPLY_CHARS} characters, got {num_chars}"
        asked_again = self._game.refuse_reply(detail)
        if isinstance(asked_again, Failure):
            self._end(EndReason.ENV_ERROR, asked_again.error)
        elif cut:
            self._end(EndReason.TURN_TOKEN_LIMIT, f"the reply was cut: {detail}")
        elif asked_again:
            self._ask()
        else:
            share = 1 / max(1, self.num_seats - 1)
            scores = [-1.0 if seat == self.seat else share for seat in range(self.num_seats)]
            self._end(EndReason.UNPARSABLE, detail, tuple(scores))
        return ChatStep(action=None, failure=ParseFailure.UNPARSABLE, detail=detail)

    def _ask(self) -> None:
        if self._out_of_turns():
            return
        asked = self._game.ask()
        if isinstance(asked, Failure):
            self._end(EndReason.ENV_ERROR, asked.error)
        else:
            self.seat, self._message = asked

    def _score(self, reason: EndReason) -> None:
        scored = self._game.scores()
        if isinstance(scored, Failure):
            self._end(EndReason.ENV_ERROR, scored.error)
        else:
            self._end(reason, *scored)


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
