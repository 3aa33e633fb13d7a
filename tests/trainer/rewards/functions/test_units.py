"""Units behind numbers."""

import pytest
from earl_trainer.rewards.functions.units import split_unit


@pytest.mark.parametrize(
    ("text", "value", "unit"),
    [
        (r"12\text{ cm}", "12", "cm"),
        (r"\frac{1}{2}\mathrm{m}^{2}", r"\frac{1}{2}", "m2"),
        (r"(x+1)\text{ sq. in.}", "(x+1)", "sqin"),
        ("60 km/h", "60 km/h", ""),
        ("60 km per hour", "60", "kmperhour"),
        ("3 square feet", "3", "squarefeet"),
        ("4 cm³", "4", "cm3"),
        ("5xy", "5xy", ""),
        ("3m", "3m", ""),
        ("cm", "cm", ""),
        (r"\text{Monday}", r"\text{Monday}", ""),
        (r"3\text{ or 4}", r"3\text{ or 4}", ""),
        (r"110_{\text{two}}", r"110_{\text{two}}", ""),
    ],
)
def test_what_counts_is_told_from_what_is_counted(text, value, unit):
    assert split_unit(text) == (value, unit)
