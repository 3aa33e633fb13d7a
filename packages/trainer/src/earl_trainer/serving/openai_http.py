"""OpenAI's completions with token ids: replies of a policy that is served and stays as it is."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, final

from earl_trainer.rollout.engine import Completion, FinishReason, Request
from earl_trainer.serving.http import JsonClient
from earl_trainer.serving.http_server import HttpServer
from earl_trainer.types import RunFailedError

_MAX_SEED = 2**63
"""Seeds are signed numbers of 64 bits."""


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class ServedModel:
    """The model that a server serves."""

    name: str
    """What requests call it."""
    max_context_tokens: int | None
    """Longest prompt and reply together; None if the server does not tell."""


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class ServerSettings:
    """What all servers of an engine have in common."""

    stop_ids: frozenset[int]
    """Tokens that end a reply."""
    update_timeout_s: float | int
    """Longest time that a pause, new weights, or going on again may take."""
    assumed_capacity_tokens: int
    """Context tokens that a server holds which does not tell."""


async def read_model(client: JsonClient) -> ServedModel:
    """Ask a server for the model that it serves, the first if there are several.

    Raises:
        LostServerError: If it does not answer.
        RunFailedError: If it serves none.
    """
    answer = await client.get("/v1/models")
    if not answer.get("data"):
        raise RunFailedError(f"{client.url} serves no model")
    model = answer["data"][0]
    return ServedModel(name=model["id"], max_context_tokens=model.get("max_model_len"))


def completion_body(request: Request, model: str, stop_ids: frozenset[int]) -> dict[str, Any]:
    """Write a request whose reply is drawn from the model's own law over the whole vocabulary.

    All that could bend it is said, as a server takes what is not from the model folder's
    `generation_config.json`.
    """
    return {
        "model": model,
        "prompt": list(request.prompt_ids),
        "max_tokens": request.max_new_tokens,
        "temperature": request.temperature,
        "top_p": 1.0,
        "top_k": -1,
        "min_p": 0.0,
        "repetition_penalty": 1.0,
        "seed": request.seed % _MAX_SEED,
        "stop_token_ids": sorted(request.stop_ids_or(stop_ids)),
        "ignore_eos": True,
        # Of the sampled token alone.
        "logprobs": 0,
        "return_token_ids": True,
        "return_tokens_as_token_ids": True,
    }


def parse_completion(answer: Mapping[str, Any], *, name: str, version: int) -> Completion:
    """Read a reply, every token of it emitted by `version`.

    Raises:
        RunFailedError: If the server tells no token ids or log-probs.
    """
    choice = answer["choices"][0]
    ids = choice.get("token_ids")
    logprobs = (choice.get("logprobs") or {}).get("token_logprobs")
    if ids == []:
        logprobs = []
    if ids is None or logprobs is None or len(ids) != len(logprobs):
        raise RunFailedError(f"{name} does not return the id and log-prob of every token")
    return Completion(
        ids=ids,
        logprobs=logprobs,
        versions=[version] * len(ids),
        finish_reason=FinishReason(choice["finish_reason"]),
    )


@final
class OpenAiServer(HttpServer):
    """Any server of completions that returns token ids; it takes no weights.

    Good for matches, or for data of a policy that is fixed: new versions are taken over as long as
    their weights are those of the first.

    Args:
        client: Of the server.
        settings: The same for all servers.
        model: That it serves.
    """

    def __init__(self, client: JsonClient, settings: ServerSettings, model: ServedModel) -> None:
        # What a reply has by a pause is not told, and neither what its cache holds.
        super().__init__(
            client,
            capacity_tokens=settings.assumed_capacity_tokens,
            control_timeout_s=settings.update_timeout_s,
            grace_s=0.0,
        )
        self._model = model
        self._stop_ids = settings.stop_ids
        self._served_hash = ""

    async def resume(self) -> None:
        """Do nothing: replies begin as they are asked for."""

    async def _load(self, folder: Path, version: int) -> None:
        """Accept a version of the weights that it serves."""
        weights_hash = _hash_weights(folder)
        if self._served_hash not in ("", weights_hash):
            raise RunFailedError(
                f"{self.name} takes no weights: it serves those of the first version, and version "
                f"{version} has others"
            )
        self._served_hash = weights_hash

    async def _generate(self, request: Request, version: int) -> Completion:
        body = completion_body(request, self._model.name, self._stop_ids)
        answer = await self._client.post("/v1/completions", body)
        return parse_completion(answer, name=self.name, version=version)

    async def _abort_all(self) -> None:
        """A connection that is closed is all that such servers know."""


def _hash_weights(folder: Path) -> str:
    digest = hashlib.sha256()
    for path in sorted(folder.glob("*.safetensors")):
        with path.open("rb") as file:
            while block := file.read(1 << 24):
                digest.update(block)
    return digest.hexdigest()
