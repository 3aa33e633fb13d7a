"""How fast an engine generates what is not cut for want of memory."""

from dataclasses import dataclass
from typing import Final, final

from earl_selector import CapacityModel, ThroughputModel

_WORTH_OF_CUT: Final = 1e-6
"""Of a token of a rollout that cuts episodes; what matters is that it is next to nothing."""


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class WholeContextThroughput:
    """Tokens per second that count: of rollouts that no share of the memory cuts.

    A selector that prefers the faster degree would else keep one that is fast because it cuts.
    """

    throughput: ThroughputModel
    memory: CapacityModel
    """Of one engine."""

    def tokens_per_s_per_device(self, tp: int, num_responses: int, context_tokens: int) -> float:
        """Return the speed of one device, next to nothing where contexts do not fit together.

        The less of them fits, the less it is, so that of degrees that all cut the largest is left.
        """
        rate = self.throughput.tokens_per_s_per_device(tp, num_responses, context_tokens)
        fitting_share = self.memory.capacity_tokens(tp) / max(1, num_responses * context_tokens)
        return rate if fitting_share >= 1.0 else rate * _WORTH_OF_CUT * fitting_share
