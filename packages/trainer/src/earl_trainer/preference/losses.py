"""Losses that prefer one answer to another, or tell good answers from bad ones.

Everything here is per pair, or per answer, in float32 and finite; an answer of no tokens has
log-prob 0.
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float
from torch import Tensor
from torch.nn.functional import logsigmoid

# Above this log-prob 1 - p is no longer told from 0 in float32.
_MAX_LOGPROB = -1e-6


@dataclass(frozen=True, slots=True, kw_only=True)
class PreferenceSettings:
    """The constants of the preference losses."""

    beta: float
    """How strongly log-probs count; of ORPO the weight of its odds-ratio term."""
    margin: float = 0.0
    """gamma of SimPO: by how much the better answer is to be ahead."""
    label_smoothing: float = 0.0
    """epsilon of conservative DPO: the share of pairs thought to be labelled the wrong way round.
    """
    desirable_weight: float = 1.0
    """lambda_D of KTO."""
    undesirable_weight: float = 1.0
    """lambda_U of KTO."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """One side of every pair."""

    logprobs: Float[Tensor, " pairs"]
    """Sum over the answer's tokens under the weights being trained, with gradient."""
    reference_logprobs: Float[Tensor, " pairs"]
    """The same under the reference policy; void where the loss has none."""
    num_tokens: Float[Tensor, " pairs"]

    @property
    def mean_logprobs(self) -> Float[Tensor, " pairs"]:
        """Mean over the tokens."""
        return self.logprobs / self.num_tokens.clamp(min=1)

    @property
    def log_ratios(self) -> Float[Tensor, " pairs"]:
        """Log pi(y | x) - log pi_ref(y | x)."""
        return self.logprobs - self.reference_logprobs


@dataclass(frozen=True, slots=True, kw_only=True)
class PairLosses:
    """A loss per pair, and the implicit rewards that it compares, without gradient."""

    loss: Float[Tensor, " pairs"]
    chosen_rewards: Float[Tensor, " pairs"]
    rejected_rewards: Float[Tensor, " pairs"]


PairLoss = Callable[[Answer, Answer, PreferenceSettings], PairLosses]


def dpo(chosen: Answer, rejected: Answer, settings: PreferenceSettings) -> PairLosses:
    """Direct preference optimisation, with the label noise of its conservative variant.

    L = -(1 - eps) log sigma(h) - eps log sigma(-h) with h = r_w - r_l and the implicit reward
    r = beta (log pi(y | x) - log pi_ref(y | x)) (Rafailov et al., arXiv:2305.18290, eq. 7 for
    eps = 0; Mitchell, "A note on DPO with noisy preferences", 2023, eq. 3). At pi = pi_ref it is
    log 2. For noisy labels TRL's DPO has `robust` instead, (-(1 - eps) log sigma(h) +
    eps log sigma(-h)) / (1 - 2 eps) (Chowdhury et al., arXiv:2403.00409): unbiased, but falling
    without bound as h grows, where this one has its least at sigma(h) = 1 - eps.

    Args:
        chosen: The better answers.
        rejected: The worse ones.
        settings: `beta` and `label_smoothing`.
    """
    chosen_rewards = settings.beta * chosen.log_ratios
    rejected_rewards = settings.beta * rejected.log_ratios
    h = chosen_rewards - rejected_rewards
    epsilon = settings.label_smoothing
    loss = -(1.0 - epsilon) * logsigmoid(h) - epsilon * logsigmoid(-h)
    return _losses(loss, chosen_rewards, rejected_rewards)


def ipo(chosen: Answer, rejected: Answer, settings: PreferenceSettings) -> PairLosses:
    """Identity preference optimisation: the margin is brought to 1 / (2 beta) and not beyond.

    L = (h - 1 / (2 beta))^2 with h the difference of log-ratios (Azar et al., arXiv:2310.12036,
    eq. 17, where beta is called tau). Variants: the sum over tokens as the equation has it, or the
    mean per token, which TRL takes after asking the authors. Here it is the mean: the target does
    not depend on the length, so that a sum would push long answers less than short ones.

    Args:
        chosen: The better answers.
        rejected: The worse ones.
        settings: `beta`.
    """
    chosen_rewards = chosen.log_ratios / chosen.num_tokens.clamp(min=1)
    rejected_rewards = rejected.log_ratios / rejected.num_tokens.clamp(min=1)
    loss = (chosen_rewards - rejected_rewards - 0.5 / settings.beta).square()
    return _losses(loss, chosen_rewards, rejected_rewards)


