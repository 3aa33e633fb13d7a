"""How fast an engine generates, as a function of its degree and its load."""

from dataclasses import dataclass
from math import inf
from typing import Protocol, final, runtime_checkable

from earl_selector.capacity import CapacityModel


@runtime_checkable
class ThroughputModel(Protocol):
    """Anything that knows or predicts tokens per second: measured, analytic, or both."""

    def tokens_per_s_per_device(self, tp: int, num_responses: int, context_tokens: int) -> float:
        """Return generated tokens per second and device.

        Args:
            tp: Tensor-parallel degree of the engine.
            num_responses: Responses in flight on the engine.
            context_tokens: Length of each.

        Returns:
            0.0 where not even one such context fits; a load beyond the capacity queues, which
            costs speed.
        """
        ...


def predict_rollout_s(
    throughput: ThroughputModel,
    tp: int,
    *,
    num_responses: int,
    context_tokens: int,
    num_devices: int,
) -> float:
    """Predict the seconds of a rollout; infinity where the engine cannot run it.

    T = R L / (N x rate) for R contexts of L tokens on N devices, which form N / tp engines. The
    rate per device is EARL's measure (arXiv:2510.05943, section 2, TGS). Deviation: all tokens of
    a context count as generated; a constant share of prompts scales all degrees alike.
    """
    rate = throughput.tokens_per_s_per_device(tp, num_responses, context_tokens)
    return num_responses * context_tokens / (num_devices * rate) if rate > 0.0 else inf


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class UnmeasuredThroughput:
    """What may be assumed of an engine before anything is measured: an order, not a speed.

    rate = tp^(-1/3) / ceil(R / floor(C / L)), in units of one device at degree 1, with capacity C.
    Each doubling of the degree costs a fifth per device: EARL (arXiv:2510.05943, figure 3) has a
    median of -22 % in the 15 cells of up to 2^17 resident tokens, where both degrees hold the load.
    Beyond the capacity, responses run in waves, one after another.
    """

    memory: CapacityModel

    def tokens_per_s_per_device(self, tp: int, num_responses: int, context_tokens: int) -> float:
        """Return the relative speed of a device; see the class."""
        num_at_once = self.memory.capacity_tokens(tp) // max(1, context_tokens)
        if num_at_once == 0:
            return 0.0
        return tp ** (-1 / 3) / max(1, -(-num_responses // num_at_once))
