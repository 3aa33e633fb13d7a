"""An engine whose clock moves by exactly what it does."""

from collections.abc import Callable, Sequence

import pytest
from earl_selector import ProfileGrid, ProfileSubject, ProfileTable
from earl_trainer.profiling.meter import Meter
from earl_trainer.rollout.engine import Completion, FinishReason
from earl_trainer.rollout.switch import Switch

STOP_IDS = frozenset({0, 7})
SWITCH_S = 2.0


class TimedEngine:
    """Generates token 1 at `speed(tp, responses)` tokens per second; reading a prompt takes ages.

    It keeps conversations as the embedded engine does: all but the last token that it emitted.
    """

    def __init__(
        self,
        speed: Callable[[int, int], float],
        *,
        reply: Callable[[int, int], Sequence[int]] = lambda row, most: [1] * most,
        capacity_tokens: int = 10**9,
        # Per token of a prompt: not to be missed where it is timed.
        prefill_s: float = 50.0,
        lazy: bool = False,
        stuck: bool = False,
        never_down: bool = False,
    ) -> None:
        self.now_s = 100.0
        self.version = 3
        self.tp = 1
        self.capacity_tokens = capacity_tokens
        self.batches: list = []
        self.degrees: list[int] = []
        self.loads: list[int] = []
        self.due_s = 0.0
        self.closed = False
        self._prefill_s = prefill_s
        self._speed, self._reply, self._lazy, self._stuck = speed, reply, lazy, stuck
        self._never_down = never_down
        self._held: dict[int, list[int]] = {}

    def clock(self) -> float:
        return self.now_s

    def generate(self, requests):
        self.batches.append(list(requests))
        if sum(len(r.prompt_ids) + r.max_new_tokens for r in requests) > self.capacity_tokens:
            raise ValueError("a context does not fit the capacity")
        self.now_s += self.due_s
        self.due_s = 0.0
        completions = []
        for row, request in enumerate(requests):
            prompt, ids = list(request.prompt_ids), list(self._reply(row, request.max_new_tokens))
            held = self._held.get(request.sequence_id, [])
            num_held = len(held) if prompt[: len(held)] == held else 0
            # Reading one token is what decoding one takes: it is part of the speed.
            self.now_s += self._prefill_s * (len(prompt) - num_held - 1)
            self._held[request.sequence_id] = [*prompt, *ids[:-1]]
            completions.append(
                Completion(
                    ids=ids,
                    logprobs=[0.0] * len(ids),
                    versions=[self.version] * len(ids),
                    finish_reason=FinishReason.LENGTH,
                )
            )
        num_decoded = len(requests) * max(request.max_new_tokens for request in requests)
        self.now_s += num_decoded / self._speed(self.tp, len(requests))
        return completions

    def interrupt(self):
        raise AssertionError("nothing here is to be interrupted")

    def load_weights(self, version):
        self.loads.append(version)
        self._held = {}

    def resize(self, tp):
        self.degrees.append(tp)
        if tp == self.tp:
            return None
        stays = self._stuck or (self._never_down and tp < self.tp)
        before, self.tp = self.tp, self.tp if stays else tp
        if self._lazy:
            self.due_s += SWITCH_S
        else:
            self.now_s += SWITCH_S
        return Switch(
            from_tp=before,
            to_tp=tp,
            tp=self.tp,
            switch_s=SWITCH_S,
            problem="it is stuck" if stays else "",
        )

    def close(self):
        self.closed = True


@pytest.fixture
def timed_engine() -> type[TimedEngine]:
    return TimedEngine


@pytest.fixture
def make_meter():
    """A meter of such an engine, by its clock."""

    def make(engine, **fields):
        fields = {"vocab_size": 30, "stop_ids": STOP_IDS, "num_new_tokens": 4, **fields}
        return Meter(engine=engine, clock=engine.clock, **fields)

    return make


@pytest.fixture
def make_table():
    """An empty table over some axes."""

    def make(*, degrees=(1, 2), num_responses=(2, 4), context_tokens=(32, 64)):
        return ProfileTable(
            subject=ProfileSubject(model="tiny", device="cpu", engine="embedded"),
            grid=ProfileGrid(
                degrees=degrees, num_responses=num_responses, context_tokens=context_tokens
            ),
        )

    return make
