"""Checks of a game as Gymnasium vector environments, against single ones."""

from collections.abc import Callable, Generator, Iterator, Sequence
from functools import partial
from itertools import product
from typing import Any

import gymnasium
import numpy as np
from gymnasium.vector import AutoresetMode
from numpy.typing import NDArray

from earl_envs.boundary import Failure, attempt
from earl_envs.faces.registration import text_id
from earl_envs.game import Game
from earl_envs.record import start_position
from earl_envs.testing.context import Context
from earl_envs.testing.faces import make_known
from earl_envs.testing.finding import Finding
from earl_envs.text.protocol import TextProtocol

_NUM_ENVS = 4
_NUM_TEXT_ENVS = 2
_NUM_EPISODES = 2
_MAX_STEPS = 200
_OTHER_SEATINGS: tuple[dict[str, Any], ...] = ({"seat": 1}, {"opponent": None})
"""What games of more seats are asked for besides the defaults: seat 0 against random moves."""

Infos = dict[str, Any]  # Any: arrays of several types, as Gymnasium's infos have
Seen = NDArray[Any] | tuple[str, ...]
"""What all environments show: boards or texts."""


def gymnasium_vector(context: Context) -> Iterator[Finding]:
    """`gymnasium.make_vec(id)` plays as single environments do, in all three autoreset modes."""
    make_known(context)
    seatings = ({}, *(_OTHER_SEATINGS if context.game.num_seats > 1 else ()))
    for seating, mode in product(seatings, AutoresetMode):
        shown = "".join(f", {name}={value}" for name, value in seating.items())
        made = attempt(
            gymnasium.make_vec,
            context.game_id,
            num_envs=_NUM_ENVS,
            autoreset_mode=mode,
            **seating,
            **context.params,
        )
        if isinstance(made, Failure):
            yield Finding(
                wrong=f"gymnasium.make_vec({context.game_id!r}{shown}) raises {made.error}"
            )
            return
        make = partial(gymnasium.make, context.game_id, **seating, **context.params)
        singles = [_Single(make, context.seed + index) for index in range(_NUM_ENVS)]
        yield from _findings(context, made, mode, singles, f"in mode {mode.value}{shown}")


def gymnasium_text_vector(context: Context) -> Iterator[Finding]:
    """`make_vec(text id)` says what single environments say, in all three autoreset modes."""
    make_known(context)
    env_id = text_id(context.game_id)
    for mode in AutoresetMode:
        made = attempt(
            gymnasium.make_vec,
            env_id,
            num_envs=_NUM_TEXT_ENVS,
            vectorization_mode="sync",
            vector_kwargs={"autoreset_mode": mode},
            **context.params,
        )
        if isinstance(made, Failure):
            yield Finding(wrong=f"gymnasium.make_vec({env_id!r}) raises {made.error}")
            return
        make = partial(gymnasium.make, env_id, **context.params)
        singles = [
            _Talking(make, context.seed + index, context.game) for index in range(_NUM_TEXT_ENVS)
        ]
        yield from _findings(context, made, mode, singles, f"of words in mode {mode.value}")


class _Single:
    """One environment and what it showed last."""

    def __init__(self, make: Callable[[], Any], seed: int) -> None:
        self.env = make().unwrapped
        self.seen, self.info = self.env.reset(seed=seed)
        self.reward, self.terminated, self.truncated = 0.0, False, False
        self.num_ended = 0

    @property
    def over(self) -> bool:
        return self.terminated or self.truncated

    def reset(self) -> None:
        self.seen, self.info = self.env.reset()
        self.reward, self.terminated, self.truncated = 0.0, False, False

    def step(self, action: object) -> None:
        self.seen, self.reward, self.terminated, self.truncated, self.info = self.env.step(action)
        self.num_ended += self.over

    def choose(self, rng: np.random.Generator) -> int | str:
        legal = np.flatnonzero(self.info["action_mask"])
        return int(rng.choice(legal)) if len(legal) else 0


