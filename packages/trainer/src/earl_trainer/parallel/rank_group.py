"""The ranks of an engine at the degree in use: who is asked for what, and what comes of it."""

from collections.abc import Mapping, Sequence
from typing import Any, Protocol, final, runtime_checkable

import torch
from earl_dispatch import Columns
from earl_selector import ReshardPlan
from jaxtyping import Float
from torch import Tensor
from transformers import PreTrainedModel

from earl_trainer.parallel.engine_rank import POLICY, RankMemory, RankSettings
from earl_trainer.parallel.exchange import pack_shards
from earl_trainer.parallel.placement import Placement
from earl_trainer.parallel.ray_ranks import LostRankError
from earl_trainer.rollout.engine import Completion, Request
from earl_trainer.rollout.probe import probe_columns, split_probe
from earl_trainer.rollout.switch import SwitchRules


@runtime_checkable
class CalledRanks(Protocol):
    """Processes with a rank each; see `RayRanks`."""

    def call(self, ranks: Sequence[int], method: str, *args: Any, timeout_s: float) -> list[Any]:  # noqa: ANN401 - whatever the method takes and returns
        """Call a method on some ranks with the same arguments."""
        ...

    def call_each(
        self, args: Mapping[int, Sequence[Any]], method: str, *, timeout_s: float
    ) -> list[Any]:
        """Call a method on some ranks, each with arguments of its own."""
        ...

    def share(self, value: object) -> object:
        """Put a value where all ranks can read it."""
        ...


