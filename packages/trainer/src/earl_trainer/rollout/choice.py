"""What was chosen for one rollout."""

from dataclasses import dataclass

from earl_selector import Decision, SelectorState

from earl_trainer.rollout.switch import Switch


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """The degree of a step's rollout."""

    decision: Decision
    selector: SelectorState
    """What the selector remembers from then on."""
    switch: Switch | None
    """None where the degree stayed."""
    share_tokens: int | None
    """Room of one context at this degree; None where contexts share what there is."""
