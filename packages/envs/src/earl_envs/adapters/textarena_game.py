"""One game of TextArena, without its wrappers and with chance of its own."""

import re
from collections.abc import Callable, Sequence
from typing import Any, NoReturn, ParamSpec, TypeVar, final

from earl_envs.adapters.private_random import PrivateRandom
from earl_envs.boundary import Failure, attempt
from earl_envs.suggest import suggest

try:
    import textarena
    from textarena.envs.registration import ENV_REGISTRY
except ImportError as error:
    raise ImportError("TextArena needs the extra: pip install earl-envs[textarena]") from error

Result = TypeVar("Result")
Args = ParamSpec("Args")

# What is known of TextArena 0.7.4, by id without the suffixes of its wrappers.
_ENDLESS = {
    "PublicGoodsGame-v0": "once every player is eliminated it looks for the next one without end",
}
# Their `reset` fills the board of the last game up, for which there is no room.
_KEEP_THEIR_BOARD = frozenset({"Stratego-v0"})
_SUFFIX = re.compile(r"-(raw|train)$")
_MISSING_NLTK_DATA = re.compile(r"Resource\s+(?:\x1b\[\d+m)?'?([\w./-]+)")


def env_ids() -> list[str]:
    """Return TextArena's ids, without those that differ in wrappers only."""
    return sorted(name for name in ENV_REGISTRY if not name.endswith(("-raw", "-train")))


@final
class TextArenaGame:
    """TextArena's rules behind four questions; each runs as somebody else's code.

    The observations are taken as TextArena's environments give them, each once; its wrappers would
    repeat those of earlier games after a reset. An answer is a `Failure` if TextArena raised.

    Raises:
        ValueError: If there is no such game, or it cannot be made here; the message says why.
    """

    def __init__(self, env_id: str, *, num_seats: int, num_retries: int) -> None:
        if env_id not in ENV_REGISTRY:
            raise ValueError(suggest(env_id, ENV_REGISTRY, what="game of TextArena"))
        self._env_id = env_id
        self._name = _SUFFIX.sub("", env_id)
        if self._name in _ENDLESS:
            refuse(env_id, _ENDLESS[self._name])
        self._num_seats = num_seats
        self._num_retries = num_retries
        self._chance = PrivateRandom(0)
        made = self._call(self._make)
        if isinstance(made, Failure):
            refuse(env_id, made.error)
        self._env: Any = made

    def start(self, seed: int) -> list[str] | Failure:
        """Begin a game and return what each seat is told before its first turn."""
        self._chance = PrivateRandom(seed)
        return self._call(self._start, seed)

    def ask(self) -> tuple[int, str] | Failure:
        """Return whose turn it is, and what happened since that seat was last asked."""
        return self._call(self._ask)

    def move(self, seat: int, reply: str) -> str | Failure:
        """Take a reply and return why it was refused, empty if it was not."""
        return self._call(self._move, seat, reply)

    def refuse_reply(self, reason: str) -> bool | Failure:
        """Count a reply that the game was not shown as refused; return whether it asks again."""
        return self._call(self._refuse_reply, reason)

    def scores(self) -> tuple[str, tuple[float, ...]] | Failure:
        """Return why a finished game ended and what each seat scored."""
        return self._call(self._scores)

    @property
    def finished(self) -> bool:
        """Whether the game is over."""
        return bool(self._env.state.done)

    def news(self, seat: int) -> str:
        """Return what happened since `seat` was last asked, without asking it."""
        return self._written(seat, self._env.state.observations[seat])

    def _call(
        self, function: Callable[Args, Result], *args: Args.args, **kwargs: Args.kwargs
    ) -> Result | Failure:
        with self._chance.installed():
            return attempt(function, *args, **kwargs)

    def _make(self) -> Any:  # noqa: ANN401 - TextArena has no type information
        env: Any = textarena.make(self._env_id)
        while isinstance(env, textarena.Wrapper):
            env = env.env
        return env

    def _start(self, seed: int) -> list[str]:
        if self._name in _KEEP_THEIR_BOARD:
            self._env = self._make()
        # numpy, which some games seed, takes 32 bits.
        self._env.reset(num_players=self._num_seats, seed=seed % 2**32)
        state = self._env.state
        state.error_allowance = self._num_retries
        told: list[str] = []
        for seat in range(self._num_seats):
            first = state.observations[seat]
            is_prompt = [kind is textarena.ObservationType.PROMPT for _, _, kind in first]
            num_prompts = [*is_prompt, False].index(False)
            told.append(self._written(seat, first[:num_prompts]))
            state.observations[seat] = first[num_prompts:]
        return told

    def _ask(self) -> tuple[int, str]:
        seat, seen = self._env.get_observation()
        return int(seat), self._written(seat, seen)

    def _move(self, seat: int, reply: str) -> str:
        state = self._env.state
        info = state.game_info[seat]
        info["invalid_move"] = False
        num_errors: int = getattr(state, "error_count", 0)  # not every kind of state counts them
        self._env.step(reply)
        if info["invalid_move"] or getattr(state, "error_count", 0) > num_errors:
            return " ".join(str(info.get("reason") or "the game refused the reply").split())
        return ""

    def _refuse_reply(self, reason: str) -> bool:
        state = self._env.state
        if getattr(state, "error_count", 0) >= self._num_retries:
            return False
        state.set_invalid_move(reason=reason)
        state.step()
        return True

    def _scores(self) -> tuple[str, tuple[float, ...]]:
        rewards, infos = self._env.close()
        reason = " ".join(str(infos[0].get("reason") or "").split())
        return reason, tuple(float(rewards[seat]) for seat in range(self._num_seats))

    def _written(self, seat: int, seen: Sequence[tuple[int, str, object]]) -> str:
        roles = self._env.state.role_mapping
        lines: list[str] = []
        for sender, content, _ in seen:
            if sender == textarena.GAME_ID:
                lines.append(content)
            elif sender != seat:
                lines.append(f"[{roles.get(sender, f'Player {sender}')}] {content}")
        return "\n".join(lines)


def refuse(env_id: str, error: str) -> NoReturn:
    """Say in one line why a game cannot start.

    Raises:
        ValueError: Always.
    """
    data = _MISSING_NLTK_DATA.search(error)
    if data is not None:
        error = f"it needs data of NLTK: python -m nltk.downloader {data[1]}"
    raise ValueError(f"TextArena cannot start {env_id!r}: {error}")
