"""Why an episode ended."""

from enum import StrEnum


class EndReason(StrEnum):
    """Why an episode ended; distinct from its reward and from who won."""

    FINISHED = "finished"
    """The rules ended the game."""
    ILLEGAL_MOVE = "illegal_move"
    """The reply named a move that the rules do not allow: a forfeit."""
    UNPARSABLE = "unparsable"
    """The reply named no move at all: a forfeit."""
    MOVE_LIMIT = "move_limit"
    """The episode had as many moves as its player allowed, before the rules ended it: cut."""
    TURN_TOKEN_LIMIT = "turn_token_limit"
    """A reply was cut at its token limit before it named a move: cut, not lost."""
    CONTEXT_LIMIT = "context_limit"
    """The next turn did not fit into the context limit: cut, not lost."""
    ENV_ERROR = "env_error"
    """The game's own code raised."""
    OPPONENT_ERROR = "opponent_error"
    """The opponent raised or answered with an illegal move."""


FORFEITS = frozenset({EndReason.ILLEGAL_MOVE, EndReason.UNPARSABLE})
"""The player's own fault: a loss."""
CUTS = frozenset({EndReason.MOVE_LIMIT, EndReason.TURN_TOKEN_LIMIT, EndReason.CONTEXT_LIMIT})
"""A limit of the training set-up ended the episode: neither won, drawn nor lost."""
FAILURES = frozenset({EndReason.ENV_ERROR, EndReason.OPPONENT_ERROR})
"""Somebody else's fault: the episode says nothing about the player."""
