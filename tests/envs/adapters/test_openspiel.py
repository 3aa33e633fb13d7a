"""OpenSpiel's games keep the contract of `Game`."""

import copy
import pickle
import subprocess
import sys

import numpy as np
import pytest
from earl_envs.game import Game
from earl_envs.position import examine
from earl_envs.record import GameRecord, replay, start_position
from earl_envs.registry import game_ids, make_game
from earl_envs.text.protocol import ParseFailure, TextProtocol

pytest.importorskip("pyspiel")

from earl_envs.adapters.openspiel import OpenSpielGame, family_ids

NAMES = [
    "tic_tac_toe", "connect_four", "breakthrough", "hex", "othello", "kuhn_poker", "leduc_poker",
    "goofspiel", "matrix_rps", "liars_dice", "pig", "backgammon", "phantom_ttt", "2048",
]  # fmt: skip


def random_states(game, seed, num_games=1):
    """Yield every position of random games, each with the moves that led to it."""
    rng = np.random.default_rng(seed)
    for _ in range(num_games):
        start = int(rng.integers(2**40))
        position, moves = start_position(game, start), []
        yield position, start, moves
        while position.returns is None:
            assert len(moves) < game.max_moves, "the game outlasts max_moves"
            move = position.legal[rng.integers(len(position.legal))]
            moves = [*moves, move]
            position = examine(game, game.apply(position.state, move))
            yield position, start, moves


@pytest.mark.parametrize("name", NAMES)
def test_rules_keep_the_contract_of_a_game(name):
    game = OpenSpielGame(name)
    for position, start, moves in random_states(game, seed=1):
        assert hash(position.state) == hash(pickle.loads(pickle.dumps(position.state)))
        if position.returns is None:
            assert sorted(set(position.legal)) == sorted(position.legal)
            twice = [game.apply(position.state, position.legal[0]) for _ in range(2)]
            assert twice[0] == twice[1] != position.state
        else:
            assert len(position.returns) == game.num_seats
            assert min(position.returns) >= game.min_return
            assert replay(game, start, moves)[-1].state == position.state


@pytest.mark.parametrize("name", NAMES)
def test_every_move_has_a_name_that_the_text_protocol_reads_back(name):
    game = OpenSpielGame(name)
    protocol = TextProtocol(game)
    for position, _, moves in random_states(game, seed=2):
        if len(moves) > 12:
            break
        for action in position.legal[:8]:
            reply = protocol.format_move(position.state, action)
            assert protocol.parse(f"I play {reply}", position.state).action == action


@pytest.mark.parametrize("name", NAMES)
def test_a_pickled_or_copied_state_plays_on_alike(name):
    game = OpenSpielGame(name)
    state = start_position(game, 3).state
    for action in (0, -1):
        if game.returns(state) is None:
            state = game.apply(state, game.legal(state)[action])
    other_game, revived = pickle.loads(pickle.dumps((game, state)))
    for again in (revived, copy.deepcopy(state)):
        assert examine(other_game, again) == examine(game, state)
        assert game.text(again, 0) == game.text(state, 0)


@pytest.mark.parametrize("name", [name for name in NAMES if name != "2048"])
def test_a_seat_cannot_tell_a_resampled_state_from_the_true_one(name):
    game = OpenSpielGame(name)
    rng = np.random.default_rng(4)
    for position, _, moves in random_states(game, seed=4):
        if len(moves) > 8 or position.returns is not None:
            break
        for seat in range(game.num_seats):
            drawn = game.resample(position.state, seat, rng)
            assert game.text(drawn, seat) == game.text(position.state, seat)
            assert game.seat(drawn) == position.seat
            planes = game.planes(position.state, seat)
            assert planes is None or np.array_equal(game.planes(drawn, seat), planes)


@pytest.mark.parametrize("name", ["kuhn_poker", "leduc_poker", "liars_dice"])
def test_resampling_draws_what_the_other_seat_holds(name):
    game = OpenSpielGame(name)
    state = start_position(game, 5).state
    rng = np.random.default_rng(0)
    drawn = [game.resample(state, 0, rng) for _ in range(40)]
    assert len({game.text(other, 1) for other in drawn}) > 1
    assert {game.text(other, 0) for other in drawn} == {game.text(state, 0)}


