"""Connect Four on boards drawn as text and against a plain list implementation."""

import numpy as np
import pytest
from earl_envs.games.connect_four import ConnectFour, Stones
from hypothesis import given, settings
from hypothesis import strategies as st

GAME = ConnectFour()
START = GAME.initial(np.random.default_rng(0))

DRAWN = [
    pytest.param(
        "1212121",
        """
        1 2 3 4 5 6 7
        . . . . . . .
        . . . . . . .
        X . . . . . .
        X O . . . . .
        X O . . . . .
        X O . . . . .
        """,
        (1.0, -1.0),
        id="upright",
    ),
    pytest.param(
        "72731415",
        """
        1 2 3 4 5 6 7
        . . . . . . .
        . . . . . . .
        . . . . . . .
        . . . . . . .
        X . . . . . X
        X O O O O . X
        """,
        (-1.0, 1.0),
        id="flat",
    ),
    pytest.param(
        "12233434464",
        """
        1 2 3 4 5 6 7
        . . . . . . .
        . . . . . . .
        . . . X . . .
        . . X X . . .
        . X X O . . .
        X O O O . O .
        """,
        (1.0, -1.0),
        id="rising",
    ),
    pytest.param(
        "176655454424",
        """
        1 2 3 4 5 6 7
        . . . . . . .
        . . . . . . .
        . . . O . . .
        . . . O O . .
        . . . X O O .
        X X . X X X O
        """,
        (-1.0, 1.0),
        id="falling",
    ),
    pytest.param(
        "516273",
        """
        1 2 3 4 5 6 7
        . . . . . . .
        . . . . . . .
        . . . . . . .
        . . . . . . .
        . . . . . . .
        O O O . X X X
        """,
        None,
        id="three at either edge",
    ),
]


def _play(columns: str) -> Stones:
    state = START
    for column in columns:
        assert GAME.returns(state) is None
        state = GAME.apply(state, int(column) - 1)
    return state


def _is_four(cells: list[list[str]], mark: str) -> bool:
    # cells[column] lists a column's stones from the bottom up.
    def holds(column: int, row: int) -> bool:
        return 0 <= column < 7 and 0 <= row < len(cells[column]) and cells[column][row] == mark

    return any(
        all(holds(column + i * right, row + i * up) for i in range(4))
        for column in range(7)
        for row in range(6)
        for right, up in ((1, 0), (0, 1), (1, 1), (1, -1))
    )


def _outcome(cells: list[list[str]]) -> tuple[float, float] | None:
    if _is_four(cells, "X"):
        return (1.0, -1.0)
    if _is_four(cells, "O"):
        return (-1.0, 1.0)
    return (0.0, 0.0) if all(len(column) == 6 for column in cells) else None


@pytest.mark.parametrize(("columns", "drawing", "returns"), DRAWN)
def test_drawn_positions_read_and_score_as_drawn(columns, drawing, returns):
    state = _play(columns)
    board = "\n".join(line.strip() for line in drawing.strip().splitlines())
    assert GAME.text(state, 0) == board
    assert GAME.text(state, 1) == board.translate(str.maketrans("XO", "OX"))
    assert GAME.returns(state) == returns


@settings(deadline=None)
@given(st.lists(st.integers(0, 6), min_size=20, max_size=60))
def test_play_agrees_with_columns_kept_as_lists(wishes):
    state, cells = START, [[] for _ in range(7)]
    for column in wishes:
        outcome = _outcome(cells)
        assert GAME.returns(state) == outcome
        open_columns = [c for c in range(7) if len(cells[c]) < 6] if outcome is None else []
        assert GAME.legal(state) == open_columns
        if outcome is not None:
            return
        assert GAME.seat(state) == sum(map(len, cells)) % 2
        if column in open_columns:
            cells[column].append("XO"[GAME.seat(state)])
            state = GAME.apply(state, column)


