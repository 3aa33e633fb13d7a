"""Pgx: vectorised steps with automatic reset, compiled one by one and as a scan of many."""

from collections.abc import Iterator
from typing import Any

import jax  # pyright: ignore[reportMissingImports]  # lives in the environment of this driver
import jax.numpy as jnp  # pyright: ignore[reportMissingImports]
import pgx  # pyright: ignore[reportMissingImports]
from driver import Run, Workload, drive
from pgx.experimental import auto_reset  # pyright: ignore[reportMissingImports]

NUM_SCANNED_STEPS = 128


def play(game: str, batch: int) -> tuple[Any, Any]:
    """Return a start of `batch` games and a function that makes one random move in each."""
    env: Any = pgx.make(game)
    step = jax.vmap(auto_reset(env.step, env.init))
    state = jax.jit(jax.vmap(env.init))(jax.random.split(jax.random.key(0), batch))

    def move(carry: Any, _: None) -> tuple[Any, Any]:  # noqa: ANN401 - jax's own types
        state, key = carry
        key, choice, reset = jax.random.split(key, 3)
        logits = jnp.where(state.legal_action_mask, 0.0, -jnp.inf)
        actions = jax.random.categorical(choice, logits, axis=-1)
        state = step(state, actions, jax.random.split(reset, batch))
        # What a caller would look at, so that none of it is compiled away.
        seen = state.observation.sum() + state.legal_action_mask.sum() + state.rewards.sum()
        return (state, key), seen

    return (state, jax.random.key(1)), move


def stepped(game: str, batch: int) -> Run:
    """Wait for the result of every step, as a policy outside has to."""
    carry, move = play(game, batch)

    def step(carry: Any) -> Any:  # noqa: ANN401 - as above
        return move(carry, None)[0]

    compiled: Any = jax.jit(step)

    def run(num_calls: int) -> int:
        nonlocal carry
        for _ in range(num_calls):
            carry = jax.block_until_ready(compiled(carry))
        return num_calls * batch

    return run


def scanned(game: str, batch: int) -> Run:
    """Keep many steps inside one compiled function."""
    carry, move = play(game, batch)

    def steps(carry: Any) -> Any:  # noqa: ANN401 - as above
        return jax.lax.scan(move, carry, None, NUM_SCANNED_STEPS)

    compiled: Any = jax.jit(steps)

    def run(num_calls: int) -> int:
        nonlocal carry
        for _ in range(num_calls):
            carry, _ = jax.block_until_ready(compiled(carry))
        return num_calls * batch * NUM_SCANNED_STEPS

    return run


def workloads(game: str, batch: int) -> Iterator[Workload]:
    """List what is measured."""
    for variant, make in (("one compiled call a step", stepped), ("lax.scan", scanned)):
        yield Workload(
            game=game,
            batch=batch,
            variant=variant,
            observed=True,
            make=lambda make=make: make(game, batch),
        )


if __name__ == "__main__":
    drive("pgx", "pgx", workloads)
