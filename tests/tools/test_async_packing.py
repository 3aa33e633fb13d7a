"""Packed against padded micro-batches: the same sums, measured alike."""

import pytest
import torch

MIB = 1 << 20


@pytest.fixture(scope="module", autouse=True)
def one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture
def tool(load_tool):
    return load_tool("async_packing")


@pytest.fixture
def rows(tool):
    return tool.play([1, 3, 2, 1, 4, 1])


def test_rows_grow_with_the_games_that_were_asked_for(rows):
    by_games = dict(zip([1, 3, 2, 1, 4, 1], rows.lengths.tolist(), strict=True))
    assert by_games[1] < by_games[2] < by_games[3] < by_games[4]


def test_drawn_games_are_short_or_have_a_long_tail(tool):
    short, tail = (torch.tensor(tool.draw_games(kind, 2000)) for kind in ("short", "tail"))
    assert short.unique().tolist() == [1, 2, 3, 4]
    assert tail.max() == 16
    assert 0.55 < (tail == 1).float().mean() < 0.7


def test_both_ways_have_the_same_loss_and_gradient(tool, rows):
    model = tool.make_tiny()
    results = []
    for loss_of in (tool.packed_loss, tool.padded_loss):
        model.zero_grad()
        loss = loss_of(model, rows)
        loss.backward()
        gradient = torch.cat([each.grad.flatten() for each in model.parameters()])
        results.append((loss.detach(), gradient))
    (packed, own), (padded, other) = results
    torch.testing.assert_close(packed, padded, rtol=1e-5, atol=0)
    assert (own - other).norm() < 1e-4 * other.norm()


def test_tokens_are_counted_with_their_padding(tool, rows):
    model = tool.make_tiny()
    counted = {
        loss_of: tool.count_tokens(model, lambda loss_of=loss_of: loss_of(model, rows))
        for loss_of in (tool.packed_loss, tool.padded_loss)
    }
    assert counted[tool.packed_loss] == rows.num_tokens
    assert counted[tool.padded_loss] == 6 * rows.lengths.max()


def test_the_peak_is_that_of_tensors_that_are_there_together(tool):
    def run():
        for _ in range(3):
            first = torch.zeros(4 * MIB, dtype=torch.uint8)
            second = torch.zeros(2 * MIB, dtype=torch.uint8)
            del first
            third = torch.zeros(3 * MIB, dtype=torch.uint8)
            del second, third

    assert tool.peak_bytes(run) == pytest.approx(6 * MIB, abs=1000)


def test_padded_micro_batches_get_at_least_the_memory_and_no_row_more(tool, rows):
    model, order = tool.make_tiny(), range(6)
    wanted = tool.peak_of(
        model, rows, tool.Scheme(name="three", bins=[[0, 4, 5]], loss=tool.padded_loss)
    )
    scheme = tool.fit_padded(model, rows, "arrival", order, wanted)
    assert scheme.bins == [[0, 1, 2], [3, 4, 5]]
    # Four and two would be less: the long row, the fifth, has one beside it instead of two.
    more = tool.fit_padded(model, rows, "arrival", order, wanted + 1)
    assert more.bins == [[0, 1, 2, 3, 4], [5]]


@pytest.mark.slow
def test_a_small_run_has_every_figure_and_pads_nothing(tool):
    section = tool.measure(quick=True)
    for kind in ("short", "tail"):
        assert section.figures[f"{kind}_padding_tokens"].value == 0
        assert section.figures[f"{kind}_peak_over_arrival"].value <= 1
        assert section.figures[f"{kind}_over_arrival"].value > 1
    padding = {
        (row["rows"], row["scheme"]): row["padding_tokens"]
        for row in section.rows
        if "scheme" in row
    }
    assert padding["tail", "arrival"] > padding["tail", "sorted"] > padding["tail", "packed"] == 0
    plans = [row for row in section.rows if "packing" in row]
    assert len(plans) == 6
    assert all(row["bins"] >= row["fewest_possible_bins"] for row in plans)


def test_a_note_says_what_sorting_leaves_to_be_gained(tool):
    measured = [
        {"scheme": "packed", "tokens": 1000, "padding_tokens": 0},
        {"scheme": "sorted", "tokens": 1000, "padding_tokens": 110},
    ]
    note = tool.explain_sorted("tail", measured)["note"]
    assert "(tail) are padded by 110 tokens to 1,000" in note
    assert note.endswith("1.11 times as fast.")
