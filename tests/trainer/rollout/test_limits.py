"""How much room a context gets."""

import pytest
from earl_trainer.config import RunConfig
from earl_trainer.overrides import resolve
from earl_trainer.rollout.limits import context_share


@pytest.mark.parametrize(
    ("num_workers", "capacity_tokens", "num_episodes", "share"),
    [(1, 1000, 10, 100), (1, 999, 10, 99), (3, 1000, 10, 250), (10, 1000, 10, 1000)],
)
def test_cut_contexts_get_equal_shares_of_one_engines_memory(
    num_workers, capacity_tokens, num_episodes, share
):
    def limit(overflow):
        config = resolve(
            RunConfig(), {"rollout_workers": num_workers, "rollout": {"overflow": overflow}}
        )
        return context_share(config, capacity_tokens=capacity_tokens, num_episodes=num_episodes)

    assert limit("cut") == share
    assert limit("queue") is None