@final
class RankGroup:
    """Ranks that hold a model in shards, as engines of the degree in use.

    Requests of one conversation stay with one engine, which keeps their keys and values; rows to
    score are divided among all. All ranks of an engine give the same answer.

    Args:
        ranks: The processes, started at degree `tp`.
        settings: That they were made with.
        placement: How engines share.
        rules: How long each call may take.
        tp: The degree in use.
    """

    def __init__(
        self,
        ranks: CalledRanks,
        settings: RankSettings,
        placement: Placement,
        rules: SwitchRules,
        *,
        tp: int,
    ) -> None:
        self._ranks = ranks
        self._settings = settings
        self._placement = placement
        self._rules = rules
        self._tp = tp

    @property
    def tp(self) -> int:
        """The degree in use."""
        return self._tp

    def load(self, role: str, version: int, model: PreTrainedModel) -> None:
        """Send a model's weights, to each rank what it holds.

        Raises:
            LostRankError: If a rank does not take them: it may have a part of them.
        """
        parameters, specs = dict(model.named_parameters()), self._settings.parameters
        layout = self._settings.layout(self._tp)
        # The copies of a shard are cut, and kept for reading, once.
        packed = {
            layout.shard_of(rank): self._ranks.share(pack_shards(parameters, specs, layout, rank))
            for rank in range(layout.tp)
        }
        calls = {
            rank: (role, version, packed[layout.shard_of(rank)])
            for rank in range(self._settings.num_ranks)
        }
        try:
            self._ranks.call_each(calls, "load", timeout_s=self._rules.timeout_s)
        except ValueError as error:
            raise LostRankError(f"a rank failed: {error}") from error

    def generate(self, requests: Sequence[Request]) -> list[Completion]:
        """Generate one completion per request, in order.

        Raises:
            ValueError: If one request alone is larger than the capacity.
            LostRankError: If a rank is gone or does not answer in time.
        """
        places: dict[int, list[int]] = {}
        for place, request in enumerate(requests):
            places.setdefault(self._engine_of(request.sequence_id), []).append(place)
        answers = self._ask(
            {engine: ([requests[place] for place in own],) for engine, own in places.items()},
            "generate",
        )
        completions = {
            place: completion
            for engine, own in places.items()
            for place, completion in zip(own, answers[engine], strict=True)
        }
        return [completions[place] for place in range(len(requests))]

    def score(
        self, role: str, columns: Columns, *, temperature: float, max_tokens: int
    ) -> Float[Tensor, " tokens"]:
        """Score samples with the model of a role, as `score_columns` does."""
        if not len(columns.lengths):
            return torch.empty(0)
        num_engines = self._settings.num_ranks // self._tp
        wanted = {name: columns.per_token[name] for name in ("token_ids", "mask")}
        needed = Columns(lengths=columns.lengths, per_token=wanted, per_row={})
        # Long rows first, dealt out in turn, so that no engine has much more to do than another.
        longest_first = columns.lengths.argsort(descending=True, stable=True)
        rows = {
            engine: longest_first[engine::num_engines]
            for engine in range(min(num_engines, len(longest_first)))
        }
        answers: dict[int, Tensor] = self._ask(
            {
                engine: (role, needed.select(own), temperature, max_tokens)
                for engine, own in rows.items()
            },
            "score",
        )
        order = torch.cat(list(rows.values()))
        together = Columns(
            lengths=columns.lengths[order],
            per_token={"scored": torch.cat([answers[engine] for engine in rows])},
            per_row={},
        )
        return together.select(order.argsort()).per_token["scored"]

    def score_probe(self, probe: Sequence[Sequence[int]]) -> list[list[list[float]]]:
        """Return, for every engine that generates, the log-probs of each context at temperature 1.

        Of every token but the first. Each engine has shards of its own, which may differ.
        """
        if not probe:
            return []
        columns, layout = probe_columns(probe), self._settings.layout(self._tp)
        engines = range(self._placement.num_engines(self._tp))
        ranks = [rank for engine in engines for rank in layout.ranks_of(engine)]
        args = POLICY, columns, 1.0, columns.num_tokens
        answers: list[Tensor] = self._ranks.call(
            ranks, "score", *args, timeout_s=self._rules.timeout_s
        )
        scores = dict(zip(ranks, answers, strict=True))
        # All ranks of an engine return the same.
        return [split_probe(columns, scores[min(layout.ranks_of(engine))]) for engine in engines]

    def switch(self, plan: ReshardPlan, awaited: Sequence[str]) -> int:
        """Change the degree and return the bytes that ranks received.

        Args:
            plan: From the degree in use.
            awaited: Roles of models of which nothing is moved, as `load` follows.

        Raises:
            ValueError: If a rank has no memory for it, or refuses; all are as they were.
            LostRankError: If a rank is gone or stays behind.
        """
        try:
            self._call_all("check_switch", plan, awaited)
            received_bytes: list[int] = self._call_all("begin_switch", plan, awaited)
        except ValueError:
            self._call_all("abandon_switch")
            raise
        try:
            self._call_all("end_switch")
        except ValueError as error:
            # The others may be at the new degree: there is no way back but a new start.
            raise LostRankError(f"a rank failed: {error}") from error
        self._tp = plan.target.tp
        return sum(received_bytes)

    def memory(self) -> list[RankMemory]:
        """Return what every rank holds."""
        return self._call_all("memory")

    def _call_all(self, method: str, *args: Any) -> list[Any]:  # noqa: ANN401
        everyone = range(self._settings.num_ranks)
        return self._ranks.call(everyone, method, *args, timeout_s=self._rules.timeout_s)

    def _ask(self, args: Mapping[int, Sequence[Any]], method: str) -> dict[int, Any]:
        """Ask engines, each with arguments of its own; return the answer of each."""
        layout = self._settings.layout(self._tp)
        calls = {rank: own for engine, own in args.items() for rank in layout.ranks_of(engine)}
        answers = self._ranks.call_each(calls, method, timeout_s=self._rules.generate_timeout_s)
        # The last rank of an engine says what all of them do.
        return {layout.engine_of(rank): answer for rank, answer in zip(calls, answers, strict=True)}

    def _engine_of(self, sequence_id: int) -> int:
        """Return which engine has a conversation: all in turn, in turns that shift by one.

        Seats of a table have consecutive numbers and only one of them moves at a time, so that the
        conversations of each seat have to be spread.
        """
        num_engines = self._placement.num_engines(self._tp)
        return (sequence_id + sequence_id // num_engines) % num_engines
