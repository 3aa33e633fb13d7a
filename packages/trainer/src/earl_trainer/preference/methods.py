"""METHODS: the name of a way to learn from data -> its parts. A new one is a new entry."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from earl_trainer.preference.losses import PAIR_LOSSES, PairLoss, PreferenceSettings
from earl_trainer.preference.objective import JudgedObjective, PairObjective


class Source(StrEnum):
    """What a method learns from."""

    SHOWN = "demonstrations"
    """Answers to imitate."""
    ACCEPTED = "accepted games"
    """Games of the policy that were good enough to imitate."""
    PAIRS = "pairs"
    """Answers to one prompt, one better than the other."""
    JUDGED = "judged answers"
    """Answers that are good or bad."""
    AGAINST_SELF = "demonstrations against own replies"
    """Pairs of a demonstration and what the policy answers."""


class Reference(StrEnum):
    """The policy that a loss compares with."""

    NONE = "none"
    BEFORE = "before"
    """That from before the phase."""
    ITERATE = "iterate"
    """That from before the iterate, which also generates what the iterate learns from."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Method:
    """What distinguishes one method from another; the loop is the same for all."""

    name: str
    source: Source
    reference: Reference
    loss: PairLoss | None = None
    """Of a pair; without one, pairs are not what it learns from."""

    @property
    def imitates(self) -> bool:
        """Whether its loss is plain likelihood."""
        return self.source in (Source.SHOWN, Source.ACCEPTED)

    def imitates_games(self, data: str) -> bool:
        """Whether what it is shown are games, each to be imitated as it was played."""
        return not data and self.source is Source.SHOWN

    def is_taught(self, data: str) -> bool:
        """Whether a player shows games: there is no data, and it wants demonstrations."""
        return not data and self.source in (Source.SHOWN, Source.AGAINST_SELF)

    def objective(
        self, settings: PreferenceSettings, *, temperature: float
    ) -> PairObjective | JudgedObjective:
        """Make the objective of a method that does not imitate."""
        if self.loss is None:
            return JudgedObjective(settings=settings, temperature=temperature)
        return PairObjective(function=self.loss, settings=settings, temperature=temperature)


METHODS: Mapping[str, Method] = {
    method.name: method
    for method in (
        Method(name="sft", source=Source.SHOWN, reference=Reference.NONE),
        Method(name="rft", source=Source.ACCEPTED, reference=Reference.NONE),
        Method(
            name="dpo",
            source=Source.PAIRS,
            reference=Reference.BEFORE,
            loss=PAIR_LOSSES["dpo"],
        ),
        Method(
            name="ipo",
            source=Source.PAIRS,
            reference=Reference.BEFORE,
            loss=PAIR_LOSSES["ipo"],
        ),
        Method(
            name="simpo",
            source=Source.PAIRS,
            reference=Reference.NONE,
            loss=PAIR_LOSSES["simpo"],
        ),
        Method(
            name="orpo",
            source=Source.PAIRS,
            reference=Reference.NONE,
            loss=PAIR_LOSSES["orpo"],
        ),
        Method(name="kto", source=Source.JUDGED, reference=Reference.BEFORE),
        # Chen et al., arXiv:2401.01335: the loss of DPO, the opponent and the reference are the
        # policy of the iterate before.
        Method(
            name="spin",
            source=Source.AGAINST_SELF,
            reference=Reference.ITERATE,
            loss=PAIR_LOSSES["dpo"],
        ),
    )
}
