import pytest
import torch
from earl_dispatch.agreement import Claim, require_agreement
from earl_dispatch.link import Link
from earl_dispatch.testing import run_ranks

CPU = torch.device("cpu")
CLAIM = Claim(plan="p" * 64, transport="all_to_all", columns={"ids": "per token"}, problem="")


def agree_then_differ() -> str:
    link = Link.open(None, timeout_s=20.0)
    require_agreement(CLAIM, link, device=CPU)
    mine = Claim(
        plan=CLAIM.plan,
        transport=CLAIM.transport,
        columns={"ids": "per row"} if link.rank == 0 else CLAIM.columns,
        problem="the lengths of rank 1 are wrong" if link.rank == 1 else "",
        max_buffer_bytes=5 if link.rank == 2 else None,
    )
    with pytest.raises(ValueError, match="nothing was sent") as refused:
        require_agreement(mine, link, device=CPU)
    return str(refused.value)


def test_all_ranks_say_all_that_is_wrong_in_the_same_words():
    expected = (
        "nothing was sent: column 'ids' is per row on rank 0 but per token on rank 1, 2; "
        "max_buffer_bytes is None on rank 0, 1 but 5 on rank 2; "
        "the lengths of rank 1 are wrong"
    )
    assert run_ranks(3, agree_then_differ) == [expected] * 3


def test_a_problem_that_all_ranks_share_is_still_a_problem():
    link = Link.open(None, timeout_s=1.0)
    claim = Claim(plan="", transport="", columns={}, problem="the plan is too large")
    with pytest.raises(ValueError, match=r"nothing was sent: the plan is too large$"):
        require_agreement(claim, link, device=CPU)
