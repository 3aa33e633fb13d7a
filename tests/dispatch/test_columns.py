import pytest
import torch
from earl_dispatch import Columns
from earl_dispatch.testing import assert_same_bits, random_columns
from hypothesis import given, settings
from hypothesis import strategies as st
from jaxtyping import TypeCheckError


def two_rows() -> Columns:
    return Columns(
        lengths=torch.tensor([2, 1]),
        per_token={"ids": torch.tensor([5, 6, 7], dtype=torch.int32)},
        per_row={"reward": torch.tensor([1.0, -1.0])},
    )


def gather_turns(columns: Columns, rows: list[int]) -> dict[str, torch.Tensor]:
    turns = columns.turn_counts().tolist()
    places = [sum(turns[:row]) + turn for row in rows for turn in range(turns[row])]
    return {name: column[places] for name, column in columns.per_turn.items()}


@settings(deadline=None, max_examples=50)
@given(data=st.data(), lengths=st.lists(st.integers(0, 5), min_size=1, max_size=8))
def test_select_gathers_each_rows_tokens_in_the_order_asked_for(data, lengths):
    columns = random_columns(lengths, torch.Generator().manual_seed(0))
    rows = data.draw(st.lists(st.integers(0, len(lengths) - 1), max_size=10))
    selected = columns.select(rows)

    starts = [sum(lengths[:row]) for row in range(len(lengths))]
    tokens = [starts[row] + t for row in rows for t in range(lengths[row])]
    expected = Columns(
        lengths=torch.tensor([lengths[row] for row in rows], dtype=torch.int64),
        per_token={name: column[tokens] for name, column in columns.per_token.items()},
        per_row={name: column[rows] for name, column in columns.per_row.items()},
        turns=columns.turn_counts()[rows],
        per_turn=gather_turns(columns, rows),
    )
    assert_same_bits(selected, expected)


@settings(deadline=None, max_examples=50)
@given(lengths=st.lists(st.integers(0, 5), min_size=1, max_size=8), cut=st.integers(0, 8))
def test_concat_of_the_parts_is_the_whole(lengths, cut):
    columns = random_columns(lengths, torch.Generator().manual_seed(1))
    rows = range(len(lengths))
    parts = [columns.select(rows[:cut]), columns.select(rows[cut:])]
    assert_same_bits(Columns.concat(parts), columns)


def test_empty_columns_are_neutral_in_concat():
    columns = two_rows()
    nothing = Columns.empty(columns.schema())
    assert_same_bits(Columns.concat([nothing, columns, nothing]), columns)


def test_concat_refuses_parts_of_another_schema():
    other = Columns(lengths=torch.tensor([0]), per_token={}, per_row={})
    with pytest.raises(ValueError, match=r"part 0 .*int32.* part 1 has Schema"):
        Columns.concat([two_rows(), other])
    with pytest.raises(ValueError, match="at least 1 part, got 0"):
        Columns.concat([])


def test_schema_does_not_depend_on_mapping_order():
    ids, logps = torch.tensor([1, 2]), torch.tensor([0.5, 0.25])
    one = Columns(lengths=torch.tensor([2]), per_token={"a": ids, "b": logps}, per_row={})
    two = Columns(lengths=torch.tensor([2]), per_token={"b": logps, "a": ids}, per_row={})
    assert one.schema() == two.schema()
    assert one.schema().per_token == (("a", torch.int64), ("b", torch.float32))


def test_select_refuses_a_row_that_is_not_there():
    for row in (2, -1):
        with pytest.raises((IndexError, RuntimeError)):
            two_rows().select([row])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"lengths": torch.tensor([2, 2])}, r"'ids' .* expected shape \[4\], got \[3\]"),
        ({"lengths": torch.tensor([4, -1])}, r"lengths must be >= 0, got -1"),
        ({"per_row": {"reward": torch.ones(3)}}, r"'reward' .* expected shape \[2\], got \[3\]"),
        ({"per_row": {"ids": torch.ones(2)}}, r"'ids' is given as two of them"),
        ({"turns": torch.tensor([1, -1])}, r"turns must be >= 0, got -1"),
        ({"per_turn": {"r": torch.ones(1)}}, r"'r' .* expected shape \[0\], got \[1\]"),
        ({"per_token": {"ids": torch.ones(3, device="meta")}}, r"'ids' is on meta, .* on cpu"),
        ({"per_token": {"ids": torch.ones(3, 1)}}, r"'ids' .* expected shape \[3\], got \[3, 1\]"),
    ],
)
def test_disagreeing_columns_are_refused_with_name_and_numbers(change, message):
    columns = two_rows()
    fields = {
        "lengths": columns.lengths,
        "per_token": columns.per_token,
        "per_row": columns.per_row,
    }
    with pytest.raises(ValueError, match=message):
        Columns(**(fields | change))


def test_lengths_of_another_dtype_are_refused():
    # Where jaxtyping's checks are on, as under pytest, they come first.
    with pytest.raises((ValueError, TypeCheckError), match="lengths"):
        Columns(lengths=torch.tensor([1], dtype=torch.int32), per_token={}, per_row={})
