"""The embedded engine over several ranks, at a tensor-parallel degree that changes."""

import os
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import TypeVar, final

from earl_dispatch import Columns
from earl_selector import ReshardPlan, plan_reshard
from jaxtyping import Float
from torch import Tensor
from transformers import PreTrainedModel

from earl_trainer.parallel.blueprint import Blueprint
from earl_trainer.parallel.engine_rank import (
    POLICY,
    REFERENCE,
    EngineRank,
    RankMemory,
    RankSettings,
)
from earl_trainer.parallel.exchange import explain_blocked
from earl_trainer.parallel.placement import Placement
from earl_trainer.parallel.rank_group import RankGroup
from earl_trainer.parallel.ray_ranks import LostRankError, RayRanks
from earl_trainer.parallel.tp_plan import list_parameters
from earl_trainer.rollout.capacity_error import CapacityError
from earl_trainer.rollout.drift import Drift, choose_probe, find_worst_drift
from earl_trainer.rollout.engine import Completion, Request
from earl_trainer.rollout.switch import Switch, SwitchRules

T = TypeVar("T")


@final
class ParallelEngine:
    """Ranks that hold the model in shards and decode together.

    Each rank is a process with a memory of its own. At degree tp consecutive ranks form engines of
    tp; all of them share the conversations, or a single one has them all (`RankGroup`).

    A switch moves what the re-shard plan says, nothing on the way up; scores a few of the latest
    contexts before and after; and goes back to the old degree if anything fails. Lost ranks are
    started anew with the learner's weights, and what they were doing is done again: a reply depends
    on its request alone.

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
        self._note = note
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
        self._tp = tp
        self._version = 0
        self._reference: PreTrainedModel | None = None
        self._latest: list[list[int]] = []
        self._num_restarts = 0
        self._make_rank = make_rank
        self._started: RayRanks | None = None
        self._group: RankGroup | None = None

    @property
    def version(self) -> int:
        """Version of the weights now in use."""
        return self._version

    @property
    def tp(self) -> int:
        """The degree in use."""
        return self._tp

    @property
    def capacity_tokens(self) -> int:
        """Context tokens that can be resident at once, on all engines together."""
        return self._placement.capacity_tokens(self._tp)

    def load_weights(self, version: int) -> None:
        """Send the learner's weights to the ranks, to each what it holds, as `version`.

        Raises:
            LostRankError: If the ranks do not start, or are lost once more than is allowed.
        """
        self._version = version
        if self._group is None:
            self._start(self._tp)
            self._note_blocked()
        self._recovering(self._send_weights)

    def load_reference(self, reference: PreTrainedModel) -> None:
        """Send a frozen model of the same shape to the ranks, which score with it."""
        self._reference = reference
        self._recovering(self._send_reference)

    def score(
        self, role: str, columns: Columns, *, temperature: float, max_tokens: int
    ) -> Float[Tensor, " tokens"]:
        """Score samples with the `POLICY` or the `REFERENCE`, as `score_columns` does.

        All ranks take part, the rows divided among the engines of the degree in use.
        """
        return self._recovering(
            lambda: self._ranks.score(role, columns, temperature=temperature, max_tokens=max_tokens)
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
            completions = self._recovering(lambda: self._ranks.generate(requests))
        except ValueError as error:
            raise CapacityError(f"{error} of a rank at tp {self._tp}") from error
        self._latest = [
            [*request.prompt_ids, *completion.ids]
            for request, completion in zip(requests, completions, strict=True)
        ]
        return completions

    def interrupt(self) -> None:
        """Make a running `generate` return at the next token, each reply as far as it got."""
        if self._started is not None:
            self._started.interrupt()

    def resize(self, tp: int) -> Switch | None:
        """Change to degree `tp`; None if it is in use already.

        Returns:
            What became of it. The engine goes on at the old degree where the new one does not hold
            the weights, drifts too far, or is lost half-way.

        Raises:
            ValueError: If it is none of the engine's degrees.
        """
        if tp == self._tp:
            return None
        if tp not in self._settings.degrees:
            raise ValueError(f"the engine runs at tp {self._settings.degrees}, got {tp}")
        start_s = time.perf_counter()
        old_tp = self._tp
        plan = plan_reshard(
            self._settings.layout(old_tp), self._settings.layout(tp), self._settings.parameters
        )
        drift, problem, num_bytes = None, "", 0
        try:
            drift, num_bytes = self._switch(plan)
        except ValueError as error:
            problem = str(error)
            self._recovering(lambda: self._ranks.abandon_switch())
        except LostRankError as error:
            problem = str(error)
            self._restart(error, tp=old_tp)
        if drifts := self._rules.judge(drift):
            problem = drifts
            if self._rules.on_drift == "refuse":
                self._switch_back(plan)
        return Switch(
            from_tp=old_tp,
            to_tp=tp,
            tp=self._tp,
            switch_s=time.perf_counter() - start_s,
            bytes_moved=num_bytes,
            bytes_lower_bound=plan.bytes_lower_bound * self._num_models,
            drift=drift,
            problem=problem,
        )

    def memory(self) -> list[RankMemory]:
        """Return what every rank holds."""
        return self._ranks.memory()

    def close(self) -> None:
        """End the ranks."""
        if self._started is not None:
            self._started.close()
            self._started = self._group = None

    @property
    def _ranks(self) -> RankGroup:
        if self._group is None:
            raise RuntimeError("load_weights starts the ranks: call it first")
        return self._group

    @property
    def _num_models(self) -> int:
        return 1 if self._reference is None else 2

    def _start(self, tp: int) -> None:
        self._started = RayRanks(
            self._settings.num_ranks,
            partial(self._make_rank, self._settings, tp=tp),
            address=self._placement.ray_address,
            # Those in use, and those that follow while they are still being read.
            shared_bytes=2 * sum(spec.num_bytes for spec in self._settings.parameters),
        )
        self._group = RankGroup(self._started, self._settings, self._placement, self._rules, tp=tp)

    def _note_blocked(self) -> None:
        rules, num_models = self._settings, self._num_models
        layouts = [rules.layout(tp) for tp in rules.degrees]
        if blocked := explain_blocked(
            layouts, rules.parameters, memory_bytes=rules.memory_bytes, num_models=num_models
        ):
            self._note(blocked)

    def _send_weights(self) -> None:
        self._ranks.load(POLICY, self._version, self._model)

    def _send_reference(self) -> None:
        if self._reference is not None:
            self._ranks.load(REFERENCE, self._version, self._reference)

    def _switch(self, plan: ReshardPlan) -> tuple[Drift | None, int]:
        self._ranks.check_switch(plan)
        pass_tokens = min(
            self._placement.pass_tokens(tp, num_models=self._num_models)
            for tp in (plan.source.tp, plan.target.tp)
        )
        probe = choose_probe(self._latest, max_tokens=pass_tokens)
        before = self._ranks.score_probe(probe)
        num_bytes = self._ranks.switch(plan)
        self._tp = plan.target.tp
        return find_worst_drift(before, self._ranks.score_probe(probe)), num_bytes

    def _switch_back(self, plan: ReshardPlan) -> None:
        back = plan_reshard(plan.target, plan.source, plan.parameters)
        try:
            self._latest = []
            self._switch(back)
        except (LostRankError, ValueError) as error:
            # There may be no room for the way back, which is the longer one.
            self._restart(LostRankError(str(error)), tp=plan.source.tp)

    def _recovering(self, work: Callable[[], T]) -> T:
        while True:
            try:
                return work()
            except LostRankError as error:
                self._restart(error, tp=self._tp)

    def _restart(self, error: LostRankError, *, tp: int) -> None:
        """Start all ranks anew with the learner's weights, again if need be, or give up."""
        self._tp = tp
        while self._num_restarts < self._rules.max_restarts:
            self._num_restarts += 1
            self._note(f"{error}; starting {self._settings.num_ranks} ranks anew at tp {tp}")
            self.close()
            try:
                self._start(tp)
                self._send_weights()
                self._send_reference()
            except LostRankError as again:
                error = again
            else:
                return
        raise error
