"""The embedded engine over several ranks, at a tensor-parallel degree that changes."""

import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Literal, TypeVar, final

import torch
from earl_dispatch import Columns
from earl_selector import MemoryModel, ReshardPlan, plan_reshard
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
from earl_trainer.parallel.exchange import pack_shards
from earl_trainer.parallel.ray_ranks import LostRankError, RayRanks
from earl_trainer.parallel.tp_plan import list_parameters
from earl_trainer.rollout.drift import Drift, choose_probe, compare_logprobs, probe_columns
from earl_trainer.rollout.engine import Completion, Request
from earl_trainer.rollout.switch import Switch

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class SwitchRules:
    """How an engine behaves when something about its ranks goes wrong."""

    timeout_s: float = 120.0
    """Longest time that a change of degree, or new weights, may take."""
    generate_timeout_s: float = 1800.0
    """Longest time that one batch of replies may take."""
    max_token_error: float = 1.05
    """Largest `Drift.token_mult_prob_error` that is in order."""
    on_drift: Literal["flag", "refuse"] = "flag"
    """What a larger one leads to: a remark, or the old degree."""
    max_restarts: int = 3
    """How often lost ranks are started anew; 0 ends the run instead."""


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


@final
class ParallelEngine:
    """Ranks that hold the model in shards and decode together.

    Each rank is a process with a memory of its own. At degree tp consecutive ranks form engines of
    tp; all of them share the conversations, or a single one has them all. Requests of one
    conversation stay with one engine, which keeps their keys and values.

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
        rules: SwitchRules = SwitchRules(),
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
        return self._placement.memory.capacity_tokens(self._tp) * self._num_engines

    def load_weights(self, version: int) -> None:
        """Send the learner's weights to the ranks, to each what it holds, as `version`.

        Raises:
            LostRankError: If the ranks do not start, or are lost once more than is allowed.
        """
        self._version = version
        if self._started is None:
            self._started = self._start(self._tp)
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
            lambda: self._score(role, columns, temperature=temperature, max_tokens=max_tokens)
        )

    def generate(self, requests: Sequence[Request]) -> list[Completion]:
        """Generate one completion per request, in order.

        Raises:
            ValueError: If one request alone is larger than the capacity.
            LostRankError: If ranks are lost once more than is allowed.
        """
        if not requests:
            return []
        completions = self._recovering(lambda: self._generate(requests))
        self._latest = [
            [*request.prompt_ids, *completion.ids]
            for request, completion in zip(requests, completions, strict=True)
        ]
        return completions

    def interrupt(self) -> None:
        """Make a running `generate` return at the next token, each reply as far as it got."""
        self._ranks.interrupt()

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
            self._recovering(self._abandon)
        except LostRankError as error:
            problem = str(error)
            self._restart(error, tp=old_tp)
        if drift is not None and drift.token_mult_prob_error > self._rules.max_token_error:
            problem = (
                f"token_mult_prob_error {drift.token_mult_prob_error:.4f} is above "
                f"{self._rules.max_token_error:g}"
            )
            if self._rules.on_drift == "refuse":
                self._switch_back(plan)
        return Switch(
            from_tp=old_tp,
            to_tp=tp,
            tp=self._tp,
            switch_s=time.perf_counter() - start_s,
            bytes_moved=num_bytes,
            bytes_lower_bound=plan.bytes_lower_bound * (1 if self._reference is None else 2),
            drift=drift,
            problem=problem,
        )

    def memory(self) -> list[RankMemory]:
        """Return what every rank holds."""
        return self._ranks.call(
            range(self._settings.num_ranks), "memory", timeout_s=self._rules.timeout_s
        )

    def close(self) -> None:
        """End the ranks."""
        if self._started is not None:
            self._started.close()
            self._started = None

    @property
    def _ranks(self) -> RayRanks:
        if self._started is None:
            raise RuntimeError("load_weights starts the ranks: call it first")
        return self._started

    @property
    def _num_engines(self) -> int:
        return self._settings.num_ranks // self._tp if self._placement.shares else 1

    def _start(self, tp: int) -> RayRanks:
        return RayRanks(
            self._settings.num_ranks,
            partial(self._make_rank, self._settings, tp=tp),
            address=self._placement.ray_address,
            # Those in use, and those that follow while they are still being read.
            shared_bytes=2 * sum(spec.num_bytes for spec in self._settings.parameters),
        )

    def _ranks_of(self, engine: int) -> tuple[int, ...]:
        return self._settings.layout(self._tp).ranks_of(engine)

    def _engine_of(self, sequence_id: int) -> int:
        """Return which engine has a conversation: all in turn, in turns that shift by one.

        Seats of a table have consecutive numbers and only one of them moves at a time, so that the
        conversations of each seat have to be spread.
        """
        return (sequence_id + sequence_id // self._num_engines) % self._num_engines

    def _send_weights(self) -> None:
        self._send(POLICY, self._model)

    def _send_reference(self) -> None:
        if self._reference is not None:
            self._send(REFERENCE, self._reference)

    def _send(self, role: str, model: PreTrainedModel) -> None:
        parameters, specs = dict(model.named_parameters()), self._settings.parameters
        layout = self._settings.layout(self._tp)
        # The copies of a shard are cut, and kept for reading, once.
        packed = {
            layout.shard_of(rank): self._ranks.share(pack_shards(parameters, specs, layout, rank))
            for rank in range(layout.tp)
        }
        self._ranks.call_each(
            {
                rank: (role, self._version, packed[layout.shard_of(rank)])
                for rank in range(self._settings.num_ranks)
            },
            "load",
            timeout_s=self._rules.timeout_s,
        )

    def _generate(self, requests: Sequence[Request]) -> list[Completion]:
        places: dict[int, list[int]] = {}
        for place, request in enumerate(requests):
            places.setdefault(self._engine_of(request.sequence_id), []).append(place)
        calls: dict[int, tuple[list[Request]]] = {}
        firsts: dict[int, list[int]] = {}
        for engine, own in places.items():
            ranks = self._ranks_of(engine)
            calls |= dict.fromkeys(ranks, ([requests[place] for place in own],))
            firsts[ranks[0]] = own
        answers = dict(
            zip(
                calls,
                self._ranks.call_each(calls, "generate", timeout_s=self._rules.generate_timeout_s),
                strict=True,
            )
        )
        completions = {
            place: completion
            for rank, own in firsts.items()
            for place, completion in zip(own, answers[rank], strict=True)
        }
        return [completions[place] for place in range(len(requests))]

    def _switch(self, plan: ReshardPlan) -> tuple[Drift | None, int]:
        everyone, timeout_s = range(self._settings.num_ranks), self._rules.timeout_s
        probe = choose_probe(self._latest)
        before = self._score_probe(probe)
        self._ranks.call(everyone, "check_switch", plan.target.tp, timeout_s=timeout_s)
        received = self._ranks.call(everyone, "begin_switch", plan, timeout_s=timeout_s)
        try:
            self._ranks.call(everyone, "end_switch", timeout_s=timeout_s)
        except ValueError as error:
            # The others may be at the new degree: there is no way back but a new start.
            raise LostRankError(f"a rank failed: {error}") from error
        self._tp = plan.target.tp
        return compare_logprobs(before, self._score_probe(probe)), sum(received)

    def _abandon(self) -> None:
        everyone = range(self._settings.num_ranks)
        self._ranks.call(everyone, "abandon_switch", timeout_s=self._rules.timeout_s)

    def _switch_back(self, plan: ReshardPlan) -> None:
        back = plan_reshard(plan.target, plan.source, plan.parameters)
        try:
            self._latest = []
            self._switch(back)
        except LostRankError as error:
            self._restart(error, tp=plan.source.tp)

    def _score(
        self, role: str, columns: Columns, *, temperature: float, max_tokens: int
    ) -> Float[Tensor, " tokens"]:
        if not len(columns.lengths):
            return torch.empty(0)
        num_engines = self._settings.num_ranks // self._tp
        wanted = {name: columns.per_token[name] for name in ("token_ids", "mask")}
        needed = Columns(lengths=columns.lengths, per_token=wanted, per_row={})
        # Long rows first, dealt out in turn, so that no engine has much more to do than another.
        longest_first = columns.lengths.argsort(descending=True, stable=True)
        calls: dict[int, tuple[str, Columns, float, int]] = {}
        firsts: dict[int, Tensor] = {}
        for engine in range(num_engines):
            rows = longest_first[engine::num_engines]
            if len(rows):
                ranks = self._ranks_of(engine)
                part = needed.select(rows)
                calls |= dict.fromkeys(ranks, (role, part, temperature, max_tokens))
                firsts[ranks[0]] = rows
        answers: dict[int, Tensor] = dict(
            zip(
                calls,
                self._ranks.call_each(calls, "score", timeout_s=self._rules.generate_timeout_s),
                strict=True,
            )
        )
        scored = torch.cat([torch.empty(0), *(answers[rank] for rank in firsts)])
        lengths = torch.cat([columns.lengths[rows] for rows in firsts.values()])
        order = torch.cat(list(firsts.values()))
        together = Columns(lengths=lengths, per_token={"scored": scored}, per_row={})
        return together.select(order.argsort()).per_token["scored"]

    def _score_probe(self, probe: Sequence[Sequence[int]]) -> list[list[float]]:
        """Return the log-prob of every token but the first of each context, at temperature 1."""
        if not probe:
            return []
        columns = probe_columns(probe)
        answers: list[Tensor] = self._ranks.call(
            self._ranks_of(0),
            "score",
            POLICY,
            columns,
            1.0,
            columns.num_tokens,
            timeout_s=self._rules.timeout_s,
        )
        return [part[1:].tolist() for part in answers[0].split(columns.lengths.tolist())]

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
                self._started = self._start(tp)
                self._send_weights()
                self._send_reference()
            except LostRankError as again:
                error = again
            else:
                return
        raise error
