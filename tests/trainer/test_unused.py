"""Options that nothing looks at."""

import pytest
from earl_trainer.rewards.config import RewardConfig
from earl_trainer.unused import refuse_unused


def test_only_what_differs_from_its_default_is_refused():
    rules = RewardConfig(doubt=0.5)
    refuse_unused("reward", rules, ("ensemble", "model_dtype"), needs="reward.models")
    with pytest.raises(
        ValueError, match=r"^reward\.doubt does nothing without reward\.models: "
    ) as e:
        refuse_unused("reward", rules, ("ensemble", "doubt"), needs="reward.models")
    assert str(e.value).endswith("it must be 1.0 then, got 0.5")
