"""Plan and execute direct rank-to-rank transfers of ragged tensors."""

from earl_dispatch.columns import Columns, Schema
from earl_dispatch.description import describe_plan
from earl_dispatch.dispatch import PendingDispatch, dispatch, start_dispatch
from earl_dispatch.hosts import Hosts
from earl_dispatch.layout import Layout
from earl_dispatch.network import Network
from earl_dispatch.placement import Placement, place_rows
from earl_dispatch.plan import Transfer, TransferPlan, plan_transfer
from earl_dispatch.probe import measure_network
from earl_dispatch.shared_sizes import share_sizes
from earl_dispatch.sizes import RowSizes
from earl_dispatch.statistics import group_advantages
from earl_dispatch.transports import TRANSPORTS, Transport, execute_local

__all__ = [
    "TRANSPORTS",
    "Columns",
    "Hosts",
    "Layout",
    "Network",
    "PendingDispatch",
    "Placement",
    "RowSizes",
    "Schema",
    "Transfer",
    "TransferPlan",
    "Transport",
    "describe_plan",
    "dispatch",
    "execute_local",
    "group_advantages",
    "measure_network",
    "place_rows",
    "plan_transfer",
    "share_sizes",
    "start_dispatch",
]
