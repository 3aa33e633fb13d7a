"""Which share of the cores should generate, by who waits for whom."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

_MIN_GAIN = 0.05
"""What another split has to bring for it to be proposed."""
_DECAY = 0.8


@dataclass(frozen=True, slots=True, kw_only=True)
class SplitWaits:
    """What the same batches took on both sides."""

    generation_core_s: float
    """Time that workers computed, times the cores of each."""
    learner_core_s: float
    """Time that the learner computed, times its cores."""
    generation_idle_share: float
    """Of the workers' time: without anything to play."""
    learner_wait_share: float
    """Of the learner's time: waiting for a batch."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SplitProposal:
    """A share of the cores for generation, and why."""

    split: float
    gain: float
    """How much faster batches follow one another than at the present split, at best."""
    reason: str

    @property
    def sentence(self) -> str | None:
        """Say in one line what it brings; None if the present split is as good."""
        if self.gain < _MIN_GAIN:
            return None
        return (
            f"a split of {self.split:.2f} would make batches follow one another up to "
            f"{self.gain:.0%} faster: {self.reason}"
        )


def propose_split(waits: SplitWaits, split: float) -> SplitProposal:
    """Propose the split at which neither side waits for the other.

    With g core-seconds of generation and l of learning to a batch, C cores and the share s of them
    generating, batches follow one another every max(g / (s C), l / ((1 - s) C)) seconds, which is
    least at s = g / (g + l). Each side is taken to be faster in proportion to its cores; where it
    is not, g and l differ at the next split, and proposals come closer step by step. What brings
    less than five per cent is not proposed.

    Args:
        waits: Measured at the present split.
        split: The present one, between 0 and 1.
    """
    total_core_s = waits.generation_core_s + waits.learner_core_s
    if total_core_s <= 0.0:
        return SplitProposal(split=split, gain=0.0, reason="nothing was measured")
    slowest = max(waits.generation_core_s / split, waits.learner_core_s / (1.0 - split))
    gain = slowest / total_core_s - 1.0
    shares = (
        f"generation idles {waits.generation_idle_share:.0%} of its time and learning waits "
        f"{waits.learner_wait_share:.0%} of its own"
    )
    if gain < _MIN_GAIN:
        return SplitProposal(split=split, gain=gain, reason=f"balanced: {shares}")
    return SplitProposal(split=waits.generation_core_s / total_core_s, gain=gain, reason=shares)


@final
class SplitMeter:
    """Measures both sides of a run, its latest batches counting most.

    A worker that plays few groups counts as busy as one that plays many, so a proposal is an upper
    bound of what generation needs where admission keeps it from more groups.

    Args:
        worker_cores: That each worker computes with.
        learner_cores: That the process that learns computes with; None where it shares those.
    """

    def __init__(self, worker_cores: Sequence[int], learner_cores: int | None) -> None:
        self._worker_cores = worker_cores
        self._learner_cores = learner_cores
        self._generation_core_s = self._busy_s = self._idle_s = 0.0
        self._learn_s = self._wait_s = 0.0

    def add_generation(self, worker: int, *, busy_s: float, idle_s: float) -> None:
        """Add what a worker did since it was last asked."""
        self._generation_core_s += busy_s * self._worker_cores[worker]
        self._busy_s += busy_s
        self._idle_s += idle_s

    def add_batch(self, *, wait_s: float, learn_s: float | None) -> None:
        """Add how long a batch was waited for, and how long the one before it was learned from.

        Args:
            wait_s: For this one.
            learn_s: From the one before; None where there is none. What was generated for the
                first batch is not counted, as nobody learned meanwhile.
        """
        decay = _DECAY if learn_s is not None else 0.0
        # Only ratios matter: what is older than the batches to come counts less from now on.
        self._generation_core_s *= decay
        self._busy_s *= decay
        self._idle_s *= decay
        self._learn_s = decay * (self._learn_s + (learn_s or 0.0))
        self._wait_s = decay * (self._wait_s + wait_s)

    def propose(self) -> SplitProposal | None:
        """Propose a split for a next run; None where cores are shared or nothing was measured."""
        if self._learner_cores is None or not self._learn_s:
            return None
        generating = sum(self._worker_cores)
        waits = SplitWaits(
            generation_core_s=self._generation_core_s,
            learner_core_s=self._learn_s * self._learner_cores,
            generation_idle_share=_share(self._idle_s, self._busy_s),
            learner_wait_share=_share(self._wait_s, self._learn_s),
        )
        return propose_split(waits, generating / (generating + self._learner_cores))


def _share(part: float, rest: float) -> float:
    return part / (part + rest) if part + rest else 0.0
