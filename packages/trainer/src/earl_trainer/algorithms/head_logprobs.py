"""Log-probs and entropies straight from hidden states, without ever holding all logits.

A vocabulary of 150,000 makes the logits of 8,000 tokens 5 GB, and an ordinary loss holds several
tensors of that size. Here chunks of tokens and vocabulary are computed one at a time: in the
forward pass into running sums, in the backward pass once more into gradients.

Shape letters: N tokens, H hidden, V vocabulary, C tokens of a chunk, W words of a chunk, R tokens
of a chunk that are worked on at once.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, final

import torch
from jaxtyping import Float, Int64
from torch import Tensor
from torch.autograd.function import once_differentiable

_PARTS = 64
"""Of a chunk; work on single logits makes copies of one part at a time, two or three of them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Chunk:
    """How many logits are held at once; changes no value but by the order of sums.

    Raises:
        ValueError: If there is no token or no word in it.
    """

    tokens: int = 1024
    """A vocabulary that is smaller than the chunk's leaves room for more."""
    words: int = 16_384

    def __post_init__(self) -> None:
        """Refuse a chunk of nothing."""
        if min(self.tokens, self.words) < 1:
            raise ValueError(f"a chunk has at least one token and one word, got {self}")

    def tokens_beside(self, num_words: int) -> int:
        """Return how many tokens a chunk has if the vocabulary has this many words."""
        return self.tokens * self.words // min(self.words, num_words)


WHOLE_CHUNK = Chunk()
"""64 MiB of float32 logits."""


def head_logprobs(
    hidden_NH: Float[Tensor, "N H"],
    weight_VH: Float[Tensor, "V H"],
    targets_N: Int64[Tensor, " N"],
    *,
    temperature: float,
    bias_V: Float[Tensor, " V"] | None = None,
    scale: float = 1.0,
    softcap: float | None = None,
    chunk: Chunk = WHOLE_CHUNK,
) -> tuple[Float[Tensor, " N"], Float[Tensor, " N"]]:
    """Log-prob of a target, and entropy, of each token; both carry gradients.

    With x = W h + b, z = softcap tanh(scale x / softcap) / temperature and p = softmax(z):
    log p_y = z_y - logsumexp z and entropy S = -sum_j p_j log p_j, in nats. Sums are kept relative
    to the largest z so far and rescaled when it grows (Milakov and Gimelshein, arXiv:1805.02867,
    algorithm 3). Gradients: d log p_y / d z_j = [j = y] - p_j, d S / d z_j = -p_j (log p_j + S).

    Logits have the precision of their factors, as a model's own output layer makes them; what
    follows is float32 or better. Gradients of low-precision factors are added up over chunks in
    their precision. A result that no loss uses costs nothing in the backward pass.

    Args:
        hidden_NH: What the output layer is applied to.
        weight_VH: Of the output layer.
        targets_N: A word for each token.
        temperature: The sampler's, above 0.
        bias_V: Of the output layer.
        scale: Factor of the logits.
        softcap: Bound of their magnitude; None for none.
        chunk: How much is held at once.
    """
    rule = _Rule(scale=scale, softcap=softcap, temperature=temperature)
    # torch declares no result of its own method.
    results: tuple[Tensor, Tensor] = _HeadLogprobs.apply(  # pyright: ignore[reportAssignmentType]
        hidden_NH, weight_VH, bias_V, targets_N, rule, chunk
    )
    return results


@dataclass(frozen=True, slots=True, kw_only=True)
class _Rule:
    """From products x of hidden states and weights to the z that the softmax is taken of."""

    scale: float
    softcap: float | None
    temperature: float

    def scores(self, products_RW: Float[Tensor, "R W"]) -> Float[Tensor, "R W"]:
        """Return z as a new tensor."""
        scores_RW = products_RW.to(_precision(products_RW)) * self.scale
        if self.softcap is not None:
            scores_RW.div_(self.softcap).tanh_().mul_(self.softcap)
        return scores_RW.div_(self.temperature)

    def scale_by_slope(self, gradient_RW: Tensor, scores_RW: Tensor) -> None:
        """Multiply by dz / dx = scale (1 - tanh^2) / temperature, in place; uses up z."""
        gradient_RW.mul_(self.scale / self.temperature)
        if self.softcap is not None:
            tanh_RW = scores_RW.mul_(self.temperature / self.softcap)
            gradient_RW.mul_(tanh_RW.square_().neg_().add_(1.0))


