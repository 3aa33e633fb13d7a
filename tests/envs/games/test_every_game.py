"""What holds for the rules of every built-in game, over random play and several sizes."""

import math
import pickle

import numpy as np
import pytest
from earl_envs.game import Game
from earl_envs.games.breakthrough import Breakthrough
from earl_envs.games.frozen_lake import FrozenLake
from earl_envs.games.game_2048 import Game2048
from earl_envs.games.hanabi import Hanabi
from earl_envs.games.hex import Hex
from earl_envs.games.kuhn_poker import KuhnPoker
from earl_envs.games.leduc_poker import LeducPoker
from earl_envs.games.mastermind import Mastermind
from earl_envs.games.nim import Nim
from earl_envs.games.sokoban import Sokoban
from earl_envs.position import examine
from earl_envs.text.protocol import TextProtocol
from hypothesis import given, settings
from hypothesis import strategies as st

GAMES = {
    "Hex": Hex(),
    "Hex 1": Hex(size=1),
    "Hex 11": Hex(size=11),
    "Breakthrough": Breakthrough(),
    "Breakthrough 4x2": Breakthrough(rows=4, columns=2),
    "Breakthrough 10x3": Breakthrough(rows=10, columns=3),
    "Nim": Nim(),
    "Nim 4": Nim(heaps=[4]),
    "KuhnPoker": KuhnPoker(),
    "LeducPoker": LeducPoker(),
    "Hanabi": Hanabi(),
    "Hanabi 5x5": Hanabi(num_colours=5, num_ranks=5, hand_size=5, num_hints=8, num_lives=3),
    "Hanabi 1x2": Hanabi(num_colours=1, num_ranks=2, hand_size=1, num_hints=1, num_lives=1),
    "FrozenLake": FrozenLake(),
    "FrozenLake firm": FrozenLake(size=8, slippery=False),
    "Sokoban": Sokoban(),
    "Sokoban 4": Sokoban(size=4, num_boxes=1),
    "2048": Game2048(),
    "2048 to 32": Game2048(target=32),
    "Mastermind": Mastermind(),
    "Mastermind 2x8": Mastermind(num_pegs=2, num_colours=8, num_guesses=3),
}
COMPETITIVE = {"Hex", "Breakthrough", "Nim", "KuhnPoker", "LeducPoker"}

every_game = pytest.mark.parametrize("name", GAMES)
any_seed = given(seed=st.integers(0, 2**32 - 1))
few = settings(max_examples=6, deadline=None)


def random_play(game: Game, seed: int):
    """Yield every state of one game with the moves made, the final one included."""
    rng = np.random.default_rng(seed)
    state, num_moves = game.initial(rng), 0
    while True:
        yield state, num_moves
        legal = game.legal(state)
        if not legal:
            return
        state, num_moves = game.apply(state, int(rng.choice(legal))), num_moves + 1


@every_game
@any_seed
@few
def test_random_games_keep_the_contract(name, seed):
    game = GAMES[name]
    for state, num_moves in random_play(game, seed):
        position = examine(game, state)
        assert num_moves <= game.max_moves
        assert len(set(position.legal)) == len(position.legal)
        if position.returns is None:
            assert num_moves < game.max_moves
        else:
            assert game.legal(state) == []
            assert min(position.returns) >= game.min_return
            if name.split()[0] in COMPETITIVE:
                assert sum(position.returns) == 0
            else:
                assert 0 <= min(position.returns) == max(position.returns) <= 1


@every_game
@any_seed
@few
def test_moves_leave_the_given_state_alone_and_always_lead_to_the_same_one(name, seed):
    game = GAMES[name]
    for state, _ in random_play(game, seed):
        before = pickle.dumps(state)
        reached = [game.apply(state, action) for action in game.legal(state)[:5]]
        assert reached == [game.apply(state, action) for action in game.legal(state)[:5]]
        assert pickle.dumps(state) == before
        assert hash(pickle.loads(before)) == hash(state)


