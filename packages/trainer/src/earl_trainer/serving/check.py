"""Rules of a run that generates on servers."""

from pathlib import Path

from earl_trainer.config import RunConfig
from earl_trainer.serving.connect import require_servers

SERVED = "openai"
"""The engine that generates on servers."""


def check_servers(config: RunConfig) -> None:
    """Refuse what servers cannot do; servers that do not answer last, as that takes time.

    Raises:
        ValueError: With the rule and the value.
    """
    rollout, servers = config.rollout, config.rollout.servers
    if rollout.engine != SERVED:
        if servers:
            raise ValueError(
                f"rollout.servers are those of rollout.engine openai, got {rollout.engine!r}"
            )
        return
    _check_addresses(servers)
    _check_workers(config)
    if rollout.server_kind == "openai":
        _check_fixed_policy(config)
    if rollout.weights_dir and not Path(rollout.weights_dir).is_dir():
        raise ValueError(f"rollout.weights_dir must be a folder, got {rollout.weights_dir!r}")
    require_servers(servers)


def _check_addresses(servers: tuple[str, ...]) -> None:
    if not servers:
        raise ValueError(
            "rollout.engine openai generates on rollout.servers, which must name one, got none"
        )
    for url in servers:
        if not url.startswith(("http://", "https://")):
            raise ValueError(
                f"rollout.servers must be addresses such as http://host:8000, got {url!r}"
            )
    if len(set(servers)) < len(servers):
        raise ValueError(f"rollout.servers must differ, got {', '.join(servers)}")


def _check_workers(config: RunConfig) -> None:
    for name, value in (
        ("rollout_workers", config.rollout_workers),
        ("selector.num_devices", config.selector.num_devices),
    ):
        if value != 1:
            raise ValueError(
                "servers generate, and not processes of the run: with rollout.engine openai "
                f"{name} must be 1, got {value}"
            )
    num_workers = len(config.asynchronous.worker_cores) or config.asynchronous.num_workers
    num_servers = len(config.rollout.servers)
    if config.is_asynchronous and num_workers > num_servers:
        raise ValueError(
            "every worker has servers of its own: asynchronous.num_workers must be at most the "
            f"{num_servers} of rollout.servers, got {num_workers}"
        )


def _check_fixed_policy(config: RunConfig) -> None:
    warmup_lr = config.warmup.lr if config.warmup.num_steps else 0.0
    for name, value in (("learner.lr", config.learner.lr), ("warmup.lr", warmup_lr)):
        if value:
            raise ValueError(
                "rollout.server_kind openai takes no weights, so that the policy must stay as it "
                f"is served: {name} must be 0, got {value:g}"
            )