@final
class _Sums:
    """Running sums over words, per token.

    The largest z, the sum of e^(z - largest), the sum of that times (z - largest), the target's z.
    """

    def __init__(self, targets_N: Int64[Tensor, " N"], dtype: torch.dtype) -> None:
        zeros = torch.zeros(targets_N.shape, dtype=dtype, device=targets_N.device)
        # Finite, since the difference of two infinities has no value.
        self._largest = torch.full_like(zeros, torch.finfo(dtype).min)
        self._total, self._weighted, self._target = zeros, zeros.clone(), zeros.clone()
        self._targets = targets_N

    def add(self, rows: slice, scores_RW: Float[Tensor, "R W"], first_word: int) -> None:
        """Take in some words of some tokens; uses up their scores."""
        places = self._targets[rows] - first_word
        found = scores_RW.gather(-1, places.clamp(0, scores_RW.shape[-1] - 1)[:, None])[:, 0]
        inside = (places >= 0) & (places < scores_RW.shape[-1])
        self._target[rows] = torch.where(inside, found, self._target[rows])
        largest = torch.maximum(self._largest[rows], scores_RW.amax(-1))
        shift = self._largest[rows] - largest
        shrink, total, weighted = shift.exp(), self._total[rows], self._weighted[rows]
        relative_RW = scores_RW.sub_(largest[:, None])
        exponentials_RW = relative_RW.exp()
        self._weighted[rows] = shrink * (weighted + shift * total)
        self._weighted[rows] += relative_RW.mul_(exponentials_RW).sum(-1)
        self._total[rows] = shrink * total + exponentials_RW.sum(-1)
        self._largest[rows] = largest

    def results(self) -> tuple[Tensor, Tensor, Tensor]:
        """Return log-probs of the targets, entropies and logsumexps."""
        log_total = self._total.log()
        logprobs = self._target - self._largest - log_total
        return logprobs, log_total - self._weighted / self._total, self._largest + log_total


@final
class _HeadLogprobs(torch.autograd.Function):
    @staticmethod
    def forward(  # pyright: ignore[reportIncompatibleMethodOverride] - torch leaves it open
        ctx: Any,  # noqa: ANN401 - torch's own
        hidden_NH: Tensor,
        weight_VH: Tensor,
        bias_V: Tensor | None,
        targets_N: Tensor,
        rule: _Rule,
        chunk: Chunk,
    ) -> tuple[Tensor, Tensor]:
        sums = _Sums(targets_N, _precision(hidden_NH))
        for tokens, words in _chunks(len(hidden_NH), len(weight_VH), chunk):
            products_CW = _products(hidden_NH[tokens], weight_VH, bias_V, words)
            for part, rows in _parts(tokens, len(weight_VH), chunk):
                sums.add(rows, rule.scores(products_CW[part]), words.start)
            del products_CW  # Before the next one is made.
        logprobs_N, entropy_N, normaliser_N = sums.results()
        ctx.save_for_backward(hidden_NH, weight_VH, bias_V, targets_N, entropy_N, normaliser_N)
        ctx.rule, ctx.chunk = rule, chunk
        ctx.set_materialize_grads(False)
        return logprobs_N, entropy_N

    @staticmethod
    @once_differentiable
    def backward(  # pyright: ignore[reportIncompatibleMethodOverride] - torch leaves it open
        ctx: Any,  # noqa: ANN401 - torch's own
        logprobs_gradient_N: Tensor | None,
        entropy_gradient_N: Tensor | None,
    ) -> tuple[Tensor | None, ...]:
        hidden_NH, weight_VH, bias_V, targets_N, entropy_N, normaliser_N = ctx.saved_tensors
        into_hidden, into_weight, into_bias = (
            torch.zeros_like(each) if needed else None
            for each, needed in zip(
                (hidden_NH, weight_VH, bias_V), ctx.needs_input_grad[:3], strict=True
            )
        )
        if logprobs_gradient_N is None:
            logprobs_gradient_N = torch.zeros_like(normaliser_N)
        for tokens, words in _chunks(len(hidden_NH), len(weight_VH), ctx.chunk):
            chunk_CW = _products(hidden_NH[tokens], weight_VH, bias_V, words)
            for part, rows in _parts(tokens, len(weight_VH), ctx.chunk):
                chunk_CW[part] = _products_gradient(
                    chunk_CW[part],
                    normaliser_N[rows],
                    targets_N[rows] - words.start,
                    logprobs_gradient_N[rows],
                    None
                    if entropy_gradient_N is None
                    else (entropy_gradient_N[rows], entropy_N[rows]),
                    ctx.rule,
                )
            if into_hidden is not None:
                into_hidden[tokens].addmm_(chunk_CW, weight_VH[words])
            if into_weight is not None:
                into_weight[words].addmm_(chunk_CW.T, hidden_NH[tokens])
            if into_bias is not None:
                into_bias[words] += chunk_CW.sum(0)
            del chunk_CW  # Before the next one is made.
        return into_hidden, into_weight, into_bias, None, None, None