def test_what_the_first_seat_chose_at_the_same_time_is_hidden_from_the_second():
    game = OpenSpielGame("matrix_rps")
    start = start_position(game, 0).state
    seen = {game.text(game.apply(start, action), 1) for action in game.legal(start)}
    assert len(seen) == 1
    paper_after_rock = game.apply(game.apply(start, 0), 1)
    assert game.returns(paper_after_rock) == (-1.0, 1.0)


def test_chance_comes_from_the_seed_alone():
    game = OpenSpielGame("pig")

    def rolls(seed):
        state = start_position(game, seed).state
        for _ in range(12):
            state = game.apply(state, 0)
        return state.history

    assert rolls(1) == rolls(1)
    assert len({rolls(seed) for seed in range(20)}) > 15
    dealt = [start_position(OpenSpielGame("kuhn_poker"), seed).state.history for seed in range(600)]
    counts = [dealt.count(deal) for deal in set(dealt)]
    assert len(counts) == 6
    assert min(counts) > 60


@pytest.mark.parametrize("name", ["negotiation", "tarok"])
def test_chance_that_openspiel_draws_itself_comes_from_the_seed_too(name):
    game = OpenSpielGame(name)
    runs = []
    for _ in range(2):
        state = start_position(game, 7).state
        for _ in range(6):
            state = game.apply(state, game.legal(state)[0])
        runs.append(game.text(state, 0))
    assert runs[0] == runs[1]
    assert len({game.text(start_position(game, seed).state, 0) for seed in range(8)}) > 1
    with pytest.raises(ValueError, match="OpenSpiel draws the chance"):
        game.resample(start_position(game, 7).state, 0, np.random.default_rng(0))
    with pytest.raises(ValueError, match="rng_seed"):
        OpenSpielGame(name, rng_seed=1)


def test_planes_are_exact_or_none():
    board = OpenSpielGame("tic_tac_toe")
    state = start_position(board, 0).state
    for action in (4, 0):
        state = board.apply(state, action)
    assert board.planes(state, 0).dtype == np.uint8
    assert board.planes(state, 0)[2].tolist() == [[0, 0, 0], [0, 1, 0], [0, 0, 0]]
    for name in ("oware", "2048"):  # fractions; tiles that outgrow a byte
        game = OpenSpielGame(name)
        assert game.planes(start_position(game, 0).state, 0) is None


def test_counts_that_outgrow_a_byte_late_in_a_game_are_no_planes():
    small, large = (OpenSpielGame("phantom_go", board_size=size) for size in (5, 19))
    assert small.planes(start_position(small, 0).state, 0).size > 1
    assert large.planes(start_position(large, 0).state, 0).size == 1


def test_secret_moves_are_in_no_list_that_frameworks_show():
    game = OpenSpielGame("coordinated_mp")  # has no tensor
    state = start_position(game, 0).state
    while game.returns(state) is None:
        for seat in range(game.num_seats):
            assert game.planes(state, seat).tolist() == [[[0]]]
        state = game.apply(state, game.legal(state)[0])


def test_text_names_the_seat_its_view_and_its_moves():
    game = OpenSpielGame("tic_tac_toe")
    state = game.apply(start_position(game, 0).state, 4)
    assert game.text(state, 1).splitlines() == [
        "You are player 1.", "...", ".x.", "...",
        "Legal moves: [o(0,0)] [o(0,1)] [o(0,2)] [o(1,0)] [o(1,2)] [o(2,0)] [o(2,1)] [o(2,2)]",
    ]  # fmt: skip
    assert "Legal moves" not in game.text(state, 0)
    assert "Tic Tac Toe" in game.rules()


def test_a_long_list_of_moves_is_cut():
    game = OpenSpielGame("go", board_size=13)
    text = game.text(start_position(game, 0).state, 0)
    assert text.endswith("and 70 more")


def test_an_illegal_or_unknown_move_is_no_move():
    game = OpenSpielGame("tic_tac_toe")
    state = game.apply(start_position(game, 0).state, 4)
    with pytest.raises(ValueError, match="only legal actions have names, got 4"):
        game.move_name(state, 4)
    parsed = TextProtocol(game).parse("[o(1,1)]", state)
    assert parsed.failure is ParseFailure.UNPARSABLE


