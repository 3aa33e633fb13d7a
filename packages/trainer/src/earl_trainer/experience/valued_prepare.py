"""The experience preparation stage of an algorithm with a critic."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Protocol, final, runtime_checkable

import torch
from earl_dispatch import Columns, Schema
from transformers import PreTrainedModel

from earl_trainer.experience.by_pack import compute_by_pack
from earl_trainer.learner.critic import expect

_VALUED = Schema(per_token=(("values", torch.float32),), per_row=(("last_values", torch.float32),))


@runtime_checkable
class PreparationStage(Protocol):
    """Adds columns to the samples of a step."""

    figures: dict[str, float]
    """What there is to report of the latest step."""

    def prepare(self, columns: Columns) -> Columns:
        """Add the columns."""
        ...

    def to_dict(self) -> dict[str, Any]:  # Any: plain values for JSON
        """Return what the next step depends on."""
        ...

    def restore(self, values: Mapping[str, Any]) -> None:  # Any: parsed JSON
        """Go on from what `to_dict` returned."""
        ...


@final
class ValuedPreparer:
    """Adds what the critic expects to what another preparation stage adds.

    Args:
        inner: The other.
        critic: Of `make_critic`; scores where the samples are, with its weights of the moment.
        max_tokens: Tokens in one forward pass.
    """

    def __init__(
        self, inner: PreparationStage, critic: PreTrainedModel, *, max_tokens: int
    ) -> None:
        self._inner = inner
        self._critic = critic
        self._max_tokens = max_tokens
        self.figures: dict[str, float] = {}
        """The other's."""

    def to_dict(self) -> dict[str, Any]:  # Any: plain values for JSON
        """Return what the other depends on."""
        return self._inner.to_dict()

    def restore(self, values: Mapping[str, Any]) -> None:  # Any: parsed JSON
        """Let the other go on."""
        self._inner.restore(values)

    def prepare(self, columns: Columns) -> Columns:
        """Score every trained token, and the end of every row."""
        prepared = self._inner.prepare(columns)
        self.figures = self._inner.figures
        valued = value_columns(self._critic, columns, max_tokens=self._max_tokens)
        return replace(
            prepared,
            per_token={**prepared.per_token, **valued.per_token},
            per_row={**prepared.per_row, **valued.per_row},
        )


@torch.no_grad()
def value_columns(critic: PreTrainedModel, columns: Columns, *, max_tokens: int) -> Columns:
    """Return `values` per token, 0 where none is trained, and `last_values` per row.

    Args:
        critic: Of `make_critic`.
        columns: With `token_ids` and `mask` per token.
        max_tokens: Tokens in one forward pass.

    Raises:
        ValueError: If a row is longer than `max_tokens`.
    """

    def compute(part: Columns) -> Columns:
        values, last_values = expect(
            critic,
            part.per_token["token_ids"].long().to(critic.device),
            part.per_token["mask"].to(critic.device),
            part.lengths,
        )
        return Columns(
            lengths=part.lengths,
            per_token={"values": values.cpu()},
            per_row={"last_values": last_values.cpu()},
        )

    return compute_by_pack(columns, compute, _VALUED, max_tokens=max_tokens)
