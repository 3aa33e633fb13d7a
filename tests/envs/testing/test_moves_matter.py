"""Games that the start decides are caught, and what random moves never show is noted."""

import re

from earl_envs.testing.moves_matter import moves_matter


class Decided:
    """What is drawn at the start wins, whatever is played."""

    def returns(self, state):
        return None if state[0] else [(1.0, -1.0), (-1.0, 1.0)][state[2]]

    def initial(self, rng):
        return 5, 0, int(rng.integers(2))

    def apply(self, state, action):
        return (*super().apply(state[:2], action), state[2])

    def resample(self, state, seat, rng):
        return (*state[:2], int(rng.integers(2)))


def test_a_game_that_its_start_decides_is_caught_though_it_hides_that(stones, findings_of):
    class Fate(Decided, stones):
        pass

    (found,) = findings_of("moves_matter", Fate)
    assert found.startswith("returns() ignores the moves: 8 random games from this start all score")
    assert re.search(r"\n    at seed 0, moves \[[01, ]+\]: 0 stones$", found)


def test_a_game_that_moves_decide_passes_and_so_does_one_of_chance(stones, sealed, findings_of):
    class Half(Decided, stones):
        """Every other start leaves it to the players."""

        def returns(self, state):
            fixed = super().returns(state)
            return fixed if fixed is None or state[2] else stones.returns(self, state[:2])

    assert findings_of("moves_matter", stones) == []
    assert findings_of("moves_matter", sealed) == []
    assert findings_of("moves_matter", Half) == []


def test_what_random_moves_never_show_is_noted(stones, context_of):
    class Shared(stones):
        def returns(self, state):
            return None if state[0] else (1.0, 1.0)

    (note,) = moves_matter(context_of(Shared))
    assert note.is_note
    assert note.wrong == "not decided: all of 96 random games score (1.0, 1.0)"
