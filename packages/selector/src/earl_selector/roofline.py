"""How fast an engine generates, from the sizes of model and device alone."""

from dataclasses import dataclass
from typing import final

from earl_selector.memory import MemoryModel
from earl_selector.sharding import rank_shape


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class RooflineThroughput:
    """A `ThroughputModel` that nothing was measured for.

    One token of every running response takes a decoding step:

        step(B, L) = max((W' + B L k) / (e_m beta), B F / (e_c pi)) + collectives + overhead
        F = 2 N' + 4 L n d l
        collectives = 2 l (2 log2(t) a + 2 (t - 1) / t x B h v / b)

    for B responses of L tokens; W' bytes and N' number of weights that a rank reads (no embedding;
    of experts those that some response uses, resp. those of one token), k bytes of cache per token,
    n heads of size d on the rank, l layers, hidden size h, v bytes per value; memory bandwidth
    beta, peak pi, link bandwidth b, latency a; reachable shares e_m, e_c. Sources: Williams et al.
    2009, "Roofline", CACM 52(4); Pope et al. 2022, arXiv:2211.05102, sections 2.1 and 3.1, for
    what decoding reads, computes and sends; Thakur et al. 2005, "Optimization of Collective
    Communication Operations in MPICH", section 4.5, for the all-reduce; two of them per layer as
    in Shoeybi et al. 2019, arXiv:1909.08053, section 3.

    Responses that do not fit wait until those before them have ended: R responses of which n fit
    run in R // n full waves and a last one of the rest, as where all start together and grow to the
    same length. Not counted: prompts, preempted work done twice, scheduling. All devices of an
    engine are taken to share the fast link.

    Example:
        >>> from earl_selector import DEVICE_SPECS, MODEL_SHAPES
        >>> memory = MemoryModel(
        ...     shape=MODEL_SHAPES["qwen2.5-72b"],
        ...     device=DEVICE_SPECS["h100-80gb"],
        ...     bytes_per_parameter=2,
        ...     bytes_per_kv_value=2,
        ...     utilisation=0.9,
        ...     reserve_bytes=3 * 10**9,
        ... )
        >>> model = RooflineThroughput(memory=memory)
        >>> for context_tokens in (8192, 16384):  # 32 of them do, and do not, fit at tp 4
        ...     rates = [model.tokens_per_s_per_device(tp, 32, context_tokens) for tp in (4, 8)]
        ...     print([round(rate) for rate in rates])
        [331, 270]
        [166, 212]
    """

    memory: MemoryModel
    memory_efficiency: float = 0.8
    """Share of the peak bandwidth that decoding reaches."""
    compute_efficiency: float = 0.6
    """Share of the peak of matrix products that decoding reaches."""
    overhead_s: float = 0.0
    """Of a step, whatever its size."""

    def __post_init__(self) -> None:
        shares = (self.memory_efficiency, self.compute_efficiency)
        if min(shares) <= 0.0 or max(shares) > 1.0 or self.overhead_s < 0.0:
            raise ValueError(
                f"efficiencies must be in (0, 1] and overhead_s >= 0, got {shares} and "
                f"{self.overhead_s}"
            )

    def tokens_per_s_per_device(self, tp: int, num_responses: int, context_tokens: int) -> float:
        """Predict generated tokens per second and device.

        Args:
            tp: Tensor-parallel degree of the engine.
            num_responses: Responses asked of the engine at once; what does not fit queues.
            context_tokens: Length of each.

        Returns:
            0.0 where not even one such context fits.
        """
        if num_responses < 1 or context_tokens < 1:
            raise ValueError(
                f"responses and context must be >= 1, got {num_responses} and {context_tokens}"
            )
        num_fitting = self.memory.capacity_tokens(tp) // context_tokens
        if num_fitting == 0:
            return 0.0
        num_waves, num_last = divmod(num_responses, num_fitting)
        waves_s = num_waves * self.step_s(tp, num_fitting, context_tokens) if num_waves else 0.0
        last_s = self.step_s(tp, num_last, context_tokens) if num_last else 0.0
        return num_responses / (waves_s + last_s) / tp

    def step_s(self, tp: int, num_running: int, context_tokens: int) -> float:
        """Predict the seconds in which each of `num_running` responses gets one token."""
        device, memory = self.memory.device, self.memory
        rank = rank_shape(memory.shape, tp)
        head = rank.vocab_size * rank.hidden_size
        num_used = rank.num_experts * (
            1 - (1 - rank.num_active_experts / rank.num_experts) ** num_running
        )
        read_bytes = memory.bytes_per_parameter * (
            rank.num_layers * rank.count_layer_parameters(num_used) + head
        ) + num_running * context_tokens * memory.kv_bytes_per_token(tp)
        num_active = rank.num_layers * rank.count_layer_parameters(rank.num_active_experts) + head
        query_size = rank.num_heads * rank.head_dim
        flops = num_running * (2 * num_active + 4 * context_tokens * query_size * rank.num_layers)
        hidden_bytes = num_running * rank.hidden_size * memory.bytes_per_parameter
        busy_s = max(
            read_bytes / (self.memory_efficiency * device.memory_bytes_per_s),
            flops / (self.compute_efficiency * device.flops_per_s),
        )
        return (
            busy_s + 2 * rank.num_layers * device.all_reduce_s(tp, hidden_bytes) + self.overhead_s
        )
