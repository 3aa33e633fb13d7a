"""The engine on servers of a run, from its config."""

from collections.abc import Callable, Sequence
from pathlib import Path

from transformers import PreTrainedModel

from earl_trainer.config import RunConfig
from earl_trainer.serving.connect import connect_servers
from earl_trainer.serving.openai_http import ServerSettings
from earl_trainer.serving.served_engine import ServedEngine


def make_served_engine(
    config: RunConfig,
    model: PreTrainedModel,
    urls: Sequence[str],
    *,
    stop_ids: frozenset[int],
    capacity_tokens: int,
    note: Callable[[str], None] = lambda line: None,
) -> ServedEngine:
    """Connect to servers.

    Args:
        config: The run.
        model: Of the learner, in this process.
        urls: The servers to use.
        stop_ids: Tokens that end a reply.
        capacity_tokens: Context tokens that a server is thought to hold that does not tell.
        note: Is told in one line of lost servers.

    Raises:
        ValueError: If one does not answer, or was not started as it has to be.
    """
    rollout, timeout_s = config.rollout, config.selector.switch_timeout_s
    servers = connect_servers(
        urls,
        rollout.server_kind,
        ServerSettings(
            stop_ids=stop_ids,
            update_timeout_s=timeout_s,
            assumed_capacity_tokens=capacity_tokens,
        ),
        max_context_tokens=rollout.max_context_tokens,
        generate_timeout_s=config.dispatch.timeout_s,
    )
    return ServedEngine(
        model,
        servers,
        stop_ids=stop_ids,
        max_context_tokens=rollout.max_context_tokens,
        weights_dir=Path(rollout.weights_dir) if rollout.weights_dir else None,
        timeout_s=timeout_s,
        note=note,
    )


def servers_of_worker(urls: Sequence[str], worker: int, *, num_workers: int) -> list[str]:
    """Return worker i's servers: i, i + n, i + 2n, ... of n workers."""
    return list(urls[worker::num_workers])
