"""How long a context may get."""

from earl_trainer.config import RunConfig


def context_share(config: RunConfig, *, capacity_tokens: int, num_episodes: int) -> int | None:
    """Return the room of one context where every context gets an equal share of the memory.

    floor(C / ceil(R / W)) for capacity C of an engine and R episodes played by W workers: what an
    engine gives to each that sets memory aside beforehand, as long as the contexts may get.

    Args:
        config: The run.
        capacity_tokens: Of one engine at the degree in use.
        num_episodes: Of the whole step, all in flight together.

    Returns:
        None where contexts share what there is and wait for one another.
    """
    if config.rollout.overflow == "queue":
        return None
    return capacity_tokens // -(-num_episodes // config.rollout_workers)
