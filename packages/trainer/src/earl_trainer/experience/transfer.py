"""From the ranks that prepared samples to the ranks that learn from them, by a plan."""

from earl_dispatch import Columns, Layout, RowSizes, TransferPlan, dispatch, plan_transfer


def send_to_learner(columns: Columns) -> tuple[TransferPlan, Columns]:
    """Plan and execute the transfer of a step's samples to the learner's ranks.

    Preparation leaves rows where they were rolled out; the learner wants its tokens balanced. With
    one worker both layouts are one rank and the plan moves nothing.

    Returns:
        The plan, and the rows that this rank learns from.
    """
    lengths = [int(length) for length in columns.lengths.tolist()]
    plan = plan_transfer(
        Layout.contiguous(num_rows=len(lengths), num_ranks=1),
        Layout.balanced(lengths, num_ranks=1),
        sizes=RowSizes.of(columns.schema(), lengths),
    )
    return plan, dispatch(plan, columns, transport="local")
