"""How fast ranks give log-probs of tokens already there, from the sizes of model and device."""

from dataclasses import dataclass
from typing import final

from earl_selector.scoring import ScoringMemory
from earl_selector.sharding import rank_shape


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class ScoringThroughput:
    """A `ThroughputModel` of experience preparation that nothing was measured for.

    A pass over n tokens in contexts of L takes

        pass(n, L) = max(W' / (e_m beta), n F / (e_c pi)) + collectives
        F = 2 N' + 2 L q l
        collectives = 2 l x all-reduce of n h v bytes

    with the names of `RooflineThroughput`, of which this is the other end: all tokens at once, so
    that weights are read once for all of them, and each token attends to L / 2 others on average.
    Sources: Williams et al. 2009, "Roofline", CACM 52(4); Kaplan et al. 2020, arXiv:2001.08361,
    section 2.1, for the operations of a token; see `RooflineThroughput` for the collectives.
    """

    memory: ScoringMemory
    memory_efficiency: float = 0.8
    """Share of the peak bandwidth that is reached."""
    compute_efficiency: float = 0.6
    """Share of the peak of matrix products that is reached."""

    def tokens_per_s_per_device(self, tp: int, num_responses: int, context_tokens: int) -> float:
        """Predict scored tokens per second and device; what does not fit takes further passes.

        Returns:
            0.0 where not even one such context fits.
        """
        num_fitting = self.memory.capacity_tokens(tp) // context_tokens
        if num_fitting == 0:
            return 0.0
        num_full, num_last = divmod(num_responses, num_fitting)
        full_s = num_full * self.pass_s(tp, num_fitting, context_tokens) if num_full else 0.0
        last_s = self.pass_s(tp, num_last, context_tokens) if num_last else 0.0
        return num_responses * context_tokens / (full_s + last_s) / tp

    def pass_s(self, tp: int, num_contexts: int, context_tokens: int) -> float:
        """Predict the seconds of one forward pass."""
        device, memory, rank = self.memory.device, self.memory, rank_shape(self.memory.shape, tp)
        num_tokens = num_contexts * context_tokens
        head = rank.vocab_size * rank.hidden_size
        num_active = rank.num_layers * rank.count_layer_parameters(rank.num_active_experts) + head
        query_size = rank.num_heads * rank.head_dim
        flops = num_tokens * (2 * num_active + 2 * context_tokens * query_size * rank.num_layers)
        read_bytes = memory.bytes_per_parameter * rank.num_parameters
        hidden_bytes = num_tokens * rank.hidden_size * memory.bytes_per_parameter
        busy_s = max(
            read_bytes / (self.memory_efficiency * device.memory_bytes_per_s),
            flops / (self.compute_efficiency * device.flops_per_s),
        )
        return busy_s + 2 * rank.num_layers * device.all_reduce_s(tp, hidden_bytes)