@pytest.mark.parametrize(
    ("rows", "columns", "connect"),
    [(4, 5, 3), (3, 3, 2), (1, 4, 2), (8, 9, 5), (6, 7, 6), (5, 4, 5)],
)
@settings(max_examples=30, deadline=None)
@given(data=st.data())
def test_any_board_agrees_with_columns_kept_as_lists(rows, columns, connect, data):
    game = ConnectFour(rows=rows, columns=columns, connect=connect)
    assert (game.num_actions, game.max_moves) == (columns, rows * columns)
    state, cells = START, np.full((rows, columns), ".")
    for column in data.draw(st.lists(st.integers(0, columns - 1), max_size=2 * rows * columns)):
        open_columns = [c for c in range(columns) if cells[0, c] == "."]
        outcome = _outcome_of(cells, connect)
        assert game.returns(state) == outcome
        assert game.legal(state) == ([] if outcome else open_columns)
        if outcome is not None:
            return
        if column in open_columns:
            row = np.flatnonzero(cells[:, column] == ".")[-1]
            cells[row, column] = "XO"[game.seat(state)]
            state = game.apply(state, column)
        planes = game.planes(state, 0)
        np.testing.assert_array_equal(planes, [cells == "X", cells == "O"])
        assert game.text(state, 0).split()[columns:] == cells.ravel().tolist()


def _outcome_of(cells: np.ndarray, connect: int) -> tuple[float, float] | None:
    for mark, returns in (("X", (1.0, -1.0)), ("O", (-1.0, 1.0))):
        rows, columns = np.nonzero(cells == mark)
        held = set(zip(rows.tolist(), columns.tolist(), strict=True))
        for row, column in held:
            for down, right in ((0, 1), (1, 0), (1, 1), (1, -1)):
                if all((row + i * down, column + i * right) in held for i in range(connect)):
                    return returns
    return None if (cells == ".").any() else (0.0, 0.0)


def test_wide_boards_keep_their_columns_aligned():
    lines = ConnectFour(rows=2, columns=11).text((1 << 3 * 10, 0), 0).splitlines()
    assert lines[0].split() == [str(column) for column in range(1, 12)]
    assert lines[2].index("X") == lines[0].index("11") + 1
    assert ConnectFour(columns=11).move_name((0, 0), 10) == "[11]"


def test_only_the_usual_board_is_marked_as_solved():
    assert GAME.solved_value == (1.0, -1.0)
    assert ConnectFour(columns=8).solved_value is None


@pytest.mark.parametrize(
    ("kwargs", "message"),
    [
        ({"rows": 0}, "rows and columns must be >= 1, got 0 and 7"),
        ({"connect": 8}, r"connect must be in 2..7, got 8"),
        ({"connect": 1}, r"connect must be in 2..7, got 1"),
    ],
)
def test_boards_that_cannot_be_played_are_refused(kwargs, message):
    with pytest.raises(ValueError, match=message):
        ConnectFour(**kwargs)


@pytest.mark.parametrize(("columns", "drawing", "returns"), DRAWN)
def test_planes_show_the_drawn_stones_of_either_seat(columns, drawing, returns):
    marks = np.array([line.split() for line in drawing.strip().splitlines()[1:]])
    state = _play(columns)
    np.testing.assert_array_equal(GAME.planes(state, 0), [marks == "X", marks == "O"])
    np.testing.assert_array_equal(GAME.planes(state, 1), [marks == "O", marks == "X"])


def test_full_column_is_closed():
    assert GAME.legal(_play("111111")) == [1, 2, 3, 4, 5, 6]


def test_full_board_without_four_is_a_draw():
    columns = "547125662261271266215743771576315353334444"
    assert GAME.returns(_play(columns[:-1])) is None
    assert GAME.returns(_play(columns)) == (0.0, 0.0)


def test_rules_name_a_move_as_moves_are_written():
    assert GAME.move_name(START, 3) in GAME.rules()