@pytest.mark.parametrize(
    ("name", "params", "seat", "scores"),
    [
        ("tic_tac_toe", {}, 1, (1.0, -1.0)),
        ("kuhn_poker", {"players": 3}, 0, (-2.0, 1.0, 1.0)),
        ("tiny_hanabi", {}, 0, (0.0, 0.0)),
        ("blotto", {"players": 3}, 2, (0.5, 0.5, -1.0)),
    ],
)
def test_a_forfeit_keeps_the_sum_of_the_game(name, params, seat, scores):
    assert OpenSpielGame(name, **params).forfeit(seat) == scores


def test_parameters_reach_openspiel():
    game = make_game("openspiel/hex-v0", board_size=3)
    assert game.num_actions == 9
    misere = make_game("openspiel/misere-v0", game="tic_tac_toe()")
    state = start_position(misere, 0).state
    for action in (0, 3, 1, 4, 2):
        state = misere.apply(state, action)
    assert misere.returns(state) == (-1.0, 1.0)
    assert OpenSpielGame("misere(game=tic_tac_toe())").num_actions == 9


def test_records_replay_through_the_registry():
    record = GameRecord(game_id="openspiel/leduc_poker-v0", params={"players": 3}, seed=9)
    read = GameRecord.from_json(record.to_json())
    assert read.positions()[-1] == record.positions()[-1]
    assert len(record.positions()[-1].state.history) == 3


@pytest.mark.parametrize(
    ("name", "params", "message"),
    [
        ("tic_tac_to", {}, "did you mean 'tic_tac_toe'"),
        ("mfg_crowd_modelling", {}, "is a mean-field game: its state is a distribution"),
        ("hex", {"size": 3}, r"cannot load 'hex' with \{'size': 3\}"),
        ("kuhn_poker", {"players": 99}, "cannot load 'kuhn_poker'"),
        ("misere", {}, "cannot load 'misere'"),
        ("chat_game", {}, "'chat_game' has more actions than it announces"),
        ("crossword", {}, "'crossword' has no numbered actions"),
    ],
)
def test_what_openspiel_cannot_load_is_refused_in_one_line(name, params, message):
    with pytest.raises(ValueError, match=message) as caught:
        OpenSpielGame(name, **params)
    assert "\n" not in str(caught.value)


def test_the_family_lists_what_can_be_made_without_parameters():
    ids = game_ids("openspiel")
    assert ids == sorted(ids) == family_ids()
    assert len(ids) > 80
    assert {"openspiel/kuhn_poker-v0", "openspiel/goofspiel-v0"} < set(ids)
    assert not any("mfg" in game_id for game_id in ids)
    assert "openspiel/misere-v0" not in ids
    with pytest.raises(ValueError, match="did you mean 'openspiel/kuhn_poker-v0'"):
        make_game("openspiel/kuhn_poker")


def test_a_spawned_process_finds_the_game_without_help():
    code = (
        "from earl_envs.registry import make_game\n"
        "from earl_envs.record import start_position\n"
        "print(start_position(make_game('openspiel/leduc_poker-v0'), 3).state)"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == str(start_position(OpenSpielGame("leduc_poker"), 3).state)


def test_games_written_in_python_and_those_whose_copies_crash_are_played():
    for name in ("python_tic_tac_toe", "morpion_solitaire"):
        game = OpenSpielGame(name)
        for _ in random_states(game, seed=0):
            pass
    # OpenSpiel's names there are lists of squares in brackets.
    state = start_position(game, 0).state
    assert game.move_name(state, game.legal(state)[0]) == f"[{game.legal(state)[0]}]"


# It solves its deals, and takes minutes.
SOLVES = "openspiel/bridge_uncontested_bidding-v0"


@pytest.mark.slow
@pytest.mark.parametrize("game_id", [i for i in family_ids() if i != SOLVES])
def test_every_game_of_the_family_plays_at_random(game_id):
    game = make_game(game_id)
    assert isinstance(game, Game)
    rng = np.random.default_rng(0)
    position = start_position(game, 0)
    for num_moves in range(12):
        if position.returns is not None:
            break
        text = game.text(position.state, position.seat)
        assert text.startswith(f"You are player {position.seat}.")
        names = {game.move_name(position.state, action) for action in position.legal}
        assert len(names) == len(position.legal)
        for seat in range(game.num_seats):
            game.planes(position.state, seat)
        assert num_moves < game.max_moves
        action = position.legal[rng.integers(len(position.legal))]
        position = examine(game, game.apply(position.state, action))
