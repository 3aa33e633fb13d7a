"""Plan and execute direct rank-to-rank transfers of ragged tensors."""

from earl_dispatch.columns import Columns, Schema
from earl_dispatch.dispatch import PendingDispatch, dispatch, start_dispatch
from earl_dispatch.hosts import Hosts
from earl_dispatch.layout import Layout
from earl_dispatch.plan import Transfer, TransferPlan, plan_transfer
from earl_dispatch.sizes import RowSizes
from earl_dispatch.transports import TRANSPORTS, Transport, execute_local

__all__ = [
    "TRANSPORTS",
    "Columns",
    "Hosts",
    "Layout",
    "PendingDispatch",
    "RowSizes",
    "Schema",
    "Transfer",
    "TransferPlan",
    "Transport",
    "dispatch",
    "execute_local",
    "plan_transfer",
    "start_dispatch",
]
