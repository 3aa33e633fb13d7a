"""An SGLang server somewhere, which takes new weights from a folder that it can read."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, final

from earl_trainer.rollout.engine import Completion, FinishReason, Request
from earl_trainer.serving.http import JsonClient
from earl_trainer.serving.http_server import HttpServer
from earl_trainer.serving.openai_http import ServerSettings
from earl_trainer.serving.server import LostServerError
from earl_trainer.types import RunFailedError

# A reply that was paused is told at once, with what there is of it.
_GRACE_S = 5.0
_MAX_SEED = 2**31


@final
class SglangServer(HttpServer):
    """SGLang's native interface.

    Its log-probs are those of the law that is sampled, unless it was started with
    SGLANG_RETURN_ORIGINAL_LOGPROB. It draws by the seed of a request only if it was started with
    `--enable-deterministic-inference`.

    Source: docs.sglang.io, "Sampling Parameters" and "SGLang for RL Systems".

    Args:
        client: Of the server.
        settings: The same for all servers.
        capacity_tokens: That its cache holds.
    """

    def __init__(
        self, client: JsonClient, settings: ServerSettings, *, capacity_tokens: int
    ) -> None:
        super().__init__(
            client,
            capacity_tokens=capacity_tokens,
            control_timeout_s=settings.update_timeout_s,
            grace_s=_GRACE_S,
        )
        self._stop_ids = settings.stop_ids

    async def resume(self) -> None:
        """Begin replies again."""
        await self._control("/continue_generation", {})

    async def _load(self, folder: Path, version: int) -> None:
        update = {
            "model_path": str(folder),
            "flush_cache": True,
            "abort_all_requests": False,
            "weight_version": str(version),
        }
        answer = await self._control("/update_weights_from_disk", update)
        if not answer["success"]:
            raise LostServerError(f"{self.name}: {' '.join(str(answer['message']).split())}")

    async def _generate(self, request: Request, version: int) -> Completion:
        answer = await self._client.post("/generate", _body(request, self._stop_ids))
        return _parse(answer, name=self.name, version=version)

    async def _abort_all(self) -> None:
        await self._control("/pause_generation", {"mode": "abort"})


async def read_capacity(client: JsonClient) -> int:
    """Ask a server how many context tokens it holds.

    Raises:
        LostServerError: If it does not answer.
        RunFailedError: If it does not tell.
    """
    info = await client.get("/get_server_info")
    capacity_tokens = info.get("max_total_num_tokens")
    if capacity_tokens is None:
        states = info.get("internal_states") or [{}]
        capacity_tokens = states[0].get("memory_usage", {}).get("token_capacity")
    if capacity_tokens is None:
        raise RunFailedError(f"{client.url} does not tell how many tokens it holds")
    return int(capacity_tokens)


def _body(request: Request, stop_ids: frozenset[int]) -> dict[str, Any]:
    return {
        "input_ids": list(request.prompt_ids),
        "sampling_params": {
            "max_new_tokens": request.max_new_tokens,
            "temperature": request.temperature,
            "top_p": 1.0,
            "top_k": -1,
            "min_p": 0.0,
            # Said as well, or the server's `--preferred-sampling-params` would hold.
            "repetition_penalty": 1.0,
            "frequency_penalty": 0.0,
            "presence_penalty": 0.0,
            "sampling_seed": request.seed % _MAX_SEED,
            # Without ignore_eos, which would have it ignore these as well.
            "stop_token_ids": sorted(request.stop_ids_or(stop_ids)),
        },
        "return_logprob": True,
        "logprob_start_len": -1,
    }


def _parse(answer: Mapping[str, Any], *, name: str, version: int) -> Completion:
    meta = answer["meta_info"]
    reason = FinishReason(meta["finish_reason"]["type"])
    # One that was aborted before its first token may have none.
    tokens = meta.get("output_token_logprobs", [] if reason is FinishReason.ABORT else None)
    if tokens is None:
        raise RunFailedError(f"{name} does not return the log-prob of every token")
    return Completion(
        # Each a log-prob, a token id and perhaps its text; `output_ids` may lack the last one.
        ids=[token[1] for token in tokens],
        logprobs=[token[0] for token in tokens],
        versions=[version] * len(tokens),
        finish_reason=reason,
    )
