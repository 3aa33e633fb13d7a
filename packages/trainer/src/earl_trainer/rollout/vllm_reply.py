"""A reply of vLLM as a completion."""

from collections.abc import Sequence
from typing import Any

from earl_trainer.rollout.engine import Completion, FinishReason


def read_completion(output: Any, *, versions: Sequence[int]) -> Completion:  # noqa: ANN401
    """Read the last output of a request.

    Args:
        output: A `vllm.RequestOutput`.
        versions: Of the weights that emitted each token.
    """
    reply = output.outputs[0]
    ids = list(reply.token_ids)
    return Completion(
        ids=ids,
        logprobs=pick_logprobs(reply.logprobs or [], ids),
        versions=versions,
        finish_reason=FinishReason(reply.finish_reason),
    )


def labelled_versions(output: Any) -> list[int]:  # noqa: ANN401
    """Return the version that vLLM itself noted for each token when it was emitted.

    Source: vllm 0.32, vllm/outputs.py, `WeightVersionSpan`.
    """
    spans = output.outputs[0].weight_versions or []
    return [int(span.version) for span in spans for _ in range(span.start, span.end)]


def pick_logprobs(places: Any, ids: Sequence[int]) -> list[float]:  # noqa: ANN401
    """Of the log-probs at each place, take those of the tokens that stand there."""
    return [place[token].logprob for place, token in zip(places, ids, strict=True)]
