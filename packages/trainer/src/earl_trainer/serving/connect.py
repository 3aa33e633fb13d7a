"""From the addresses of servers to servers that are known to fit."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Literal, TypeVar

from earl_trainer.serving import openai_http, sglang_http, vllm_http
from earl_trainer.serving.http import JsonClient
from earl_trainer.serving.openai_http import ServedModel, ServerSettings
from earl_trainer.serving.server import ReplyServer
from earl_trainer.types import RunFailedError

T = TypeVar("T")

ServerKind = Literal["vllm", "sglang", "openai"]
_ASK_TIMEOUT_S = 30.0


def require_servers(urls: Sequence[str]) -> None:
    """Refuse servers that do not answer.

    Raises:
        ValueError: Naming the first.
    """

    async def ask(client: JsonClient) -> None:
        await openai_http.read_model(client)

    _ask_all([JsonClient(url, timeout_s=_ASK_TIMEOUT_S) for url in urls], ask)


def connect_servers(
    urls: Sequence[str],
    kind: ServerKind,
    settings: ServerSettings,
    *,
    max_context_tokens: int,
    generate_timeout_s: float | int,
) -> list[ReplyServer]:
    """Ask servers what they are, and return what replies are had from.

    Args:
        urls: Of the servers.
        kind: What they speak.
        settings: The same for all.
        max_context_tokens: That each must hold.
        generate_timeout_s: Longest time that a reply may take.

    Raises:
        ValueError: If one does not answer, or was not started as it has to be.
    """

    async def connect(client: JsonClient) -> ReplyServer:
        model = await openai_http.read_model(client)
        longest_tokens = model.max_context_tokens
        if longest_tokens is not None and longest_tokens < max_context_tokens:
            raise RunFailedError(
                f"{client.url} holds contexts of {longest_tokens} tokens, "
                f"rollout.max_context_tokens is {max_context_tokens}"
            )
        return await _MAKE[kind](client, settings, model)

    return _ask_all([JsonClient(url, timeout_s=generate_timeout_s) for url in urls], connect)


async def _make_vllm(
    client: JsonClient, settings: ServerSettings, model: ServedModel
) -> ReplyServer:
    capacity_tokens = await vllm_http.read_capacity(client)
    return vllm_http.VllmServer(client, settings, model, capacity_tokens=capacity_tokens)


async def _make_sglang(
    client: JsonClient, settings: ServerSettings, model: ServedModel
) -> ReplyServer:
    del model  # Its own interface does without a name.
    capacity_tokens = await sglang_http.read_capacity(client)
    return sglang_http.SglangServer(client, settings, capacity_tokens=capacity_tokens)


async def _make_openai(
    client: JsonClient, settings: ServerSettings, model: ServedModel
) -> ReplyServer:
    return openai_http.OpenAiServer(client, settings, model)


_MAKE: Mapping[
    ServerKind, Callable[[JsonClient, ServerSettings, ServedModel], Awaitable[ReplyServer]]
] = {"vllm": _make_vllm, "sglang": _make_sglang, "openai": _make_openai}


def _ask_all(clients: Sequence[JsonClient], ask: Callable[[JsonClient], Awaitable[T]]) -> list[T]:
    async def ask_one(client: JsonClient) -> T:
        try:
            return await asyncio.wait_for(ask(client), _ASK_TIMEOUT_S)
        finally:
            # Connections belong to this loop; the engine has another.
            await client.close()

    async def ask_each() -> list[T]:
        return list(await asyncio.gather(*(ask_one(client) for client in clients)))

    try:
        return asyncio.run(ask_each())
    except TimeoutError as error:
        raise ValueError(f"rollout.servers: no answer within {_ASK_TIMEOUT_S:g} s") from error
    except (RunFailedError, LookupError, TypeError) as error:
        raise ValueError(f"rollout.servers: {error}") from error
