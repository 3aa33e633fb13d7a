import pytest
import torch
import torch.distributed as dist
from earl_dispatch import Columns, Layout, RowSizes
from earl_dispatch.shared_sizes import share_sizes
from earl_dispatch.testing import chunk_of_columns, random_columns, run_ranks

LENGTHS = (3, 0, 5, 1, 4)
LAYOUTS = (
    Layout(owners=(2, 1, 0, 0, 2), groups=((0,), (2,), (3,))),
    Layout(owners=(1, 0, 1, 0, 0), groups=((2, 3), (1, 0))),
    Layout(owners=(1, 0, 1, 0, 0), groups=((2, 3), (1, 0)), num_chunks=2),
    Layout(owners=(0,) * 5, groups=((1,),)),
)


def make_batch() -> Columns:
    return random_columns(LENGTHS, torch.Generator().manual_seed(3))


def share() -> list[RowSizes]:
    rank = dist.get_rank()
    return [share_sizes(chunk_of_columns(make_batch(), one, rank), one) for one in LAYOUTS]


def share_wrongly() -> list[str]:
    rank, layout = dist.get_rank(), LAYOUTS[0]
    held = chunk_of_columns(make_batch(), layout, rank)
    calls = [
        (held.select([]) if rank == 3 else held, layout, ""),
        (held, layout, "the sky is falling" if rank == 1 else ""),
        (held, LAYOUTS[0] if rank else LAYOUTS[3], "none here" if rank == 0 else ""),
    ]
    messages = []
    for columns, source, problem in calls:
        with pytest.raises(ValueError, match="nothing was sent") as refused:
            share_sizes(columns, source, problem=problem, timeout_s=20.0)
        messages.append(str(refused.value))
    return messages


def test_all_ranks_know_the_sizes_of_all_rows():
    whole = RowSizes.of_columns(make_batch())
    assert run_ranks(4, share) == [[whole] * len(LAYOUTS)] * 4


def test_all_ranks_refuse_what_one_has_wrong():
    results = run_ranks(4, share_wrongly)
    assert all(messages == results[0] for messages in results)
    rows, problem, plan = results[0]
    assert rows == "nothing was sent: rank 3 passes 0 rows, the source gives it 2"
    assert problem == "nothing was sent: the sky is falling"
    assert "plan is number" in plan
    assert "none here" in plan


def test_one_process_weighs_its_own():
    layout = Layout.contiguous(num_rows=5, num_ranks=1)
    assert share_sizes(make_batch(), layout) == RowSizes.of_columns(make_batch())
