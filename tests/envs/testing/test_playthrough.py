"""Random games, sound and faulty."""

from earl_envs import replay
from earl_envs.testing.playthrough import play_randomly


def test_a_game_is_played_to_its_end_and_replays(stones):
    play = play_randomly(stones(), seed=5)
    assert play.fault is None
    assert play.positions[-1].returns is not None
    assert list(play.positions) == replay(stones(), 5, play.moves)
    assert play == play_randomly(play.game, seed=5)


def test_seeds_give_different_games(stones):
    starts = {play_randomly(stones(), seed=3, stream=stream).positions[0] for stream in range(9)}
    assert len(starts) == 1
    assert len({play_randomly(stones(), seed=3, stream=stream).moves for stream in range(9)}) > 1
    games = {play_randomly(stones(), seed=seed).moves for seed in range(20)}
    assert len(games) > 5


def test_a_fault_ends_the_game_where_it_shows(stones):
    class Rejects(stones):
        def apply(self, state, action):
            if state[0] <= 4:
                raise RuntimeError("no")
            return super().apply(state, action)

    play = play_randomly(Rejects(), seed=0)
    assert play.fault is not None
    assert play.fault.moves == play.moves
    assert len(play.positions) == len(play.moves) + 1
    assert play.positions[-1].state[0] <= 4


def test_a_start_that_raises_is_a_fault(stones):
    class Broken(stones):
        def initial(self, rng):
            raise RuntimeError("no stones")

    play = play_randomly(Broken(), seed=0)
    assert play.positions == ()
    assert "initial() raises RuntimeError: no stones" in str(play.fault)


def test_visits_know_their_way_and_draw_actions(stones):
    import numpy as np

    play = play_randomly(stones(), seed=1)
    visit = play.visit(2)
    assert visit.moves == play.moves[:2]
    assert visit.state == play.positions[2].state
    legal = list(visit.position.legal)
    assert visit.actions(np.random.default_rng(0), 5) == legal
    assert visit.actions(np.random.default_rng(0), 1)[0] in legal
