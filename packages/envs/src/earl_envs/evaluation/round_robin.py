"""Matches of everybody against everybody."""

import hashlib
import itertools
from collections.abc import Mapping
from typing import Any

from earl_envs.evaluation.elo import PairResult
from earl_envs.evaluation.match import MatchReport, play_match
from earl_envs.opponents.base import Opponent


def play_round_robin(
    game_id: str,
    players: Mapping[str, Opponent | str],
    *,
    num_games: int,
    seed: int,
    params: Mapping[str, Any] | None = None,  # Any: each game has its own
) -> dict[tuple[str, str], MatchReport]:
    """Play one match per pair of players.

    A pair's games depend on the seed and the two names alone, so another player changes no match
    that has been played.

    Args:
        game_id: A game in which seats compete.
        players: Name -> an opponent or its spec; at least two.
        num_games: Games of each pair, a multiple of the game's seats.
        seed: Of the games and of the players' chance.
        params: Keyword arguments of the game's class.

    Returns:
        (a, b) -> their match, in the order of the players.

    Raises:
        ValueError: If there are not two players, or a match cannot be played.
    """
    if len(players) < 2:
        raise ValueError(f"a round robin needs two players at least, got {list(players)}")
    return {
        (a, b): play_match(
            game_id,
            players[a],
            players[b],
            num_games=num_games,
            seed=_pair_seed(seed, a, b),
            params=params,
        )
        for a, b in itertools.combinations(players, 2)
    }


def pair_results(matches: Mapping[tuple[str, str], MatchReport]) -> list[PairResult]:
    """Return the counts of a round robin, as `fit_elo` takes them."""
    return [
        PairResult(
            a=a, b=b, wins=match.total.wins, draws=match.total.draws, losses=match.total.losses
        )
        for (a, b), match in matches.items()
    ]


def _pair_seed(seed: int, a: str, b: str) -> int:
    key = f"{seed}\x1f{a}\x1f{b}".encode()
    return int.from_bytes(hashlib.blake2b(key, digest_size=8).digest(), "little")
