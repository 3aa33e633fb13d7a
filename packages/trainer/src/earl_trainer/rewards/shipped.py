"""SHIPPED: reward functions that have a short name."""

from collections.abc import Mapping

_HERE = "earl_trainer.rewards.functions"

SHIPPED: Mapping[str, str] = {
    "exact_form": f"{_HERE}.reply_form:exact_form",
    "reply_tokens": f"{_HERE}.reply_length:reply_tokens",
    "optimal_moves": f"{_HERE}.optimal_moves:optimal_moves",
    "value_shaping": f"{_HERE}.value_shaping:value_shaping",
    "mathematics": f"{_HERE}.mathematics:mathematics",
    "unit_tests": f"{_HERE}.unit_tests:unit_tests",
}
"""Name -> `module:function`."""