class _Talking(_Single):
    """One that takes words."""

    def __init__(self, make: Callable[[], Any], seed: int, game: Game) -> None:
        super().__init__(make, seed)
        self._protocol = TextProtocol(game)
        self._followed: tuple[int, int] = (-1, 0)  # seed, and number of moves
        self._state: Any = None

    def choose(self, rng: np.random.Generator) -> int | str:
        game, state = self._protocol.game, self._follow()
        if game.returns(state) is not None:
            return ""
        return self._protocol.format_move(state, int(rng.choice(game.legal(state))))

    def _follow(self) -> Any:  # noqa: ANN401 - each game has its own state
        """Return the state; a whole replay for every reply would take a square of the moves."""
        record = self.env.record()
        if record.seed != self._followed[0]:
            self._state = start_position(self._protocol.game, record.seed).state
            self._followed = (record.seed, 0)
        for move in record.moves[self._followed[1] :]:
            self._state = self._protocol.game.apply(self._state, move)
        self._followed = (record.seed, len(record.moves))
        return self._state


def _findings(
    context: Context,
    envs: Any,  # noqa: ANN401 - Gymnasium's
    mode: AutoresetMode,
    singles: Sequence[_Single],
    shown: str,
) -> Iterator[Finding]:
    for wrong in _compare(context, envs, mode, singles):
        yield Finding(wrong=f"vector environment {shown}: {wrong}")
    if not any(single.num_ended for single in singles):
        wrong = f"not decided: no end within {_MAX_STEPS} steps of a vector environment {shown}"
        yield Finding(wrong=wrong, is_note=True)


def _compare(
    context: Context,
    envs: Any,  # noqa: ANN401 - Gymnasium's
    mode: AutoresetMode,
    singles: Sequence[_Single],
) -> Iterator[str]:
    rng = context.rng("gymnasium_vector")
    seen, infos = envs.reset(seed=context.seed)
    yield from _differences(singles, seen, infos, "after reset(seed)")
    for step in range(_MAX_STEPS):
        actions = np.array([single.choose(rng) for single in singles])
        seen, rewards, terminated, truncated, infos = envs.step(actions)
        for single, action in zip(singles, actions.tolist(), strict=True):
            if single.over:  # only under NEXT_STEP: this step begins the next episode
                single.reset()
            else:
                single.step(action)
        flags = {
            "rewards": (rewards, [single.reward for single in singles]),
            "terminations": (terminated, [single.terminated for single in singles]),
            "truncations": (truncated, [single.truncated for single in singles]),
        }
        for name, (got, expected) in flags.items():
            if got.tolist() != expected:
                yield f"{name} of step {step} must be {expected}, got {got.tolist()}"
        if mode is not AutoresetMode.NEXT_STEP:
            seen, infos = yield from _reset_ended(envs, singles, seen, infos, mode)
        yield from _differences(singles, seen, infos, f"at step {step}")
        if min(single.num_ended for single in singles) >= _NUM_EPISODES:
            return


def _reset_ended(
    envs: Any,  # noqa: ANN401 - Gymnasium's
    singles: Sequence[_Single],
    seen: Seen,
    infos: Infos,
    mode: AutoresetMode,
) -> Generator[str, None, tuple[Seen, Infos]]:
    """Begin the next episodes where a mode has them begin before the next step."""
    ended = [single for single in singles if single.over]
    if not ended:
        return seen, infos
    mask = np.array([single.over for single in singles])
    if mode is AutoresetMode.SAME_STEP:
        for index in np.flatnonzero(mask).tolist():
            if not np.array_equal(infos["final_obs"][index], singles[index].seen):
                yield f"final_obs of environment {index} is not what it showed last"
            if infos["final_info"]["end_reason"][index] != singles[index].info["end_reason"]:
                yield f"final_info of environment {index} lacks its end_reason"
    else:
        if not isinstance(attempt(envs.step, np.zeros(len(singles), np.int64)), Failure):
            yield "finished environments must refuse to step"
        seen, infos = envs.reset(options={"reset_mask": mask})
    for single in ended:
        single.reset()
    return seen, infos


def _differences(singles: Sequence[_Single], seen: Seen, infos: Infos, when: str) -> Iterator[str]:
    for index, single in enumerate(singles):
        if not np.array_equal(seen[index], single.seen):
            yield f"observation of environment {index} {when} differs from that of a single one"
        if infos["_seat"][index] and infos["seat"][index] != single.info["seat"]:
            yield f"seat of environment {index} {when} differs from that of a single one"
        has_mask = "action_mask" in infos and bool(infos["_action_mask"][index])
        if has_mask and not np.array_equal(infos["action_mask"][index], single.info["action_mask"]):
            yield f"action_mask of environment {index} {when} differs from that of a single one"
