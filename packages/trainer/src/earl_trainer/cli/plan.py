"""`earl plan KIND`: forecasts for machines that one does not have."""

from collections.abc import Mapping, Sequence
from types import MappingProxyType

from earl_envs import suggest

from earl_trainer.cli.job import Job, Reader, printing

USAGE = (
    "earl plan async [--option value ...]",
    "earl plan dispatch [--option value ...]",
    "earl plan tp --model MODEL [--option value ...]",
)


def read_plan(arguments: Sequence[str]) -> Job:
    """Read `earl plan KIND ...`.

    Raises:
        ValueError: If there is no such kind, or its options do not fit.
    """
    if not arguments or arguments[0] in ("-h", "--help"):
        usage = "\n       ".join(USAGE)
        return printing(f"usage: {usage}\n\nearl plan KIND --help says more.\n")
    if arguments[0] not in KINDS:
        raise ValueError(suggest(arguments[0], KINDS, what="kind of plan"))
    return KINDS[arguments[0]](arguments[1:])


# The kinds load what they plan with, which `earl --help` need not wait for.


def _read_async(arguments: Sequence[str]) -> Job:
    from earl_trainer.cli.plan_async import read_plan_async

    return read_plan_async(arguments)


def _read_dispatch(arguments: Sequence[str]) -> Job:
    from earl_trainer.cli.plan_dispatch import read_plan_dispatch

    return read_plan_dispatch(arguments)


def _read_tp(arguments: Sequence[str]) -> Job:
    from earl_trainer.cli.plan_tp import read_plan_tp

    return read_plan_tp(arguments)


KINDS: Mapping[str, Reader] = MappingProxyType({
    "async": _read_async,
    "dispatch": _read_dispatch,
    "tp": _read_tp,
})
"""Kind -> what reads the words behind it."""
