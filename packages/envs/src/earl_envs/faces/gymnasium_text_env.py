"""A game as a Gymnasium environment of words."""

import math
import string
from collections.abc import Callable
from dataclasses import asdict
from typing import Any, final

import numpy as np
from gymnasium.spaces import Text
from numpy.typing import NDArray

from earl_envs.boundary import Failure, attempt
from earl_envs.end_reason import CUTS, FAILURES, EndReason
from earl_envs.faces.episode import EpisodeKey, ending
from earl_envs.faces.options import as_policy
from earl_envs.faces.others import Others
from earl_envs.faces.render import render
from earl_envs.faces.series import SeriesEnv
from earl_envs.faces.text_limits import TextLimits, as_limits
from earl_envs.opponents.base import Opponent
from earl_envs.record import GameRecord
from earl_envs.registry import make_game
from earl_envs.text.chat_env import ChatEnv
from earl_envs.text.chat_step import ChatStep
from earl_envs.text.protocol import check_reply
from earl_envs.text.usage import rough_tokens

_MAX_CHARS = 2**20
_MAX_SAMPLED_CHARS = 64


@final
class AnyText(Text):
    """Strings of any characters; `sample` draws short ones of printable ASCII."""

    def __init__(self) -> None:
        super().__init__(_MAX_CHARS, min_length=0, charset=frozenset(string.printable))

    def contains(self, x: object) -> bool:
        """Return whether `x` is a string."""
        return isinstance(x, str)

    def sample(self, mask: object = None, probability: object = None) -> str:
        """Draw up to 64 characters."""
        if mask is not None or probability is not None:
            raise ValueError("any text is allowed here: there is no mask to sample with")
        num_characters = int(self.np_random.integers(_MAX_SAMPLED_CHARS + 1))
        return "".join(self.np_random.choice(self.character_list, num_characters))


@final
class GameTextEnv(SeriesEnv[str, str]):
    """Replies in, messages out.

    The observation is what the agent's seat is told now; the first one of an episode begins with
    the rules. `info["messages"]` is the whole prompt under the `history` policy, as role and
    content; `info["predicted_remaining_turns"]` says how many turns the seat may still have, at
    most, and after a reply `info["usage"]` what it cost in tokens. The action is the agent's reply,
    any string. Rewards, ends and seeds are those of `GameEnv`; a reply without a move forfeits as
    `unparsable` or `illegal_move`, unless `illegal` says otherwise, and is in the info as
    `failure`. An episode at one of its `limits` is truncated with reward 0. In worker processes use
    `shared_memory=False`: Gymnasium encodes shared text character by character and takes known
    characters only.

    Example:
        env = gymnasium.make("earl/TicTacToe-Text-v0", opponent="random", seat=0)
        message, info = env.reset(seed=0)
        message, reward, terminated, truncated, info = env.step("The centre: [5]")
    """

    def __init__(
        self,
        game_id: str,
        *,
        opponent: str | Opponent | None = "random",
        seat: int = 0,
        illegal: str = "forfeit",
        history: str = "full",
        limits: TextLimits | None = None,
        count_tokens: Callable[[str], int] = rough_tokens,
        render_mode: str | None = None,
        **params: Any,  # noqa: ANN401 - each game has its own
    ) -> None:
        """Seat the agent.

        Args:
            game_id: Built in, registered or installed.
            opponent: Plays all other seats, a player or the name of one; "self" or None lets the
                agent play every seat, each step rewarded with the score of the seat that replied.
            seat: The agent's, if there is an opponent.
            illegal: `forfeit`, `retry(k)`, `noop` or `random_legal`.
            history: `full`, `last-k` or `board-only`.
            limits: Where an episode is cut, by default nowhere but at the game's `max_moves`.
            count_tokens: Length of a text.
            render_mode: `ansi`, `rgb_array` or None.
            **params: Keyword arguments of the game's class.
        """
        super().__init__(render_mode=render_mode)
        as_policy(illegal)
        self.observation_space = AnyText()
        self.action_space = AnyText()
        self._game_id, self._params = game_id, params
        self._game = make_game(game_id, **params)
        self._limits = as_limits(limits)
        self._count_tokens = count_tokens
        self._chat = ChatEnv(
            self._game,
            history=history,
            illegal=illegal,
            max_turns=self._limits.turns,
            count_tokens=count_tokens,
        )
        self._others = Others(game_id, self._game, opponent=opponent, seat=seat)
        self._seat = self._mover = self._others.seat
        self._num_replies = 0
        self._room_tokens = math.inf  # for the agent's next reply
        self._informed: set[int] = set()

    def step(self, action: object) -> tuple[str, float, bool, bool, dict[str, Any]]:
        """Take the agent's reply and let the others answer; see the class."""
        reply, chat = check_reply(action), self._chat
        if chat.done and (self._num_replies or self._key is None):
            raise ValueError(f"the episode is over ({chat.end_reason}): call reset()")
        self._num_replies += 1
        self._mover = self._seat
        # An episode that failed before the agent's first turn is reported by its first step.
        outcome = ChatStep(action=None)
        if not chat.done:
            outcome = chat.step(reply, cut=self._count_tokens(reply) >= self._room_tokens)
        self._let_others_play()
        reward = 0.0 if chat.returns is None else chat.returns[self._mover]
        truncated = chat.end_reason in CUTS | FAILURES
        return self._observe(), reward, chat.done and not truncated, truncated, self._info(outcome)

    def render(self) -> str | NDArray[np.uint8]:
        """Draw what the agent's seat sees."""
        return render(self.render_mode, self._game, self._chat.state, self._seat)

    def record(self) -> GameRecord:
        """Return what replays the episode to its present state."""
        return self._chat.record(self._game_id, **self._params)

    def _begin(self, key: EpisodeKey) -> tuple[str, dict[str, Any]]:
        self._num_replies = 0
        self._informed.clear()
        self._chat.reset(seed=key.game_seed)
        self._others.begin(key)
        self._let_others_play()
        return self._observe(), self._info(ChatStep(action=None))

    def _let_others_play(self) -> None:
        chat = self._chat
        self._others.play(chat)
        if self._others.opponent is None:
            self._seat = self._mover if chat.done else chat.seat
        if not chat.done:
            prompt_tokens = chat.prompt_tokens(self._seat)
            self._room_tokens = self._limits.room_tokens(prompt_tokens)
            if self._room_tokens < 1:
                why = f"the prompt of {prompt_tokens} tokens leaves no room for a reply"
                chat.fail(EndReason.CONTEXT_LIMIT, why)

    def _observe(self) -> str:
        seen = attempt(self._chat.observation, self._seat)
        if isinstance(seen, Failure):
            return ""
        rules = "" if self._seat in self._informed else attempt(self._game.rules)
        self._informed.add(self._seat)
        return f"{rules}\n\n{seen}" if isinstance(rules, str) and rules else seen

    def _info(self, outcome: ChatStep) -> dict[str, Any]:
        chat = self._chat
        info: dict[str, Any] = {"seat": self._seat}
        if chat.usage:
            info["usage"] = asdict(chat.usage[-1])
        if outcome.failure is not None:
            info["failure"] = outcome.failure
        if outcome.substituted:
            info["substituted"] = outcome.action
        if chat.returns is None:
            prompt = chat.messages(self._seat)
            info["messages"] = [{"role": m.role, "content": m.content} for m in prompt]
            info["predicted_remaining_turns"] = chat.predicted_remaining_turns(self._seat)
        else:
            info |= ending(chat.returns, chat.end_reason)
        detail = chat.detail or outcome.detail
        return info | ({"detail": detail} if detail else {})
