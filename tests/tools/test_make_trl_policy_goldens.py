"""What is stored is what the tool asks trl about."""

import json
import random


def test_the_stored_inputs_are_those_that_the_tool_draws(load_tool):
    tool = load_tool("make_trl_policy_goldens")
    stored = json.loads(tool.GOLDEN.read_text())
    assert stored["library"].startswith("trl ")
    assert stored["constants"] == tool.CONSTANTS
    assert stored["inputs"] == tool.draw_inputs(random.Random(tool.SEED))
    assert len(stored["outputs"]["losses"]["grpo"]["gradient"]) == sum(tool.LENGTHS)
