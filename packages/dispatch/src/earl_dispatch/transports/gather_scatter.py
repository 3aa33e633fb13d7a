"""Everything through rank 0: the central controller that direct transfers are measured against."""

from earl_dispatch.columns import Columns
from earl_dispatch.layout import Layout
from earl_dispatch.link import Link
from earl_dispatch.plan import TransferPlan, plan_transfer
from earl_dispatch.transports.rounds import run_rounds


def gather_scatter(plan: TransferPlan, columns: Columns, link: Link) -> Columns:
    """Gather all rows on rank 0, then send every rank all the rows it needs.

    As controllers do, it follows the layouts alone: which rows a rank already holds and which
    ranks share a host is ignored, and every replica gets its own copy back.
    """
    to_controller, from_controller = central_plans(plan)
    return run_rounds(from_controller, run_rounds(to_controller, columns, link), link)


def central_plans(plan: TransferPlan) -> tuple[TransferPlan, TransferPlan]:
    """Return the plan that gathers everything on rank 0, and the one that hands it out."""
    everything = Layout(owners=(0,) * plan.source.num_rows, groups=((0,),))
    return (
        plan_transfer(plan.source, everything, sizes=plan.sizes),
        plan_transfer(everything, plan.target, sizes=plan.sizes),
    )
