"""How engines are laid out over the devices, and what a reported load means for each of them."""

from dataclasses import dataclass
from enum import StrEnum
from typing import final

from earl_selector.capacity import CapacityModel
from earl_selector.throughput import ThroughputModel, predict_rollout_s


class Deployment(StrEnum):
    """Which engines run at a degree, and whose load a `ContextReport` tells."""

    REPLICAS = "replicas"
    """N / tp engines on N devices, each with as many responses as a report names: more engines do
    more work. EARL's figure 3 (arXiv:2510.05943) compares degrees so, in tokens per device."""
    SHARING = "sharing"
    """N / tp engines on N devices that divide the responses of a report among them."""
    SINGLE = "single"
    """One engine on `tp` of the devices, with all the responses; the other devices idle."""


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Fleet:
    """The engines that the devices form at each degree.

    Example:
        >>> from earl_selector import DEVICE_SPECS, MODEL_SHAPES, MemoryModel
        >>> memory = MemoryModel(
        ...     shape=MODEL_SHAPES["qwen2.5-72b"],
        ...     device=DEVICE_SPECS["h100-80gb"],
        ...     bytes_per_parameter=2,
        ...     bytes_per_kv_value=2,
        ...     utilisation=0.9,
        ...     reserve_bytes=3 * 10**9,
        ... )
        >>> fleet = Fleet(memory=memory, num_devices=8, deployment=Deployment.SHARING)
        >>> [(fleet.num_engines(tp), fleet.capacity_tokens(tp)) for tp in (4, 8)]
        [(2, 905606), (1, 1349362)]
    """

    memory: CapacityModel
    """Of one engine."""
    num_devices: int
    deployment: Deployment = Deployment.REPLICAS

    def num_engines(self, tp: int) -> int:
        """Return how many engines run at a degree."""
        return 1 if self.deployment is Deployment.SINGLE else self.num_devices // tp

    def num_sharing(self, tp: int) -> int:
        """Return among how many engines the responses of one report are divided."""
        return self.num_engines(tp) if self.deployment is Deployment.SHARING else 1

    def capacity_tokens(self, tp: int) -> int:
        """Return how many resident tokens of a report are held without queueing."""
        return self.num_sharing(tp) * self.memory.capacity_tokens(tp)

    def max_responses(self, tp: int, context_tokens: int) -> int:
        """Return how many responses of such a length are held at once, each by one engine."""
        return self.num_sharing(tp) * (self.memory.capacity_tokens(tp) // context_tokens)

    def holding_degrees(self, degrees: tuple[int, ...], *, num_tokens: int) -> tuple[int, ...]:
        """Return those of `degrees` that hold so many resident tokens without queueing."""
        return tuple(tp for tp in degrees if self.capacity_tokens(tp) >= num_tokens)

    def predict_rollout_s(
        self, throughput: ThroughputModel, tp: int, *, num_responses: int, context_tokens: int
    ) -> float:
        """Predict the seconds of a rollout; infinity where an engine cannot run it.

        For R contexts of L tokens, and the rate per device that an engine reaches with n of them:

            replicas        R L / (N rate(R)), see `predict_rollout_s`
            sharing         n L / (tp rate(n)), n = ceil(R / engines): the fullest engine ends last
            single          R L / (tp rate(R))
        """
        if self.deployment is Deployment.REPLICAS:
            num_devices = self.num_devices
        else:
            num_devices, num_responses = tp, -(-num_responses // self.num_sharing(tp))
        return predict_rollout_s(
            throughput,
            tp,
            num_responses=num_responses,
            context_tokens=context_tokens,
            num_devices=num_devices,
        )
