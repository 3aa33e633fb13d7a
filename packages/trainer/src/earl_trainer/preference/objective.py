"""Preference losses as objectives: from log-probs per token to a loss per row."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

import torch
from earl_dispatch import Columns
from jaxtyping import Float, Int64
from torch import Tensor
from transformers import PreTrainedModel

from earl_trainer.algorithms.aggregation import sequence_mean
from earl_trainer.experience.sequences import CHOSEN_TOKENS, sequence_lengths
from earl_trainer.learner.forward import score
from earl_trainer.learner.objective import WEIGHTS, Terms, masked, single_rows
from earl_trainer.preference.baseline import BASELINE
from earl_trainer.preference.lines import DESIRABLE
from earl_trainer.preference.losses import Answer, PairLoss, PreferenceSettings, kto


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class PairObjective:
    """A loss per pair; every pair is one row and counts alike."""

    function: PairLoss
    settings: PreferenceSettings
    temperature: float
    """Log-probs are taken at it."""

    def units(self, minibatch: Columns) -> Sequence[Sequence[int]]:
        """Return every row by itself: it holds both answers."""
        return single_rows(minibatch)

    def weigh(self, minibatch: Columns) -> tuple[Float[Tensor, " tokens"], Float[Tensor, ""]]:
        """Weigh pairs alike, but for those without a trained token."""
        return sequence_mean(minibatch.per_token["mask"], minibatch.lengths, minibatch.per_row)

    def loss(self, model: PreTrainedModel, part: Columns) -> Terms:
        """Return the weighted sum of the losses of pairs, and what they were told apart by."""
        sides = _answers(model, part, _sides(part), self.temperature)
        chosen, rejected = (_rows_from(sides, start, step=2) for start in (0, 1))
        outputs = self.function(chosen, rejected, self.settings)
        weights = _row_weights(part, chosen.logprobs.device)
        margin = outputs.chosen_rewards - outputs.rejected_rewards
        reported = {
            "margin": margin,
            "accuracy": (margin > 0).float(),
            "chosen_logprob": chosen.mean_logprobs,
            "rejected_logprob": rejected.mean_logprobs,
        }
        return _terms(outputs.loss, weights, reported)


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class JudgedObjective:
    """KTO's loss per answer; every answer is one row and counts alike."""

    settings: PreferenceSettings
    temperature: float
    """Log-probs are taken at it."""

    def units(self, minibatch: Columns) -> Sequence[Sequence[int]]:
        """Return every row by itself: others come in by the baseline alone."""
        return single_rows(minibatch)

    def weigh(self, minibatch: Columns) -> tuple[Float[Tensor, " tokens"], Float[Tensor, ""]]:
        """Weigh answers alike, but for those without a trained token."""
        return sequence_mean(minibatch.per_token["mask"], minibatch.lengths, minibatch.per_row)

    def loss(self, model: PreTrainedModel, part: Columns) -> Terms:
        """Return the weighted sum of the losses of answers, and how far apart good and bad are."""
        answers = _answers(model, part, _rows(part), self.temperature)
        device = answers.logprobs.device
        desirable = part.per_row[DESIRABLE].to(device)
        baseline = part.per_row[BASELINE].to(device)
        losses, rewards = kto(answers, desirable, baseline, self.settings)
        sign = torch.where(desirable, 1.0, -1.0)
        above = rewards - self.settings.beta * baseline
        reported = {
            # Beyond the baseline, in the direction of the label.
            "margin": sign * above,
            "accuracy": (sign * above > 0).float(),
            "baseline": baseline,
        }
        return _terms(losses, _row_weights(part, device), reported)


def _answers(
    model: PreTrainedModel,
    part: Columns,
    sequences: Int64[Tensor, " tokens"],
    temperature: float,
) -> Answer:
    """Score the sequences of a micro-batch; `sequences` says of which one each token is."""
    mask = part.per_token["mask"].to(model.device)
    logprobs, _ = score(
        model,
        part.per_token["token_ids"].long().to(model.device),
        mask,
        sequence_lengths(part),
        temperature=temperature,
    )
    per_row = 2 if CHOSEN_TOKENS in part.per_row else 1
    index = sequences.to(model.device)

    def total(values: Float[Tensor, " tokens"]) -> Float[Tensor, " sequences"]:
        zeros = torch.zeros(per_row * part.num_rows, device=values.device)
        return zeros.index_add(0, index, values)

    return Answer(
        logprobs=total(logprobs),
        reference_logprobs=total(masked(part, "reference_logprobs", mask)),
        num_tokens=total(mask.float()),
    )


def _rows(part: Columns) -> Int64[Tensor, " tokens"]:
    return torch.arange(part.num_rows).repeat_interleave(part.lengths)


def _sides(part: Columns) -> Int64[Tensor, " tokens"]:
    """Number the sequences: 2 r is the chosen one of row r, 2 r + 1 the other."""
    rows = _rows(part)
    places = torch.arange(part.num_tokens) - part.offsets()[rows]
    return 2 * rows + (places >= part.per_row[CHOSEN_TOKENS][rows])


def _rows_from(sides: Answer, start: int, *, step: int) -> Answer:
    return Answer(
        logprobs=sides.logprobs[start::step],
        reference_logprobs=sides.reference_logprobs[start::step],
        num_tokens=sides.num_tokens[start::step],
    )


def _row_weights(part: Columns, device: torch.device) -> Float[Tensor, " rows"]:
    """Add up the weights of each row's tokens: 1 over the rows of the mini-batch, or 0."""
    weights = part.per_token[WEIGHTS]
    return torch.zeros(part.num_rows).index_add(0, _rows(part), weights).to(device)


def _terms(
    losses: Float[Tensor, " rows"],
    weights: Float[Tensor, " rows"],
    reported: dict[str, Float[Tensor, " rows"]],
) -> Terms:
    return Terms(
        loss=(losses * weights).sum(),
        metrics={
            name: float((values.detach() * weights).sum()) for name, values in reported.items()
        },
    )
