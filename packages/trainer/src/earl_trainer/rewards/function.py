"""Reward functions: how they are named, weighted and found."""

import importlib
import inspect
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import Literal

from earl_trainer.rewards.outcome import Judgement, RewardOutcome, weighted_sum
from earl_trainer.rewards.shipped import SHIPPED
from earl_trainer.rewards.transcript import Transcript

RewardCallable = Callable[[Transcript], object]
"""What a function is as its author wrote it: what it returns is looked at afterwards."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RewardFunction:
    """A function of the user's own, and what it counts."""

    target: str
    """`package.module:function`."""
    weight: float

    @property
    def name(self) -> str:
        """What it is called in figures."""
        return self.target.partition(":")[2]


def parse_functions(texts: Sequence[str]) -> list[RewardFunction]:
    """Read `package.module:function=weight`, or a name of `SHIPPED` so; without a weight it is 1.

    Raises:
        ValueError: If one is written otherwise, or two have one name.
    """
    functions = [_parse(text) for text in texts]
    names = [function.name for function in functions]
    for name in names:
        if names.count(name) > 1:
            raise ValueError(f"reward functions must differ in name, got {name!r} twice")
    return functions


def _parse(text: str) -> RewardFunction:
    target, _, weight_text = text.partition("=")
    target = SHIPPED.get(target, target)
    module, _, name = target.partition(":")
    try:
        weight = float(weight_text or 1.0)
    except ValueError:
        weight = math.nan
    well_formed = all(part.isidentifier() for part in (*module.split("."), name))
    if not well_formed or not math.isfinite(weight):
        raise ValueError(
            "a reward function is written package.module:function=weight with a finite weight, or "
            f"is one of {', '.join(SHIPPED)}, got {text!r}"
        )
    return RewardFunction(target=target, weight=weight)


class UnfitFunctionError(ValueError):
    """What was named is no reward function."""


def load_function(target: str) -> RewardCallable:
    """Import a function, in the process that is to call it.

    Raises:
        UnfitFunctionError: If there is none, or it cannot be called with a transcript alone.
        Exception: Whatever importing its module raises.
    """
    module_name, _, name = target.partition(":")
    try:
        module = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{module_name}.".startswith(f"{error.name}."):
            raise
        raise UnfitFunctionError(f"there is no module {error.name!r}") from error
    function = getattr(module, name, None)
    if not callable(function):
        raise UnfitFunctionError(f"{module_name} has no function {name!r}")
    try:
        signature = inspect.signature(function)
    except ValueError:
        return function  # Written in C, without a signature to look at.
    try:
        signature.bind(object())
    except TypeError as error:
        raise UnfitFunctionError(f"{name}{signature} must take one transcript: {error}") from error
    return function


def weigh(
    outcomes: Mapping[str, RewardOutcome],
    functions: Sequence[RewardFunction],
    on_failure: Literal["drop", "zero"],
) -> Judgement:
    """Add up what the functions found, by their weights, of the episode and of its replies.

    Args:
        outcomes: By name.
        functions: All of them.
        on_failure: Whether one that failed leaves the episode out of training, or counts 0.
    """
    weights = {function.name: function.weight for function in functions}
    bonus = weighted_sum(outcomes, weights, on_failure)
    if bonus is None:
        return Judgement(outcomes=outcomes, bonus=None)
    parts = list[float]()
    for name, weight in weights.items():
        weighted = [weight * part for part in outcomes[name].parts]
        parts = [sum(each) for each in zip_longest(parts, weighted, fillvalue=0.0)]
    return Judgement(outcomes=outcomes, bonus=bonus, parts=tuple(parts))
