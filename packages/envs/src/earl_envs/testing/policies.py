"""Check of the illegal-move policies of a game's environments."""

from collections.abc import Iterator
from typing import Any

import gymnasium

from earl_envs.end_reason import FORFEITS, EndReason
from earl_envs.faces.registration import text_id
from earl_envs.testing.chat import GARBAGE
from earl_envs.testing.context import Context
from earl_envs.testing.faces import locate_env, make_known
from earl_envs.testing.finding import Finding

_POLICIES = ("retry(1)", "noop", "random_legal")


def gymnasium_policies(context: Context) -> Iterator[Finding]:
    """With `illegal` an environment does what the policy says, by number and by text.

    `retry(1)` leaves the position and forfeits at the second wrong action, `noop` leaves it and
    may cut the game, `random_legal` plays a legal move and says so. Where every action is legal
    the environment of numbers is not asked.
    """
    make_known(context)
    env_ids = (context.game_id, text_id(context.game_id))
    for env_id in env_ids:
        for illegal in _POLICIES:
            made = gymnasium.make(env_id, illegal=illegal, **context.params)
            env = made.unwrapped
            env.reset(seed=context.seed)
            foul = GARBAGE if env_id != context.game_id else _illegal_action(context, env)
            if foul is None:
                continue
            wrong = _deviation(env, illegal, foul, context.game.forfeit(0)[0])
            if wrong:
                yield locate_env(context, env, f"{env_id} with illegal={illegal!r}: {wrong}")


def _illegal_action(context: Context, env: Any) -> int | None:  # noqa: ANN401 - Gymnasium's
    legal = env.record().positions()[-1].legal
    return next((a for a in range(context.game.num_actions) if a not in legal), None)


def _deviation(env: Any, illegal: str, foul: object, floor: float) -> str:  # noqa: ANN401
    """Return what the policy should have done otherwise, empty if nothing."""
    before, legal = env.record().moves, env.record().positions()[-1].legal
    _, reward, terminated, truncated, info = env.step(foul)
    moves = env.record().moves
    if illegal == "random_legal":
        drawn = info.get("substituted")
        if drawn not in legal or moves[len(before) : len(before) + 1] != (drawn,):
            return f"a legal move must be played and named, got {drawn} and moves {moves}"
        return ""
    if moves != before or reward or terminated:
        return f"{foul!r} must change nothing, got reward {reward} and moves {moves}"
    if illegal == "noop":
        is_cut = info.get("end_reason") == EndReason.MOVE_LIMIT
        return "" if truncated == is_cut else f"the game ended as {info.get('end_reason')}"
    _, reward, terminated, _, info = env.step(foul)
    if not terminated or reward != floor or info["end_reason"] not in FORFEITS:
        return f"a second {foul!r} must cost {floor}, got {reward} and {info.get('end_reason')}"
    return ""
