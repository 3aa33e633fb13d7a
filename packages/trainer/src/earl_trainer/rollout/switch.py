"""A change of an engine's tensor-parallel degree: its rules, and what became of it."""

from dataclasses import dataclass
from typing import Literal, final

from earl_trainer.rollout.drift import Drift


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class SwitchRules:
    """How an engine behaves when something about its ranks goes wrong."""

    timeout_s: float = 120.0
    """Longest time that a change of degree, or new weights, may take."""
    generate_timeout_s: float = 1800.0
    """Longest time that one batch of replies may take."""
    max_token_error: float | int = 1.05
    """Largest `Drift.token_mult_prob_error` that is in order."""
    on_drift: Literal["flag", "refuse"] = "flag"
    """What a larger one leads to: a remark, or the old degree."""
    max_restarts: int = 3
    """How often lost ranks are started anew; 0 ends the run instead."""

    def judge(self, drift: Drift | None) -> str:
        """Return what is wrong with a drift; empty if nothing is."""
        if drift is None or drift.token_mult_prob_error <= self.max_token_error:
            return ""
        return (
            f"token_mult_prob_error {drift.token_mult_prob_error:.4f} is above "
            f"{self.max_token_error:g}"
        )


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Switch:
    """One change of degree, or the attempt at it."""

    from_tp: int
    to_tp: int
    """What was asked for."""
    tp: int
    """In use after it."""
    switch_s: float
    """Without the sending of new weights, which takes place with or without a switch."""
    with_weights: bool = False
    """Whether new weights went straight to where the new degree wants them."""
    bytes_moved: int = 0
    """Of weights, between all ranks, besides those that were new."""
    bytes_lower_bound: int = 0
    """The least that had to be moved so."""
    drift: Drift | None = None
    """From the old degree, or from the learner where weights were new; None where there was
    nothing to compare yet."""
    problem: str = ""
    """Why the old degree stayed, or what is suspicious; empty if nothing is."""

    @property
    def done(self) -> bool:
        """Whether the degree is the one that was asked for."""
        return self.tp == self.to_tp

    def describe(self) -> str:
        """Return the switch in one line for people."""
        moved = f"{self.switch_s:.2f} s, {self.bytes_moved:,} bytes of weights moved"
        moved += " besides new ones" if self.with_weights else ""
        drift = "" if self.drift is None else f", drift {self.drift.max_difference:.1e} at most"
        change = f"tp {self.from_tp} -> {self.to_tp}"
        if self.done:
            return f"{change}: {moved}{drift}" + (f"; {self.problem}" if self.problem else "")
        return f"{change} failed, still at tp {self.tp}: {self.problem}"
