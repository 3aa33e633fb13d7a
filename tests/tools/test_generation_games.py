"""Games in which generation is timed: the same whoever generates."""

from functools import partial

import numpy as np
import pytest
import torch


@pytest.fixture
def tool(load_tool):
    return load_tool("generation_games")


@pytest.fixture
def world(tool):
    return tool.make_world()


def play_all(tool, world, num_games):
    plays = {
        "generate": partial(tool.play_with_generate, world),
        "waves": partial(tool.play_in_waves, world),
        "streaming": lambda seats: tool.play_streaming(world.streaming(), seats),
    }
    played = {name: world.seats(num_games) for name in plays}
    for name, play in plays.items():
        play(played[name])
    return played


def test_every_way_plays_the_same_games_to_their_end(tool, world):
    played = play_all(tool, world, 20)
    for seats in played.values():
        counts = tool.compare_replies(world.model, played["streaming"], seats)
        assert counts["different"] == 0
        assert counts["equal"] >= 19
        assert all(seat.ask() is None for seat in seats)
        assert all(1 <= len(seat.replies) <= 5 for seat in seats)
    replies = [reply for seat in played["generate"] for reply in seat.replies]
    assert len(set(replies)) > 10, "replies that are all the same would prove little"
    assert len({len(reply) for reply in replies}) > 3


def test_a_game_goes_on_from_what_was_said(tool, world):
    seats = world.seats(20)
    tool.play_streaming(world.streaming(), seats)
    for seat in seats:
        for number, (before, reply) in enumerate(zip(seat.requests, seat.replies, strict=True)):
            assert 1 <= len(reply) <= before.max_new_tokens
            if number + 1 < len(seat.requests):
                said = [*before.prompt_ids, *reply]
                assert list(seat.requests[number + 1].prompt_ids[: len(said)]) == said


def test_a_group_has_one_first_prompt_and_the_rules_make_it_longer(tool, world):
    first = [tuple(seat.ask().prompt_ids) for seat in world.seats(32)]
    assert len(set(first[:16])) == len(set(first[16:])) == 1
    assert first[0] != first[16], "on the other side of the board"
    with_rules = world.seats(1, rules=True)[0].ask().prompt_ids
    assert len(with_rules) > 2 * len(first[0])


def test_a_reply_that_differs_is_told_from_one_that_may_differ(tool, world):
    (one,), (other,) = world.seats(1), world.seats(1)
    prompt = list(one.ask().prompt_ids)
    other.ask()
    with torch.no_grad():
        best, second = world.model(torch.tensor([prompt])).logits[0, -1].topk(2).indices.tolist()
    one.hear([best])
    other.hear([second])
    assert tool.compare_replies(world.model, [one], [one])["equal"] == 1
    assert tool.compare_replies(world.model, [one], [other])["different"] == 1
    with torch.no_grad():
        world.model.lm_head.weight.zero_()
    assert tool.compare_replies(world.model, [one], [other])["tied"] == 1


def test_a_reply_is_cut_behind_the_first_token_that_ends_it(tool):
    assert tool.cut([1, 2, 9, 3, 9], frozenset({9})) == [1, 2, 9]
    assert tool.cut([1, 2], frozenset({9})) == [1, 2]


def test_lengths_are_log_normal_within_their_bounds(tool):
    lengths = tool.Lengths(median_tokens=8.0, sigma=1.0, most_tokens=30).draw((20_000,))
    assert lengths.min() == 1
    assert lengths.max() == 30
    assert np.median(lengths) == 8
    # Below 3.5, which rounds to 3, is the normal distribution below ln(3.5 / 8) = -0.83.
    assert (lengths <= 3).mean() == pytest.approx(0.204, abs=0.02)
