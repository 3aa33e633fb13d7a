"""The judge of a run, from its config."""

from threading import Event

from earl_trainer.config import RunConfig
from earl_trainer.rewards.config import RewardConfig
from earl_trainer.rewards.function import parse_functions
from earl_trainer.rewards.judge import Judge
from earl_trainer.rewards.limits import RewardLimits
from earl_trainer.rewards.process import RewardProcess, RewardStartError
from earl_trainer.rewards.service import RewardService

_CHECK_TIMEOUT_S = 120.0


def check_reward_functions(config: RewardConfig) -> None:
    """Refuse functions that cannot be imported or called, as a process of the service finds them.

    Raises:
        ValueError: With the function and what is wrong with it.
    """
    targets = [function.target for function in parse_functions(config.functions)]
    if not targets:
        return
    try:
        process = RewardProcess(
            targets, _limits(config), start_timeout_s=_CHECK_TIMEOUT_S, stop=Event()
        )
    except RewardStartError as error:
        raise ValueError(f"reward.functions: {error}") from error
    process.kill()


def make_judge(config: RunConfig) -> Judge | None:
    """Start the processes that compute a run's own rewards; None where it has no functions."""
    rules = config.reward
    functions = parse_functions(rules.functions)
    if not functions:
        return None
    service = RewardService(
        [function.target for function in functions],
        num_processes=rules.num_processes,
        limits=_limits(rules),
    )
    return Judge(
        service,
        functions,
        game_id=config.env,
        on_failure=rules.on_failure,
        timeout_s=config.dispatch.timeout_s,
    )


def _limits(config: RewardConfig) -> RewardLimits:
    return RewardLimits(wall_s=config.wall_s, cpu_s=config.cpu_s, memory_bytes=config.memory_bytes)
