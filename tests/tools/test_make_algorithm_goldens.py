"""What is stored is what the tool asks other libraries about."""

import json
import random

import pytest


@pytest.mark.parametrize("library", ["rlax", "torchrl"])
def test_the_stored_inputs_are_those_that_the_tool_draws(library, load_tool):
    tool = load_tool("make_algorithm_goldens")
    stored = json.loads((tool.FOLDER / f"{library}.json").read_text())
    assert stored["inputs"] == tool.make_inputs(random.Random(7))
    assert stored["library"].startswith(f"{library} ")
    assert len(stored["outputs"]["gae"]) == tool.NUM_STEPS