def _products_gradient(
    products_RW: Float[Tensor, "R W"],
    normaliser_R: Float[Tensor, " R"],
    places_R: Int64[Tensor, " R"],
    logprobs_gradient_R: Float[Tensor, " R"],
    entropy_R: tuple[Float[Tensor, " R"], Float[Tensor, " R"]] | None,
    rule: _Rule,
) -> Float[Tensor, "R W"]:
    """Gradient into x of some words: of g log p_y + h S with g and h what arrives at the two.

    Args:
        products_RW: x.
        normaliser_R: logsumexp z over all words.
        places_R: Of the targets among these words; elsewhere if below 0 or beyond the last.
        logprobs_gradient_R: g.
        entropy_R: h and S.
        rule: From x to z.
    """
    scores_RW = rule.scores(products_RW)
    gradient_RW = (scores_RW - normaliser_R[:, None]).exp_()
    if entropy_R is None:
        gradient_RW.mul_(-logprobs_gradient_R[:, None])
    else:
        weight_R, entropy = entropy_R
        constant_R = weight_R * (entropy - normaliser_R) + logprobs_gradient_R
        factor_RW = scores_RW * weight_R[:, None]
        gradient_RW.mul_(factor_RW.add_(constant_R[:, None]).neg_())
        del factor_RW
    num_words = products_RW.shape[-1]
    inside = (places_R >= 0) & (places_R < num_words)
    gradient_RW.scatter_add_(
        -1,
        places_R.clamp(0, num_words - 1)[:, None],
        torch.where(inside, logprobs_gradient_R, 0.0)[:, None],
    )
    rule.scale_by_slope(gradient_RW, scores_RW)
    return gradient_RW


def _products(
    hidden_CH: Tensor, weight_VH: Tensor, bias_V: Tensor | None, words: slice
) -> Float[Tensor, "C W"]:
    if bias_V is None:
        return hidden_CH @ weight_VH[words].T
    return torch.addmm(bias_V[words], hidden_CH, weight_VH[words].T)


def _chunks(num_tokens: int, num_words: int, chunk: Chunk) -> Iterator[tuple[slice, slice]]:
    for tokens in _slices(num_tokens, chunk.tokens_beside(num_words)):
        for words in _slices(num_words, chunk.words):
            yield tokens, words


def _parts(tokens: slice, num_words: int, chunk: Chunk) -> Iterator[tuple[slice, slice]]:
    """Yield parts of a chunk's tokens, as they count within it and among all."""
    size = max(1, chunk.tokens_beside(num_words) // _PARTS)
    for part in _slices(tokens.stop - tokens.start, size):
        yield part, slice(tokens.start + part.start, tokens.start + part.stop)


def _slices(total: int, size: int) -> Iterator[slice]:
    for start in range(0, total, size):
        yield slice(start, min(start + size, total))


def _precision(tensor: Tensor) -> torch.dtype:
    return torch.promote_types(tensor.dtype, torch.float32)
