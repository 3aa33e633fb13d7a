"""The experience preparation stage on the ranks that generate, at a degree of its own."""

import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, replace
from typing import Any, Protocol, final, runtime_checkable

from earl_dispatch import Columns
from earl_selector import ContextReport, SelectorPolicy, SelectorState
from jaxtyping import Float
from torch import Tensor

from earl_trainer.rollout.switch import Switch


@runtime_checkable
class ScoringRanks(Protocol):
    """Ranks that hold models and score samples together."""

    @property
    def tp(self) -> int:
        """The tensor-parallel degree in use."""
        ...

    def resize(self, tp: int) -> Switch | None:
        """Change the degree."""
        ...

    def score(
        self, role: str, columns: Columns, *, temperature: float, max_tokens: int
    ) -> Float[Tensor, " tokens"]:
        """Return the log-prob of every trained token under the model of this role."""
        ...


@final
class RankPreparer:
    """Adds a column of log-probs per model to the samples, as `Preparer` does, computed by ranks.

    Before each step the same policy as for rollouts chooses the degree, from the lengths of the
    steps before and its own table. Ranks hold shards in one layout at a time, so that the rollout
    that follows changes back if its degree is another: both changes are counted against it, every
    step (`SelectorPolicy.returns`).

    Args:
        ranks: That hold the models.
        roles: Name of the column -> the role of the model that computes it.
        policy: Chooses the degree; its responses are the rows of a step, and it `returns`.
        temperature: The sampler's.
        max_tokens: Tokens in one forward pass.
        note: Is told of every change of degree.
        clock: In seconds.
    """

    def __init__(
        self,
        ranks: ScoringRanks,
        roles: Mapping[str, str],
        policy: SelectorPolicy,
        *,
        temperature: float,
        max_tokens: int,
        note: Callable[[str], None] = lambda line: None,
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        self._ranks = ranks
        self._roles = roles
        self._policy = policy
        self._state = policy.init()
        self._temperature = temperature
        self._max_tokens = max_tokens
        self._note = note
        self._clock = clock
        self._report: ContextReport | None = None
        self._num_steps = 0
        self.figures: dict[str, float] = {}
        """Of the latest step: the degree, and what it was predicted to take and took."""

    def to_dict(self) -> dict[str, Any]:  # Any: plain values for JSON
        """Return what the choice of the next step's degree depends on."""
        return {
            "selector": self._state.to_dict(),
            "report": None if self._report is None else asdict(self._report),
            "num_steps": self._num_steps,
        }

    def restore(self, values: Mapping[str, Any]) -> None:  # Any: parsed JSON
        """Go on from what `to_dict` returned, or begin anew where there is nothing."""
        if not values:
            return
        report = values["report"]
        self._state = SelectorState.from_dict(values["selector"])
        self._report = None if report is None else ContextReport(**report)
        self._num_steps = values["num_steps"]

    def prepare(self, columns: Columns) -> Columns:
        """Score every trained token with every model; 0 at other tokens."""
        if not self._roles:
            return columns
        # The rollout has left the ranks at a degree of its own, and the way from there counts.
        decision, self._state = self._policy.update(
            self._state, self._report, current_tp=self._ranks.tp
        )
        switch = self._ranks.resize(decision.tp)
        if switch is not None:
            self._note(f"preparation: {switch.describe()}; {decision.reason}")
        tp = self._ranks.tp
        if tp != decision.tp:
            self._state = self._state.refuse(tp)
        most_tokens = min(self._max_tokens, self._policy.memory.capacity_tokens(tp))
        # A row is never cut, also where ranks were left at a degree whose memory is short of it.
        most_tokens = max([most_tokens, *columns.lengths.tolist()])
        start_s = self._clock()
        scored = {
            name: self._ranks.score(
                role, columns, temperature=self._temperature, max_tokens=most_tokens
            )
            for name, role in self._roles.items()
        }
        took_s = self._clock() - start_s
        self._report = _report_on(columns, self._num_steps, took_s, switch)
        self._num_steps += 1
        self.figures = {"selector/prepare_tp": float(tp), "time/prepare_score_s": took_s}
        if decision.predicted_s is not None:
            self.figures["time/prepare_predicted_s"] = decision.predicted_s
        return replace(columns, per_token={**columns.per_token, **scored})


def _report_on(
    columns: Columns, step: int, took_s: float, switch: Switch | None
) -> ContextReport | None:
    lengths = columns.lengths
    if not len(lengths):
        return None
    return ContextReport(
        step=step,
        num_responses=len(lengths),
        mean_context_tokens=float(lengths.double().mean()),
        max_context_tokens=int(lengths.max()),
        resident_tokens=int(lengths.sum()),
        rollout_s=took_s,
        switch_s=None if switch is None else switch.switch_s,
    )
