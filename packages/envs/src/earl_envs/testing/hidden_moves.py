"""Check that what a seat chooses in secret stays secret."""

from collections.abc import Hashable, Iterator
from itertools import combinations

from earl_envs.boundary import attempt
from earl_envs.game import Game
from earl_envs.testing.context import Context
from earl_envs.testing.finding import Finding
from earl_envs.testing.information import go_on_differently

_MAX_ACTIONS = 4  # of one position
_MAX_FOLLOWED_MOVES = 8
_NUM_DRAWS = 16

Pair = tuple[Hashable, Hashable]


def hidden_moves(context: Context) -> Iterator[Finding]:
    """A move that another seat cannot see is redrawn for it, and is in no list that it is shown.

    A move is hidden from a seat if some other move in its place shows that seat the same up to its
    own turn, and yet the game goes on differently. Moves that lead to one state are no secret.
    """
    rng = context.rng("hidden_moves")
    for visit in context.running_visits(limit=150):
        game, mover = visit.play.game, visit.position.seat
        reached = {
            action: game.apply(visit.state, action) for action in visit.actions(rng, _MAX_ACTIONS)
        }
        for first, second in combinations(reached, 2):
            for seat in set(visit.seats) - {mover}:
                pair = _at_its_turn(game, seat, (reached[first], reached[second]))
                if pair is None or not go_on_differently(game, *pair):
                    continue
                hidden = f"seat {seat} cannot see whether seat {mover} chose {first} or {second}"
                drawn = [attempt(game.resample, pair[0], seat, rng) for _ in range(_NUM_DRAWS)]
                if all(other == pair[0] for other in drawn):
                    yield visit.finding(f"{hidden}, but resample() redraws nothing")
                elif game.planes(pair[0], seat) is None:
                    yield visit.finding(
                        f"{hidden}, but without planes it is shown the list of moves: give `planes`"
                    )


def _at_its_turn(game: Game, seat: int, pair: Pair) -> Pair | None:
    """Follow two states that look alike to a seat until it is to move."""
    first, second = pair
    for _ in range(_MAX_FOLLOWED_MOVES):
        if not _alike(game, first, second, seat):
            return None
        if game.returns(first) is not None or game.returns(second) is not None:
            return None
        movers = {game.seat(first), game.seat(second)}
        if movers == {seat}:
            return first, second
        common = sorted(set(game.legal(first)) & set(game.legal(second)))
        if len(movers) > 1 or not common:
            return None
        first, second = game.apply(first, common[0]), game.apply(second, common[0])
    return None


def _alike(game: Game, first: Hashable, second: Hashable, seat: int) -> bool:
    if game.text(first, seat) != game.text(second, seat):
        return False
    ours, theirs = game.planes(first, seat), game.planes(second, seat)
    return (ours is None and theirs is None) or (
        ours is not None and theirs is not None and ours.tolist() == theirs.tolist()
    )