@every_game
@any_seed
@few
def test_every_legal_move_is_read_back_from_its_name(name, seed):
    game = GAMES[name]
    protocol = TextProtocol(game)
    rng = np.random.default_rng(seed)
    states = [state for state, _ in random_play(game, seed)]
    for state in states[:: 1 + len(states) // 4]:
        legal = game.legal(state)
        names = {game.move_name(state, action) for action in legal}
        assert len(names) == len(legal)
        for action in rng.permutation(legal)[:3].tolist():
            assert protocol.parse(game.move_name(state, action), state).action == action


@every_game
@any_seed
@few
def test_a_seat_cannot_tell_a_state_from_its_resample(name, seed):
    game = GAMES[name]
    rng = np.random.default_rng(seed)
    for state, _ in random_play(game, seed):
        for seat in range(game.num_seats):
            other = game.resample(state, seat, rng)
            assert game.text(other, seat) == game.text(state, seat)
            np.testing.assert_array_equal(game.planes(other, seat), game.planes(state, seat))
            ours, theirs = examine(game, state), examine(game, other)
            assert (ours.seat, ours.returns) == (theirs.seat, theirs.returns)
            if ours.seat == seat:
                assert ours.legal == theirs.legal


@every_game
@any_seed
@few
def test_a_resampled_game_is_played_to_its_end_like_any_other(name, seed):
    game = GAMES[name]
    rng = np.random.default_rng(seed)
    states = list(random_play(game, seed))
    state, num_moves = states[rng.integers(len(states))]
    state = game.resample(state, int(rng.integers(game.num_seats)), rng)
    while (position := examine(game, state)).returns is None:
        state, num_moves = game.apply(state, int(rng.choice(position.legal))), num_moves + 1
    assert num_moves <= game.max_moves


@every_game
@any_seed
@few
def test_planes_are_zeros_and_ones_of_one_shape(name, seed):
    game = GAMES[name]
    shape = None
    for state, _ in random_play(game, seed):
        for seat in range(game.num_seats):
            planes = game.planes(state, seat)
            shape = shape or planes.shape
            assert planes.dtype == np.uint8
            assert planes.shape == shape
            assert len(shape) == 3
            assert set(np.unique(planes)) <= {0, 1}


@every_game
def test_the_rules_name_a_move_as_moves_are_written(name):
    game = GAMES[name]
    start = game.initial(np.random.default_rng(0))
    assert any(game.move_name(start, action) in game.rules() for action in game.legal(start))


@every_game
def test_a_seed_gives_one_start(name):
    game = GAMES[name]
    starts = [game.initial(np.random.default_rng(seed)) for seed in (1, 1, *range(2, 30))]
    assert starts[0] == starts[1]
    has_chance = name.split()[0] not in {"Hex", "Breakthrough", "Nim"}
    assert (len(set(starts)) > 1) == has_chance


@every_game
def test_a_forfeit_costs_the_least_score_and_no_game_is_worth_less(name):
    game = GAMES[name]
    for seat in range(game.num_seats):
        scores = game.forfeit(seat)
        assert scores[seat] == game.min_return
        assert sum(scores) == pytest.approx(0)
    assert all(math.isfinite(value) for value in game.solved_value or ())


@pytest.mark.parametrize(
    ("game_class", "params"),
    [
        (Hex, {"size": 0}),
        (Hex, {"size": 27}),
        (Breakthrough, {"rows": 3}),
        (Breakthrough, {"columns": 1}),
        (Nim, {"heaps": []}),
        (Nim, {"heaps": [3, 0]}),
        (Hanabi, {"num_ranks": 6}),
        (Hanabi, {"num_colours": 1, "hand_size": 5}),
        (FrozenLake, {"size": 1}),
        (Sokoban, {"size": 3}),
        (Sokoban, {"num_boxes": 4}),
        (Game2048, {"target": 100}),
        (Mastermind, {"num_colours": 9}),
        (Mastermind, {"num_pegs": 8}),
    ],
)
def test_unplayable_sizes_are_refused_in_one_line(game_class, params):
    with pytest.raises(ValueError, match=r"got|leave") as caught:
        game_class(**params)
    assert "\n" not in str(caught.value)
