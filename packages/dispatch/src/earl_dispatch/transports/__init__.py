"""Ways to execute a transfer plan; all give bit-identical results."""

from earl_dispatch.transports.base import TRANSPORTS, Transport, find_transport
from earl_dispatch.transports.local import execute_local

__all__ = ["TRANSPORTS", "Transport", "execute_local", "find_transport"]
