"""Plan and execute direct rank-to-rank transfers of ragged tensors."""

from earl_dispatch.columns import Columns, Schema, bytes_per_row
from earl_dispatch.dispatch import dispatch
from earl_dispatch.layout import Layout
from earl_dispatch.plan import Transfer, TransferPlan, plan_transfer
from earl_dispatch.transports import TRANSPORTS, Transport, execute_local

__all__ = [
    "TRANSPORTS",
    "Columns",
    "Layout",
    "Schema",
    "Transfer",
    "TransferPlan",
    "Transport",
    "bytes_per_row",
    "dispatch",
    "execute_local",
    "plan_transfer",
]
