"""How prompts grow with the turns of a game under each history policy, measured."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import final

import numpy as np

from earl_envs.game import Game
from earl_envs.text.chat_env import ChatEnv
from earl_envs.text.protocol import TextProtocol


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Growth:
    """What the n-th turn of a seat costs, the mean over games and seats that have such a turn."""

    history: str
    """The history policy."""
    num_games: Sequence[int]
    """How many seats had an n-th turn."""
    prompt_tokens: Sequence[float]
    """Length of the prompt of the n-th turn."""

    @property
    def total_tokens(self) -> tuple[float, ...]:
        """Prompt tokens of a seat's turns up to the n-th: what an engine without a cache reads."""
        return tuple(np.cumsum(self.prompt_tokens).tolist())


def measure_growth(
    game: Game,
    histories: Sequence[str] = ("full", "last-3", "board-only"),
    *,
    num_games: int,
    seed: int,
    reply: Callable[[str], str] = str,
    count_tokens: Callable[[str], int] | None = None,
) -> list[Growth]:
    """Play random games in words and measure what is sent.

    Args:
        game: The rules.
        histories: The policies to compare; all of them see the same games.
        num_games: Games played under each policy.
        seed: Gives the starts and the moves.
        reply: Puts a move such as `[5]` into the words of a player; by default nothing is added.
        count_tokens: Length of a text, by default `rough_tokens`.
    """
    if num_games < 1:
        raise ValueError(f"num_games must be >= 1, got {num_games}")
    growths: list[Growth] = []
    for history in histories:
        env = ChatEnv(game, history=history, count_tokens=count_tokens)
        turns: list[list[int]] = []
        for episode in range(num_games):
            _play_random(env, np.random.default_rng((seed, episode)), reply)
            for seat in range(game.num_seats):
                own = [usage.prompt_tokens for usage in env.usage if usage.seat == seat]
                turns += [[] for _ in range(len(own) - len(turns))]
                for turn, tokens in enumerate(own):
                    turns[turn].append(tokens)
        growths.append(
            Growth(
                history=history,
                num_games=tuple(map(len, turns)),
                prompt_tokens=tuple(float(np.mean(tokens)) for tokens in turns),
            )
        )
    return growths


def _play_random(env: ChatEnv, rng: np.random.Generator, reply: Callable[[str], str]) -> None:
    protocol = TextProtocol(env.game)
    env.reset(seed=int(rng.integers(2**32)))
    while not env.done:
        legal = env.game.legal(env.state)
        action = int(legal[rng.integers(len(legal))])
        env.step(reply(protocol.format_move(env.state, action)))
