"""Two reward functions for Tic-Tac-Toe.

They are added to the game's outcome, by the weights that are given here:

    uv run earl train tictactoe-async --reward.functions \
        examples.own_rewards:quick_win=0.3,examples.own_rewards:centre=0.1
"""

from earl_trainer.rewards.transcript import Transcript

_CENTRE = 4
_FEWEST_MOVES_TO_WIN = 5


def quick_win(transcript: Transcript) -> float:
    """Return 1 for a game won as fast as can be, less for a longer one, 0 for any other."""
    won = [game for game in transcript.games if game.outcome > 0]
    return sum(_FEWEST_MOVES_TO_WIN / len(game.moves) for game in won) / len(transcript.games)


def centre(transcript: Transcript) -> float:
    """Return the share of the games in which the model took the square in the middle."""
    own = [game.moves[transcript.seat :: 2] for game in transcript.games]
    return sum(_CENTRE in moves for moves in own) / len(own)
