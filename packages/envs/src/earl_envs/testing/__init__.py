"""Conformance: is a game, yours or ours, fit for every use that is made of its rules?"""

from earl_envs.testing.check import CHECKS, GameCheckError, Report, check_game
from earl_envs.testing.finding import Finding

__all__ = ["CHECKS", "Finding", "GameCheckError", "Report", "check_game"]
