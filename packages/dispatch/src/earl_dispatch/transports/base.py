"""The ways to execute a plan, by name."""

import difflib
from collections.abc import Mapping
from typing import Protocol, runtime_checkable

from earl_dispatch.columns import Columns
from earl_dispatch.link import Link
from earl_dispatch.plan import TransferPlan
from earl_dispatch.transports.all_to_all import all_to_all
from earl_dispatch.transports.gather_scatter import gather_scatter, gather_scatter_pipelined
from earl_dispatch.transports.local import local
from earl_dispatch.transports.ray_store import ray_store
from earl_dispatch.transports.shared_memory import shared_memory


@runtime_checkable
class Transport(Protocol):
    """Executes a plan on one rank; all ranks of the link call it together.

    It may rely on agreement: plan, schema and transport are the same on all ranks, and the columns
    have the rows and the sizes that the plan counts.
    """

    def __call__(self, plan: TransferPlan, columns: Columns, link: Link) -> Columns:
        """Turn what this rank holds under `plan.source` into what it holds under `plan.target`."""
        ...


TRANSPORTS: Mapping[str, Transport] = {
    "all_to_all": all_to_all,
    "gather_scatter": gather_scatter,
    "local": local,
    "pipelined": gather_scatter_pipelined,
    "ray_store": ray_store,
    "shared_memory": shared_memory,
}


def find_transport(name: str) -> Transport:
    """Return a transport.

    Raises:
        ValueError: If there is none of this name; the nearest names are given.
    """
    if name not in TRANSPORTS:
        near = difflib.get_close_matches(name, TRANSPORTS) or sorted(TRANSPORTS)
        raise ValueError(f"unknown transport {name!r}, did you mean {' or '.join(map(repr, near))}")
    return TRANSPORTS[name]
