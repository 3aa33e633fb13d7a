"""The embedded engine over several ranks, at a tensor-parallel degree that changes."""

import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import final

from earl_dispatch import Columns
from earl_selector import ReshardPlan, plan_reshard
from jaxtyping import Float
from torch import Tensor
from transformers import PreTrainedModel

from earl_trainer.parallel.blueprint import Blueprint
from earl_trainer.parallel.engine_rank import EngineRank, RankMemory, RankSettings
from earl_trainer.parallel.placement import Placement
from earl_trainer.parallel.ray_ranks import LostRankError
from earl_trainer.parallel.recovering_ranks import RecoveringRanks
from earl_trainer.parallel.tp_plan import list_parameters
from earl_trainer.rollout.capacity_error import CapacityError
from earl_trainer.rollout.drift import Drift, find_worst_drift
from earl_trainer.rollout.engine import Completion, Request
from earl_trainer.rollout.probe import choose_probe, score_probe
from earl_trainer.rollout.switch import Switch, SwitchRules


@dataclass(frozen=True, slots=True, kw_only=True)
class _Change:
    """What a change of degree came to."""

    num_bytes: int = 0
    """Moved between ranks."""
    drift: Drift | None = None
    sending_s: float = 0.0
    """Of new weights."""


@final
class ParallelEngine:
    """Ranks that hold the model in shards and decode together.

    Each rank is a process with a memory of its own. At degree tp consecutive ranks form engines of
    tp; all of them share the conversations, or a single one has them all (`RankGroup`).

    New weights are sent when ranks first need them. A switch that comes before sends them straight
    into the new layout and moves none of them; otherwise it moves what the re-shard plan says,
    nothing on the way up. It compares log-probs of a few of the latest contexts with those of the
    learner, or of the old degree; and goes back to that if anything fails. Lost ranks are started
    anew with the learner's weights, and what they were doing is done again: a reply depends on its
    request alone.

    Lifecycle: made with the first degree; the first `load_weights` starts the ranks, `close` ends
    them.

    Args:
        model: The learner's, whose weights are sent to the ranks.
        placement: Where it goes.
        stop_ids: Tokens that end a reply.
        tp: The first degree.
        rules: For what goes wrong.
        note: Is told in one line what happened to ranks.
        make_rank: Makes a rank in its process.

    Raises:
        ValueError: If the model cannot be split so.
    """

    def __init__(
        self,
        model: PreTrainedModel,
        placement: Placement,
        *,
        stop_ids: frozenset[int],
        tp: int,
        rules: SwitchRules = SwitchRules(),  # noqa: B008 - frozen
        note: Callable[[str], None] = lambda line: None,
        make_rank: Callable[..., EngineRank] = EngineRank,
    ) -> None:
        blueprint, memory, degrees = Blueprint.of(model), placement.memory, placement.degrees
        self._model = model
        self._placement = placement
        self._rules = rules
        self._settings = RankSettings(
            blueprint=blueprint,
            parameters=list_parameters(blueprint, degrees),
            degrees=tuple(sorted(degrees)),
            num_ranks=placement.num_ranks,
            stop_ids=stop_ids,
            memory_bytes=memory.device.memory_bytes,
            kv_bytes_per_token={each: memory.kv_bytes_per_token(each) for each in degrees},
            num_threads=max(1, len(os.sched_getaffinity(0)) // placement.num_ranks),
            timeout_s=rules.timeout_s,
        )
        self._ranks = RecoveringRanks(
            model, self._settings, placement, rules, tp=tp, note=note, make_rank=make_rank
        )
        self._latest: list[list[int]] = []

    @property
    def version(self) -> int:
        """Version of the weights now in use."""
        return self._ranks.version

    @property
    def tp(self) -> int:
        """The degree in use."""
        return self._ranks.tp

    @property
    def capacity_tokens(self) -> int:
        """Context tokens that can be resident at once, on all engines together."""
        return self._placement.capacity_tokens(self.tp)

    def load_weights(self, version: int) -> None:
        """Take over the learner's weights as `version`.

        They are read when the ranks are next asked for something, which they then do with them.

        Raises:
            LostRankError: If the ranks do not start.
        """
        self._ranks.publish(version)

    def load_reference(self, reference: PreTrainedModel) -> None:
        """Send a frozen model of the same shape to the ranks, which score with it."""
        self._ranks.load_reference(reference)

    def score(
        self, role: str, columns: Columns, *, temperature: float, max_tokens: int
    ) -> Float[Tensor, " tokens"]:
        """Score samples with the `POLICY` or the `REFERENCE`, as `score_columns` does.

        All ranks take part, the rows divided among the engines of the degree in use.
        """
        return self._ranks.use(
            lambda group: group.score(role, columns, temperature=temperature, max_tokens=max_tokens)
        )

    def generate(self, requests: Sequence[Request]) -> list[Completion]:
        """Generate one completion per request, in order.

        Raises:
            CapacityError: If one request alone is larger than the capacity.
            LostRankError: If ranks are lost once more than is allowed.
        """
        if not requests:
            return []
        try:
            completions = self._ranks.use(lambda group: group.generate(requests))
        except ValueError as error:
            raise CapacityError(f"{error} of a rank at tp {self.tp}") from error
        self._latest = [
            [*request.prompt_ids, *completion.ids]
            for request, completion in zip(requests, completions, strict=True)
        ]
        return completions

    def interrupt(self) -> None:
        """Make a running `generate` return at the next token, each reply as far as it got."""
        self._ranks.interrupt()

    def resize(self, tp: int) -> Switch | None:
        """Change to degree `tp`; None if it is in use already. New weights are sent either way.

        Returns:
            What became of it. The engine goes on at the old degree where the new one does not hold
            the weights, drifts too far, or is lost half-way.

        Raises:
            ValueError: If it is none of the engine's degrees.
            LostRankError: If ranks are lost once more than is allowed.
        """
        if tp == self.tp:
            self._send()
            return None
        settings = self._settings
        if tp not in settings.degrees:
            raise ValueError(f"the engine runs at tp {settings.degrees}, got {tp}")
        start_s = time.perf_counter()
        old_tp, awaited = self.tp, self._ranks.awaited
        plan = plan_reshard(settings.layout(old_tp), settings.layout(tp), settings.parameters)
        change, problem = _Change(), ""
        try:
            change = self._switch(plan)
        except ValueError as error:
            problem = str(error)
        except LostRankError as error:
            problem = str(error)
            self._ranks.restart(error, tp=old_tp)
        if drifts := self._rules.judge(change.drift):
            problem = drifts
            if self._rules.on_drift == "refuse":
                self._switch_back(plan, with_weights=bool(awaited))
        switch_s = time.perf_counter() - start_s - change.sending_s
        self._send()
        return Switch(
            from_tp=old_tp,
            to_tp=tp,
            tp=self.tp,
            switch_s=switch_s,
            with_weights=bool(awaited),
            bytes_moved=change.num_bytes,
            bytes_lower_bound=plan.bytes_lower_bound * (self._ranks.num_models - len(awaited)),
            drift=change.drift,
            problem=problem,
        )

    def memory(self) -> list[RankMemory]:
        """Return what every rank holds."""
        return self._ranks.group.memory()

    def close(self) -> None:
        """End the ranks."""
        self._ranks.close()

    def _send(self) -> None:
        self._ranks.use(lambda group: None)

    def _switch(self, plan: ReshardPlan) -> _Change:
        ranks, awaited = self._ranks, self._ranks.awaited
        # Those that are to score: of new weights the ranks have nothing at the old degree.
        degrees = (plan.target.tp,) if awaited else (plan.source.tp, plan.target.tp)
        probe = choose_probe(
            self._latest,
            max_tokens=min(
                self._placement.pass_tokens(tp, num_models=ranks.num_models) for tp in degrees
            ),
        )
        before = [score_probe(self._model, probe)] if awaited else ranks.group.score_probe(probe)
        num_bytes = ranks.group.switch(plan, awaited)
        start_s = time.perf_counter()
        ranks.send()
        sending_s = time.perf_counter() - start_s
        drift = find_worst_drift(before, ranks.group.score_probe(probe))
        return _Change(num_bytes=num_bytes, drift=drift, sending_s=sending_s)

    def _switch_back(self, plan: ReshardPlan, *, with_weights: bool) -> None:
        back = plan_reshard(plan.target, plan.source, plan.parameters)
        if with_weights:
            # From the learner again: what the ranks have is what is in doubt.
            self._ranks.publish(self.version)
        try:
            self._latest = []
            self._switch(back)
        except (LostRankError, ValueError) as error:
            # There may be no room for the way back, which is the longer one.
            self._ranks.restart(LostRankError(str(error)), tp=plan.source.tp)
