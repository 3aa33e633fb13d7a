"""What is stored is what the tool asks trl about."""

import json
import random

import pytest


@pytest.mark.parametrize(
    ("path", "constants", "draw"),
    [
        ("GOLDEN", "CONSTANTS", "draw_inputs"),
        ("REWARD_GOLDEN", "REWARD_CONSTANTS", "draw_rewards"),
    ],
)
def test_the_stored_inputs_are_those_that_the_tool_draws(path, constants, draw, load_tool):
    tool = load_tool("make_trl_preference_goldens")
    stored = json.loads(getattr(tool, path).read_text())
    assert stored["library"].startswith("trl ")
    assert stored["constants"] == getattr(tool, constants)
    assert stored["inputs"] == getattr(tool, draw)(random.Random(tool.SEED))
