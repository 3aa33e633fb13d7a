"""Choose the tensor-parallel degree of a rollout from the context in flight.

Example:
    >>> from earl_selector import MODEL_SHAPES
    >>> MODEL_SHAPES["qwen2.5-72b"].num_kv_values_per_token
    163840
"""

from earl_selector.decision import Decision
from earl_selector.memory import MemoryModel
from earl_selector.policy import SelectorPolicy
from earl_selector.report import ContextReport
from earl_selector.sharding import list_valid_degrees
from earl_selector.specs import DEVICE_SPECS, MODEL_SHAPES, DeviceSpec, ModelShape
from earl_selector.state import SelectorState

__all__ = [
    "DEVICE_SPECS",
    "MODEL_SHAPES",
    "ContextReport",
    "Decision",
    "DeviceSpec",
    "MemoryModel",
    "ModelShape",
    "SelectorPolicy",
    "SelectorState",
    "list_valid_degrees",
]
