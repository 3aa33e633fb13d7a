"""Turn-based games for language-model agents: rules, batched stepping, text protocol, opponents."""

from earl_envs.batch import GameBatch, make_batch
from earl_envs.boundary import Failure, attempt
from earl_envs.game import Game
from earl_envs.opponents import (
    OPPONENTS,
    Opponent,
    RandomOpponent,
    episode_rng,
    make_opponent,
)
from earl_envs.protocol import ParsedReply, ParseFailure, TextProtocol
from earl_envs.registry import game_ids, make_game, register_game
from earl_envs.suggest import suggest

__all__ = [
    "OPPONENTS",
    "Failure",
    "Game",
    "GameBatch",
    "Opponent",
    "ParseFailure",
    "ParsedReply",
    "RandomOpponent",
    "TextProtocol",
    "attempt",
    "episode_rng",
    "game_ids",
    "make_batch",
    "make_game",
    "make_opponent",
    "register_game",
    "suggest",
]
