"""A `vllm serve` somewhere, which takes new weights from a folder that it can read."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, final

from earl_trainer.rollout.engine import Completion, Request
from earl_trainer.serving.http import JsonClient
from earl_trainer.serving.http_server import HttpServer
from earl_trainer.serving.openai_http import (
    ServedModel,
    ServerSettings,
    completion_body,
    parse_completion,
)
from earl_trainer.serving.server import LostServerError
from earl_trainer.types import RunFailedError

# A reply that was paused is told at once, with what there is of it.
_GRACE_S = 5.0


@final
class VllmServer(HttpServer):
    """vLLM's own server, in development mode, through which replies can be paused.

    Sources: vllm 0.32, vllm/entrypoints/rl/online/api_router.py (`/pause`, `/resume`),
    vllm/entrypoints/serve/dev (`/collective_rpc`, `/reset_prefix_cache`, `/server_info`).

    Args:
        client: Of the server.
        settings: The same for all servers.
        model: That it serves.
        capacity_tokens: That its cache holds.
    """

    def __init__(
        self,
        client: JsonClient,
        settings: ServerSettings,
        model: ServedModel,
        *,
        capacity_tokens: int,
    ) -> None:
        super().__init__(
            client,
            capacity_tokens=capacity_tokens,
            control_timeout_s=settings.update_timeout_s,
            grace_s=_GRACE_S,
        )
        self._model = model
        self._stop_ids = settings.stop_ids

    async def resume(self) -> None:
        """Begin replies again."""
        await self._control("/resume")

    async def _load(self, folder: Path, version: int) -> None:
        del version
        reload = {"method": "reload_weights", "kwargs": {"weights_path": str(folder)}}
        await self._control("/collective_rpc", reload)
        if not (await self._control("/reset_prefix_cache"))["success"]:
            raise LostServerError(f"{self.name} did not forget what it cached")

    async def _generate(self, request: Request, version: int) -> Completion:
        body = completion_body(request, self._model.name, self._stop_ids)
        answer = await self._client.post("/v1/completions", body)
        return parse_completion(answer, name=self.name, version=version)

    async def _abort_all(self) -> None:
        await self._control("/pause?mode=abort")


async def read_capacity(client: JsonClient) -> int:
    """Ask a server how many context tokens it holds; refuse one that is not set up for this.

    Raises:
        LostServerError: If it does not answer.
        RunFailedError: If it does not take weights, or tells log-probs of another law than the
            one it samples from.
    """
    try:
        info = await client.get("/server_info?config_format=json")
    except LostServerError:
        raise
    except RunFailedError as error:
        raise RunFailedError(
            f"{client.url} takes no weights: start it with VLLM_SERVER_DEV_MODE=1 ({error})"
        ) from error
    config = info["vllm_config"]
    mode = config["model_config"]["logprobs_mode"]
    if mode != "processed_logprobs":
        raise RunFailedError(
            f"{client.url} must be started with --logprobs-mode processed_logprobs, got {mode}"
        )
    if config["device_config"]["device"] == "cpu" and _splits_prompts(config):
        # It ends at the first one: "CPU Generator does not use offset". Source: vllm 0.32,
        # vllm/v1/worker/gpu_model_runner.py, `_bookkeeping_sync`.
        raise RunFailedError(
            f"{client.url} must be started with --no-enable-chunked-prefill, as vLLM on a CPU does "
            "not survive a prompt that is read in parts when its reply has a seed"
        )
    cache = config["cache_config"]
    # One block is never given out. Source: vllm 0.32, vllm/v1/core/block_pool.py, `null_block`.
    return (cache["num_gpu_blocks"] - 1) * cache["block_size"]


def _splits_prompts(config: Mapping[str, Any]) -> bool:
    return config["scheduler_config"]["enable_chunked_prefill"]
