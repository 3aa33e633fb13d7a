"""Turn-based games for language-model agents: rules, batched stepping, text protocol, opponents."""

from earl_envs.batch import GameBatch, make_batch
from earl_envs.batch_base import Batch
from earl_envs.boundary import Failure, attempt
from earl_envs.end_reason import CUTS, FAILURES, FORFEITS, EndReason
from earl_envs.faces.pettingzoo_env import pettingzoo_env, pettingzoo_parallel_env
from earl_envs.faces.registration import register_all, register_with_frameworks
from earl_envs.game import Game
from earl_envs.opponents.base import (
    OPPONENTS,
    Opponent,
    RandomOpponent,
    episode_rng,
    make_opponent,
)
from earl_envs.position import Position, examine
from earl_envs.record import GameRecord, replay, start_position
from earl_envs.registry import game_ids, make_game, register_game
from earl_envs.suggest import suggest
from earl_envs.text.chat_env import ChatEnv
from earl_envs.text.history import Message, make_history
from earl_envs.text.illegal import make_illegal_policy
from earl_envs.text.protocol import ParsedReply, ParseFailure, TextProtocol

__all__ = [
    "CUTS",
    "FAILURES",
    "FORFEITS",
    "OPPONENTS",
    "Batch",
    "ChatEnv",
    "EndReason",
    "Failure",
    "Game",
    "GameBatch",
    "GameRecord",
    "Message",
    "Opponent",
    "ParseFailure",
    "ParsedReply",
    "Position",
    "RandomOpponent",
    "TextProtocol",
    "attempt",
    "episode_rng",
    "examine",
    "game_ids",
    "make_batch",
    "make_game",
    "make_history",
    "make_illegal_policy",
    "make_opponent",
    "pettingzoo_env",
    "pettingzoo_parallel_env",
    "register_game",
    "register_with_frameworks",
    "replay",
    "start_position",
    "suggest",
]

# So that `gymnasium.make` knows every game once this package is imported.
register_all(game_ids())
