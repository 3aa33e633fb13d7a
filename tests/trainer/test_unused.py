"""Options that nothing looks at."""

import pytest
from earl_trainer.rewards.config import RewardConfig
from earl_trainer.unused import refuse_unused


def test_only_what_differs_from_its_default_is_refused():
    rules = RewardConfig(doubt=0.5)
    refuse_unused("reward", rules, ("ensemble", "model_dtype"), "there are no reward.models")
    with pytest.raises(
        ValueError, match=r"^there are no reward\.models: reward\.doubt must be 1\.0, got 0\.5$"
    ):
        refuse_unused("reward", rules, ("ensemble", "doubt"), "there are no reward.models")
