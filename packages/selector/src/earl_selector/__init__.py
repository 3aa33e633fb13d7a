"""Choose the tensor-parallel degree of a rollout from the context in flight.

Example:
    >>> from earl_selector import MODEL_SHAPES
    >>> MODEL_SHAPES["qwen2.5-72b"].num_kv_values_per_token
    163840
"""

from earl_selector.baselines import AverageContextPolicy, FixedPolicy, ThrottlePolicy
from earl_selector.capacity import CapacityModel
from earl_selector.contract import Policy
from earl_selector.decision import Alternative, Decision, Inputs, Outcome
from earl_selector.deployment import Deployment, Fleet
from earl_selector.layout import ParallelLayout
from earl_selector.memory import MemoryModel
from earl_selector.model_files import find_model_shape
from earl_selector.optimum import Schedule, find_optimum
from earl_selector.policy import SelectorPolicy
from earl_selector.profile_table import ProfileGrid, ProfilePoint, ProfileSubject, ProfileTable
from earl_selector.profiled_throughput import ProfiledThroughput
from earl_selector.refusal import Refusal
from earl_selector.report import ContextReport
from earl_selector.reshard import ParameterSpec, ReshardPlan, SliceMove, plan_reshard
from earl_selector.roofline import RooflineThroughput
from earl_selector.scoring import ScoringMemory
from earl_selector.scoring_throughput import ScoringThroughput
from earl_selector.sharding import list_valid_degrees
from earl_selector.simulator import Replay, SimulatedCluster, replay
from earl_selector.specs import DEVICE_SPECS, MODEL_SHAPES, DeviceSpec, ModelShape
from earl_selector.state import SelectorState
from earl_selector.throughput import ThroughputModel, UnmeasuredThroughput
from earl_selector.tp_plan import TpPlan
from earl_selector.traces import Load, Trace, TraceKind, make_trace
from earl_selector.training import Roles, TrainingMemory

__all__ = [
    "DEVICE_SPECS",
    "MODEL_SHAPES",
    "Alternative",
    "AverageContextPolicy",
    "CapacityModel",
    "ContextReport",
    "Decision",
    "Deployment",
    "DeviceSpec",
    "FixedPolicy",
    "Fleet",
    "Inputs",
    "Load",
    "MemoryModel",
    "ModelShape",
    "Outcome",
    "ParallelLayout",
    "ParameterSpec",
    "Policy",
    "ProfileGrid",
    "ProfilePoint",
    "ProfileSubject",
    "ProfileTable",
    "ProfiledThroughput",
    "Refusal",
    "Replay",
    "ReshardPlan",
    "Roles",
    "RooflineThroughput",
    "Schedule",
    "ScoringMemory",
    "ScoringThroughput",
    "SelectorPolicy",
    "SelectorState",
    "SimulatedCluster",
    "SliceMove",
    "ThrottlePolicy",
    "ThroughputModel",
    "TpPlan",
    "Trace",
    "TraceKind",
    "TrainingMemory",
    "UnmeasuredThroughput",
    "find_model_shape",
    "find_optimum",
    "list_valid_degrees",
    "make_trace",
    "plan_reshard",
    "replay",
]
