"""A language model behind an OpenAI-compatible endpoint that reads episodes and gives marks."""

import asyncio
import os
import re
import time
from collections.abc import Callable, Sequence
from typing import final

from earl_trainer.rewards.outcome import RewardFailure, RewardOutcome
from earl_trainer.rollout.background_loop import BackgroundLoop
from earl_trainer.serving.http import JsonClient
from earl_trainer.serving.server import LostServerError
from earl_trainer.types import Episode, RunFailedError

CONVERSATION = "{conversation}"
"""What a template has in the place of the episode."""
DEFAULT_TEMPLATE = (
    "Below is a conversation in which an assistant plays a game. Mark how well the assistant "
    "played, from 0 (as badly as can be) to 10 (without a mistake). Think if you like, and end "
    "with a line `Score: N`.\n\n" + CONVERSATION
)
_SCORE = re.compile(r"score\s*[:=]\s*\**\s*(-?\d+(?:\.\d+)?)", re.IGNORECASE)
_API_KEY_VARIABLE = "OPENAI_API_KEY"
_MAX_DETAIL = 200
_LEAST_MARK, _LARGEST_MARK = 0.0, 10.0


def parse_score(reply: str) -> float | None:
    """Return the last `Score: N` of a reply as a number from 0 to 1; None if there is none.

    A mark that is not between 0 and 10 is none either.
    """
    found = _SCORE.findall(reply)
    if not found or not _LEAST_MARK <= float(found[-1]) <= _LARGEST_MARK:
        return None
    return float(found[-1]) / _LARGEST_MARK


@final
class GenerativeJudge:
    """Has a model mark episodes (LLM-as-a-judge, Zheng et al., arXiv:2306.05685, single answers).

    A request that fails, takes too long or gives no mark is a failure of its episode alone. What an
    episode says may talk a judge into a mark: its rewards can be gamed as any other's.

    Lifecycle: made, `score` any number of times, `close`.

    Args:
        url: Base address, to which `/chat/completions` is added.
        model: Its name there.
        weight: What marks, from 0 to 1, count.
        template: With `{conversation}` where the episode is to stand.
        decode: Turns a context's tokens into text.
        timeout_s: Longest time of one request.
        max_concurrent: Requests at once.
    """

    name = "judge"

    def __init__(
        self,
        url: str,
        *,
        model: str,
        weight: float,
        template: str,
        decode: Callable[[Sequence[int]], str],
        timeout_s: float | int,
        max_concurrent: int,
    ) -> None:
        self.weight = weight
        self._model = model
        self._template = template
        self._decode = decode
        self._timeout_s = timeout_s
        self._max_concurrent = max_concurrent
        key = os.environ.get(_API_KEY_VARIABLE, "").strip()
        self._client = JsonClient(
            url, timeout_s=timeout_s, headers={"Authorization": f"Bearer {key}"} if key else None
        )
        self._loop = BackgroundLoop()

    def score(self, episodes: Sequence[Episode]) -> list[RewardOutcome]:
        """Return the mark of each episode, from 0 to 1."""
        num_rounds = -(-len(episodes) // self._max_concurrent)
        return self._loop.run(
            self._mark_all(episodes), timeout_s=self._timeout_s * (num_rounds + 1)
        )

    def close(self) -> None:
        """Close the connections; a second time does nothing."""
        self._loop.close()

    async def _mark_all(self, episodes: Sequence[Episode]) -> list[RewardOutcome]:
        places = asyncio.Semaphore(self._max_concurrent)

        async def mark(episode: Episode) -> RewardOutcome:
            async with places:
                return await self._mark(episode)

        try:
            return list(await asyncio.gather(*map(mark, episodes)))
        finally:
            await self._client.close()

    async def _mark(self, episode: Episode) -> RewardOutcome:
        start_s, last = time.monotonic(), episode.turns[-1]
        told = self._decode((*last.prompt_ids, *last.reply_ids))
        request = {
            "model": self._model,
            "messages": [{"role": "user", "content": self._template.replace(CONVERSATION, told)}],
            "temperature": 0.0,
        }
        value, failure, detail = None, None, ""
        try:
            async with asyncio.timeout(self._timeout_s):
                answer = await self._client.post("/chat/completions", request)
            said = str(answer["choices"][0]["message"]["content"])
            value = parse_score(said)
            if value is None:
                failure, detail = RewardFailure.ERROR, f"no score from 0 to 10 in {said!r}"
        except TimeoutError:
            failure, detail = RewardFailure.TIMEOUT, f"no answer within {self._timeout_s:g} s"
        except (LostServerError, RunFailedError) as error:
            failure, detail = RewardFailure.ERROR, str(error)
        except (LookupError, TypeError):
            failure, detail = RewardFailure.ERROR, "the answer has no choices[0].message.content"
        return RewardOutcome(
            value=value,
            failure=failure,
            detail=detail[:_MAX_DETAIL],
            took_s=time.monotonic() - start_s,
        )
