"""Every token straight from a rank that has it to the rank that needs it."""

from earl_dispatch.columns import Columns
from earl_dispatch.link import Link
from earl_dispatch.plan import TransferPlan
from earl_dispatch.transports.rounds import run_rounds


def all_to_all(plan: TransferPlan, columns: Columns, link: Link) -> Columns:
    """Send the plan's messages as they are, each round in one collective."""
    return run_rounds(plan, columns, link)