def simpo(chosen: Answer, rejected: Answer, settings: PreferenceSettings) -> PairLosses:
    """Simple preference optimisation: mean log-probs in place of a reference, and a margin.

    L = -log sigma(r_w - r_l - gamma) with r = beta / |y| log pi(y | x) (Meng et al.,
    arXiv:2405.14734, eq. 6). TRL's `simpo_gamma` is gamma too, though it adds CPO's likelihood term
    unless told otherwise, which SimPO has not.

    Args:
        chosen: The better answers.
        rejected: The worse ones.
        settings: `beta` and `margin`.
    """
    chosen_rewards = settings.beta * chosen.mean_logprobs
    rejected_rewards = settings.beta * rejected.mean_logprobs
    loss = -logsigmoid(chosen_rewards - rejected_rewards - settings.margin)
    return _losses(loss, chosen_rewards, rejected_rewards)


def orpo(chosen: Answer, rejected: Answer, settings: PreferenceSettings) -> PairLosses:
    """Odds-ratio preference optimisation: likelihood of the better answer, and its odds.

    L = -a_w - beta log sigma(log odds(y_w) - log odds(y_l)) with a = log pi(y | x) / |y| and
    odds = e^a / (1 - e^a) (Hong et al., arXiv:2403.07691, eqs. 4-7, where beta is called lambda).
    a is kept below -1e-6: the odds of an answer that is certain are infinite. TRL's likelihood is
    the mean over all tokens of a batch, prompts included; here it is each answer's own, so that
    pairs count alike whatever their length.

    Args:
        chosen: The better answers.
        rejected: The worse ones.
        settings: `beta`.
    """
    a_w, a_l = chosen.mean_logprobs, rejected.mean_logprobs
    odds_ratio = _log_odds(a_w) - _log_odds(a_l)
    loss = -a_w - settings.beta * logsigmoid(odds_ratio)
    return _losses(loss, settings.beta * a_w, settings.beta * a_l)


PAIR_LOSSES: dict[str, PairLoss] = {"dpo": dpo, "ipo": ipo, "simpo": simpo, "orpo": orpo}
"""By name."""
REFERENCE_FREE = frozenset({"simpo", "orpo"})
"""Those that compare with no other policy."""


def kto(
    answer: Answer,
    desirable: Bool[Tensor, " answers"],
    baseline: Float[Tensor, " answers"],
    settings: PreferenceSettings,
) -> tuple[Float[Tensor, " answers"], Float[Tensor, " answers"]]:
    """Kahneman-Tversky optimisation: answers that are good or bad by themselves.

    L = lambda_D (1 - sigma(beta (h - z))) for good answers and lambda_U (1 - sigma(beta (z - h)))
    for bad ones, h = log pi(y | x) - log pi_ref(y | x) (Ethayarajh et al., arXiv:2402.01306, eq. 8,
    less the constant lambda_y of its value function; TRL has the same).

    Args:
        answer: All answers.
        desirable: Whether they are good.
        baseline: z, an estimate of KL(pi || pi_ref) without gradient (`kto_baseline`).
        settings: `beta` and the two weights.

    Returns:
        Losses, and rewards beta h without gradient.
    """
    h, beta = answer.log_ratios, settings.beta
    good = settings.desirable_weight * (1.0 - torch.sigmoid(beta * (h - baseline)))
    bad = settings.undesirable_weight * (1.0 - torch.sigmoid(beta * (baseline - h)))
    return torch.where(desirable, good, bad), (beta * h).detach()


def kto_baseline(log_ratio_sum: float, num_answers: int) -> float:
    """KTO's reference point z = max(0, mean of log pi(y' | x) - log pi_ref(y' | x)).

    y' are answers to other prompts of the batch, mismatched on purpose (Ethayarajh et al.,
    arXiv:2402.01306, section 4.1): that needs no samples of the policy, and is biased towards 0.
    `mismatched.mismatched_lines` chooses them.

    Args:
        log_ratio_sum: Over all mismatched answers.
        num_answers: How many there are, at least 1.
    """
    return max(0.0, log_ratio_sum / num_answers)


def _log_odds(logprobs: Float[Tensor, " pairs"]) -> Float[Tensor, " pairs"]:
    bounded = logprobs.clamp(max=_MAX_LOGPROB)
    return bounded - torch.log(-torch.expm1(bounded))


def _losses(
    loss: Float[Tensor, " pairs"],
    chosen_rewards: Float[Tensor, " pairs"],
    rejected_rewards: Float[Tensor, " pairs"],
) -> PairLosses:
    return PairLosses(
        loss=loss,
        chosen_rewards=chosen_rewards.detach(),
        rejected_rewards=rejected_rewards.detach(),
    )
