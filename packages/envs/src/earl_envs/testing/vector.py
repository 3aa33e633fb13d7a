"""Check of a game as a Gymnasium vector environment, against single ones."""

from collections.abc import Generator, Iterator, Mapping
from dataclasses import dataclass
from itertools import product
from typing import Any, final

import gymnasium
import numpy as np
from gymnasium.vector import AutoresetMode
from numpy.typing import NDArray

from earl_envs.boundary import Failure, attempt
from earl_envs.testing.context import Context
from earl_envs.testing.faces import make_known
from earl_envs.testing.finding import Finding

_NUM_ENVS = 4
_NUM_EPISODES = 2
_MAX_STEPS = 200
_OTHER_SEATINGS: tuple[dict[str, Any], ...] = ({"seat": 1}, {"opponent": None})
"""What games of more seats are asked for besides the defaults: seat 0 against random moves."""

Infos = dict[str, Any]  # Any: arrays of several types, as Gymnasium's infos have


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
        for wrong in _compare(context, made, mode, seating):
            yield Finding(wrong=f"vector environment in mode {mode.value}{shown}: {wrong}")


@final
@dataclass(slots=True)
class _Single:
    """One environment and what it showed last."""

    env: Any  # Gymnasium's
    board: NDArray[Any]
    info: Infos
    reward: float = 0.0
    terminated: bool = False
    truncated: bool = False
    num_ended: int = 0

    @property
    def over(self) -> bool:
        return self.terminated or self.truncated

    def reset(self) -> None:
        self.board, self.info = self.env.reset()
        self.reward, self.terminated, self.truncated = 0.0, False, False

    def step(self, action: int) -> None:
        self.board, self.reward, self.terminated, self.truncated, self.info = self.env.step(action)
        self.num_ended += self.over

    def choose(self, rng: np.random.Generator) -> int:
        legal = np.flatnonzero(self.info["action_mask"])
        return int(rng.choice(legal)) if len(legal) else 0


def _compare(
    context: Context,
    envs: Any,  # noqa: ANN401 - Gymnasium's
    mode: AutoresetMode,
    seating: Mapping[str, Any],
) -> Iterator[str]:
    rng = context.rng("gymnasium_vector")
    singles = [_start(context, context.seed + index, seating) for index in range(_NUM_ENVS)]
    boards, infos = envs.reset(seed=context.seed)
    yield from _differences(singles, boards, infos, "after reset(seed)")
    for step in range(_MAX_STEPS):
        actions = np.array([single.choose(rng) for single in singles])
        boards, rewards, terminated, truncated, infos = envs.step(actions)
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
            boards, infos = yield from _reset_ended(envs, singles, boards, infos, mode)
        yield from _differences(singles, boards, infos, f"at step {step}")
        if min(single.num_ended for single in singles) >= _NUM_EPISODES:
            return


def _start(context: Context, seed: int, seating: Mapping[str, Any]) -> _Single:
    env = gymnasium.make(context.game_id, **seating, **context.params).unwrapped
    return _Single(env, *env.reset(seed=seed))


def _reset_ended(
    envs: Any,  # noqa: ANN401 - Gymnasium's
    singles: list[_Single],
    boards: NDArray[Any],
    infos: Infos,
    mode: AutoresetMode,
) -> Generator[str, None, tuple[NDArray[Any], Infos]]:
    """Begin the next episodes where a mode has them begin before the next step."""
    ended = [single for single in singles if single.over]
    if not ended:
        return boards, infos
    mask = np.array([single.over for single in singles])
    if mode is AutoresetMode.SAME_STEP:
        for index in np.flatnonzero(mask).tolist():
            if not np.array_equal(infos["final_obs"][index], singles[index].board):
                yield f"final_obs of environment {index} is not its last board"
            if infos["final_info"]["end_reason"][index] != singles[index].info["end_reason"]:
                yield f"final_info of environment {index} lacks its end_reason"
    else:
        if not isinstance(attempt(envs.step, np.zeros(len(singles), np.int64)), Failure):
            yield "finished environments must refuse to step"
        boards, infos = envs.reset(options={"reset_mask": mask})
    for single in ended:
        single.reset()
    return boards, infos


def _differences(
    singles: list[_Single], boards: NDArray[Any], infos: Infos, when: str
) -> Iterator[str]:
    for index, single in enumerate(singles):
        if not np.array_equal(boards[index], single.board):
            yield f"board of environment {index} {when} differs from that of a single one"
        if infos["_seat"][index] and infos["seat"][index] != single.info["seat"]:
            yield f"seat of environment {index} {when} differs from that of a single one"
        has_mask = bool(infos["_action_mask"][index])
        if has_mask and not np.array_equal(infos["action_mask"][index], single.info["action_mask"]):
            yield f"action_mask of environment {index} {when} differs from that of a single one"
