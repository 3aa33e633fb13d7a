"""Deciding positions, walking from one to the next, going on after an interruption."""

import numpy as np
import pytest
from earl_envs import make_game
from earl_envs.opponents.connect_four_book import BookEntry, canonical_key
from earl_envs.opponents.connect_four_solver import ConnectFourSolver

GAME = make_game("earl/ConnectFour-v0")
# Twenty-six stones, nobody has won: few enough cells are left to solve all that follows.
MOVES = (3, 3, 5, 6, 0, 1, 5, 6, 1, 2, 6, 2, 1, 5, 1, 2, 4, 3, 0, 0, 6, 5, 5, 3, 5, 1)


@pytest.fixture
def tool(load_tool):
    return load_tool("build_connect_four_book")


@pytest.fixture
def board(tool):
    state = (0, 0)
    for move in MOVES:
        state = GAME.apply(state, move)
    assert GAME.returns(state) is None
    seat = GAME.seat(state)
    return tool.canonical(state[seat], state[0] | state[1])


def solver():
    return ConnectFourSolver(shallow_bits=4, deep_bits=16)


def test_decisions_keep_the_value(tool):
    values = []
    for seed in range(150):
        board = random_board(tool, num_stones=24, seed=seed)
        if board is None:
            continue
        entry, score = tool.decide(solver(), board, floor=-1), solver().score(*board)
        assert entry.value == (score > 0) - (score < 0)
        reached = tool.after(board, entry.column)
        if reached is not None and entry.value >= 0:
            assert -solver().score(*reached) >= entry.value
        values.append(entry.value)
    assert set(values) == {-1, 0, 1}


def random_board(tool, *, num_stones, seed):
    """Position after random moves, None if the game ended before."""
    rng, state = np.random.default_rng(seed), (0, 0)
    for _ in range(num_stones):
        legal = GAME.legal(state)
        if not legal:
            return None
        state = GAME.apply(state, legal[rng.integers(len(legal))])
    return tool.canonical(state[0], state[0] | state[1]) if GAME.legal(state) else None


def test_a_win_at_once_is_taken(tool):
    # Own stones on the bottom of columns 0 to 2; the mirror image is the canonical one or not.
    own, taken = 1 | 1 << 7 | 1 << 14, (1 | 1 << 7 | 1 << 14) * 0b11
    key, is_mirrored = canonical_key(own, taken)
    entry = tool.decide(solver(), tool.canonical(own, taken), floor=-1)
    assert entry == BookEntry(key=key, value=1, column=3)
    assert is_mirrored or tool.canonical(own, taken) == (own, taken)


def test_a_lost_position_is_defended(tool):
    # Four stones on the bottom would be one too many: only column 3 stops it.
    other = 1 | 1 << 7 | 1 << 14
    own = 1 << 42 | 1 << 44
    entry = tool.decide(FakeSolver(), (own, own | other | 1 << 43), floor=-1)
    assert (entry.value, entry.column) == (-1, 3)


class FakeSolver:
    """Thinks that everything is lost."""

    def is_above(self, own, taken, *, score):
        return False


def test_positions_that_follow_are_those_after_each_reply(tool):
    following = list(tool.replies((0, 0), 3))
    state = GAME.apply((0, 0), 3)
    reached = [GAME.apply(state, column) for column in range(7)]
    assert {sum(board) for board in following} == {
        canonical_key(first, first | second)[0] for first, second in reached
    }


def test_a_game_that_is_over_has_no_followers(tool):
    own = 1 | 1 << 7 | 1 << 14
    assert tool.after((own, own | 1 << 1 | 1 << 8), 3) is None
    assert list(tool.replies((own, own | 1 << 1 | 1 << 8), 3)) == []


def test_a_walk_goes_on_where_it_was_stopped(tool, tmp_path, monkeypatch, board):
    monkeypatch.setattr(tool, "MAX_STONES", 28)
    whole = tool.Builder(tmp_path / "whole.txt", solver())
    whole.walk(board, floor=-1)
    assert len(whole.entries) > 2
    assert {stones(key) for key in whole.entries} == {26, 28}

    lines = (tmp_path / "whole.txt").read_text().splitlines(keepends=True)
    stopped = tmp_path / "stopped.txt"
    stopped.write_text("".join(lines[:2]) + lines[2][:5])  # stopped while it wrote a line
    resumed = tool.Builder(stopped, solver())
    assert len(resumed.entries) == 2
    resumed.walk(board, floor=-1)
    assert resumed.entries == whole.entries
    assert stopped.read_text() == (tmp_path / "whole.txt").read_text()


def stones(key):
    return sum(((key >> 7 * column & 127) + 1).bit_length() - 1 for column in range(7))


def test_progress_is_read_as_it_was_written(tool, tmp_path):
    path = tmp_path / "folder" / "progress.txt"
    assert tool.read_progress(path) == {}
    path.write_text("5 1 3\n9 -1 0\n")
    assert tool.read_progress(path) == {
        5: BookEntry(key=5, value=1, column=3),
        9: BookEntry(key=9, value=-1, column=0),
    }
