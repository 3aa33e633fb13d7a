"""Ranks that follow the learner's weights and are started anew when one is lost."""

from collections.abc import Callable
from functools import partial
from typing import TypeVar, final

from transformers import PreTrainedModel

from earl_trainer.parallel.engine_rank import POLICY, REFERENCE, EngineRank, RankSettings
from earl_trainer.parallel.exchange import explain_blocked
from earl_trainer.parallel.placement import Placement
from earl_trainer.parallel.rank_group import RankGroup
from earl_trainer.parallel.ray_ranks import LostRankError, RayRanks
from earl_trainer.rollout.switch import SwitchRules

T = TypeVar("T")


@final
class RecoveringRanks:
    """Ranks with the learner's weights, and with a reference's where there is one.

    New weights are sent when ranks are next asked for something, so that a change of degree that
    comes before can send them straight to where it wants them. Until then the learner's must stay
    as they are. When a rank is lost, all are started anew, and what they were doing is done again.

    Lifecycle: made; the first `publish` starts the ranks, `close` ends them.

    Args:
        model: The learner's.
        settings: Of every rank.
        placement: Where they are.
        rules: For what goes wrong.
        tp: The first degree.
        note: Is told in one line what happened to ranks.
        make_rank: Makes a rank in its process.
    """

    def __init__(
        self,
        model: PreTrainedModel,
        settings: RankSettings,
        placement: Placement,
        rules: SwitchRules,
        *,
        tp: int,
        note: Callable[[str], None],
        make_rank: Callable[..., EngineRank],
    ) -> None:
        self._model = model
        self._settings = settings
        self._placement = placement
        self._rules = rules
        self._first_tp = tp
        self._note = note
        self._make_rank = make_rank
        self.version = 0
        """Of the weights that ranks have when they are next asked for something."""
        self._is_behind = False
        self._reference: PreTrainedModel | None = None
        self._num_restarts = 0
        self._started: RayRanks | None = None
        self._group: RankGroup | None = None

    @property
    def tp(self) -> int:
        """The degree in use."""
        return self._first_tp if self._group is None else self._group.tp

    @property
    def awaited(self) -> tuple[str, ...]:
        """Roles of models whose new weights have not been sent yet."""
        return (POLICY,) if self._is_behind else ()

    @property
    def num_models(self) -> int:
        """How many models every rank has."""
        return 1 if self._reference is None else 2

    @property
    def group(self) -> RankGroup:
        """The ranks as they are now."""
        if self._group is None:
            raise RuntimeError("load_weights starts the ranks: call it first")
        return self._group

    def publish(self, version: int) -> None:
        """Have the learner's weights sent, as `version`, when they are first needed.

        Raises:
            LostRankError: If the ranks do not start.
        """
        self.version = version
        self._is_behind = True
        if self._group is None:
            self._start(self._first_tp)
            self._note_blocked()

    def send(self) -> None:
        """Send new weights now, to each rank what it holds, if there are any.

        Raises:
            LostRankError: If a rank is gone or does not take them.
        """
        if self._is_behind:
            self.group.load(POLICY, self.version, self._model)
            self._is_behind = False

    def load_reference(self, reference: PreTrainedModel) -> None:
        """Send a frozen model of the same shape at once."""
        self._reference = reference
        self._recovering(self._send_reference)

    def use(self, work: Callable[[RankGroup], T]) -> T:
        """Do what needs ranks with the latest weights, again where one is lost.

        Raises:
            LostRankError: If ranks are lost once more than is allowed.
        """

        def send_and_work() -> T:
            self.send()
            return work(self.group)

        return self._recovering(send_and_work)

    def restart(self, error: LostRankError, *, tp: int) -> None:
        """Start all ranks anew at a degree, again if need be, or give up.

        Raises:
            LostRankError: If that has been done as often as is allowed.
        """
        self._first_tp = tp
        while self._num_restarts < self._rules.max_restarts:
            self._num_restarts += 1
            self._note(f"{error}; starting {self._settings.num_ranks} ranks anew at tp {tp}")
            self.close()
            try:
                self._start(tp)
                self._is_behind = True
                self.send()
                self._send_reference()
            except LostRankError as again:
                error = again
            else:
                return
        raise error

    def interrupt(self) -> None:
        """Make what the ranks generate stop at the next token."""
        if self._started is not None:
            self._started.interrupt()

    def close(self) -> None:
        """End the ranks."""
        if self._started is not None:
            self._started.close()
            self._started = self._group = None

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
        settings = self._settings
        layouts = [settings.layout(tp) for tp in settings.degrees]
        if blocked := explain_blocked(
            layouts,
            settings.parameters,
            memory_bytes=settings.memory_bytes,
            num_models=self.num_models,
        ):
            self._note(blocked)

    def _send_reference(self) -> None:
        if self._reference is not None:
            self.group.load(REFERENCE, self.version, self._reference)

    def _recovering(self, work: Callable[[], T]) -> T:
        while True:
            try:
                return work()
            except LostRankError as error:
                self.restart(error, tp=self.tp)
