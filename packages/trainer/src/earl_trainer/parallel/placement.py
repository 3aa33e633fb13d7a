"""Where the ranks of an engine are, and what they hold."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

from earl_selector import MemoryModel, ScoringMemory


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Placement:
    """The ranks of an engine."""

    num_ranks: int
    """Processes; a multiple of every degree."""
    degrees: Sequence[int]
    """At which the engine may run."""
    memory: MemoryModel
    """Of one rank."""
    shares: bool = True
    """Whether ranks left over at a degree form further engines, among which conversations are
    divided, or idle."""
    ray_address: str = ""
    """Of a running Ray cluster; empty starts one on this machine."""

    def num_engines(self, tp: int) -> int:
        """Return among how many engines conversations are divided at a degree."""
        return self.num_ranks // tp if self.shares else 1

    def capacity_tokens(self, tp: int) -> int:
        """Return the context tokens that all engines together hold at a degree."""
        return self.num_engines(tp) * self.memory.capacity_tokens(tp)

    def pass_tokens(self, tp: int, *, num_models: int) -> int:
        """Return the most tokens of one scoring pass beside the weights of some models of a shape.

        Without a cache; see `ScoringMemory`.
        """
        memory = self.memory
        scoring = ScoringMemory(
            shape=memory.shape,
            device=memory.device,
            # Activations are of the kind of the cache; the parameters may count for two models.
            bytes_per_parameter=memory.bytes_per_kv_value,
            utilisation=memory.utilisation,
            reserve_bytes=memory.reserve_bytes,
            num_models=num_models,
            splits_vocabulary=memory.splits_vocabulary,
        )
        return scoring.capacity_tokens(tp)
