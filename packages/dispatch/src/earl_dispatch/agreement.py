"""All ranks state what they are about to do; if any two differ, all of them refuse."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field

import torch
from torch import Tensor

from earl_dispatch.columns import Columns, Schema
from earl_dispatch.layout import chunk_bounds
from earl_dispatch.link import Link
from earl_dispatch.plan import TransferPlan
from earl_dispatch.sizes import RowSizes

_DIGEST_BYTES = 32
_SIZE_BYTES = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """What one rank brings to a dispatch, in plain values that travel as JSON."""

    plan: str
    """Digest of the transfer plan."""
    transport: str
    columns: dict[str, str]
    """Column -> its kind and dtype."""
    problem: str
    """What is wrong on this rank by itself; empty if nothing is."""
    max_buffer_bytes: int | None = None
    compression: dict[str, str] = field(default_factory=dict[str, str])
    """Column -> how it travels."""

    @classmethod
    def of(
        cls, plan: object, *, transport: str, columns: Mapping[str, str], problem: str = ""
    ) -> "Claim":
        """State what is planned by the digest of its text."""
        digest = hashlib.sha256(repr(plan).encode()).hexdigest()
        return cls(plan=digest, transport=transport, columns=dict(columns), problem=problem)


def require_agreement(claim: Claim, link: Link, *, device: torch.device) -> None:
    """Return if all ranks make this same claim and see no problem, else raise on all of them.

    A digest of fixed size goes to everyone first; the claims follow only if the digests differ,
    which every rank sees at the same time.

    Raises:
        ValueError: Naming the ranks and what they disagree on, with one text on all ranks.
    """
    encoded = json.dumps(asdict(claim), sort_keys=True).encode()
    header = hashlib.sha256(encoded).digest() + len(encoded).to_bytes(_SIZE_BYTES, "big")
    headers = _share(header, [len(header)] * link.num_ranks, link, device)
    if len(set(headers)) == 1:
        claims = [claim]
    else:
        sizes = [int.from_bytes(h[_DIGEST_BYTES:], "big") for h in headers]
        claims = [Claim(**json.loads(text)) for text in _share(encoded, sizes, link, device)]
    problems = _differences(claims) + [c.problem for c in claims if c.problem]
    if problems:
        raise ValueError("nothing was sent: " + "; ".join(problems))


def make_claim(plan: TransferPlan, columns: Columns, transport: str, link: Link) -> Claim:
    """State plan, transport and schema, and what is wrong with the columns of this rank."""
    return Claim.of(
        plan,
        transport=transport,
        columns=describe_schema(columns.schema()),
        problem=_local_problem(plan, columns, link),
    )


def _local_problem(plan: TransferPlan, columns: Columns, link: Link) -> str:
    if plan.num_ranks > link.num_ranks:
        return f"the plan needs {plan.num_ranks} ranks, the process group has {link.num_ranks}"
    rows = plan.source.rows_of(link.rank)
    if columns.num_rows != len(rows):
        return (
            f"rank {link.rank} passes {columns.num_rows} rows, "
            f"the plan's source gives it {len(rows)}"
        )
    return _size_problem(plan, columns, link.rank)


def _size_problem(plan: TransferPlan, columns: Columns, rank: int) -> str:
    """Compare schema and counts with what the plan was made for."""
    schema, planned = columns.schema(), plan.sizes
    actual = RowSizes.of(schema, ())
    for what in ("token_bytes", "num_bit_columns", "turn_bytes", "value_bytes"):
        mine, theirs = (int(getattr(sizes, what)) for sizes in (actual, planned))
        if mine != theirs:
            return f"the columns of rank {rank} have {what} {mine}, the plan counts {theirs}"
    chunk = plan.source.chunk_of(rank)
    counts = zip(
        plan.source.rows_of(rank),
        columns.lengths.tolist(),
        columns.turn_counts().tolist(),
        strict=True,
    )
    for row, num_tokens, num_turns in counts:
        start, stop = chunk_bounds(planned.lengths[row], chunk, plan.source.num_chunks)
        if (num_tokens, num_turns) != (stop - start, planned.turns[row]):
            return (
                f"row {row} on rank {rank} has {num_tokens} tokens and {num_turns} turns, "
                f"the plan counts {stop - start} and {planned.turns[row]}"
            )
    return ""


def _differences(claims: Sequence[Claim]) -> list[str]:
    """Return each subject that the ranks differ on, with who says what."""
    names = sorted({name for claim in claims for name in claim.columns})
    statements = {
        f"column {name!r}": [claim.columns.get(name, "missing") for claim in claims]
        for name in names
    }
    statements |= {
        f"the compression of column {name!r}": [
            claim.compression.get(name, "none") for claim in claims
        ]
        for name in sorted({name for claim in claims for name in claim.compression})
    }
    statements["transport"] = [repr(claim.transport) for claim in claims]
    statements["max_buffer_bytes"] = [str(claim.max_buffer_bytes) for claim in claims]
    statements["plan"] = [f"number {claim.plan[:12]}" for claim in claims]
    return [
        f"{subject} is {_who_says_what(values)}"
        for subject, values in statements.items()
        if len(set(values)) > 1
    ]


def _who_says_what(values: Sequence[str]) -> str:
    ranks_by_value: dict[str, list[str]] = {}
    for rank, value in enumerate(values):
        ranks_by_value.setdefault(value, []).append(str(rank))
    return " but ".join(
        f"{value} on rank {', '.join(ranks)}" for value, ranks in ranks_by_value.items()
    )


def describe_schema(schema: Schema) -> dict[str, str]:
    """Return each column's kind and dtype."""
    kinds = {name: f"per token {dtype}" for name, dtype in schema.per_token}
    kinds |= {name: f"per turn {dtype}" for name, dtype in schema.per_turn}
    return kinds | {name: f"per row {dtype}" for name, dtype in schema.per_row}


def _share(text: bytes, sizes: Sequence[int], link: Link, device: torch.device) -> list[bytes]:
    """Send one text to all ranks and return the text of each."""
    buffer = torch.frombuffer(bytearray(text), dtype=torch.uint8).to(device)
    received = link.exchange([buffer] * link.num_ranks, sizes)
    return [_to_bytes(part) for part in received]


def _to_bytes(buffer: Tensor) -> bytes:
    return bytes(buffer.tolist())
