"""Asking: as many at a time as each player allows, the same answers as one by one."""

import threading
import time

import pytest
from earl_envs import RandomOpponent
from earl_envs.opponents.asking import ask_each

WAIT_S = 10


class Remote:
    """A player that may be asked for several moves at a time."""

    def __init__(self, max_concurrent_moves):
        self.max_concurrent_moves = max_concurrent_moves

    def move(self, game, state, seat, rng):
        raise NotImplementedError


def test_answers_come_in_the_order_of_the_places():
    first, second, plain = Remote(3), Remote(2), RandomOpponent()

    def ask(place):
        time.sleep(0.001 * (9 - place))
        return place * place

    assert ask_each([first, plain, second] * 3, ask) == [place * place for place in range(9)]
    assert ask_each([], ask) == []


def test_all_that_are_allowed_are_asked_at_the_same_time():
    meeting = threading.Barrier(8, timeout=WAIT_S)
    assert sorted(ask_each([Remote(8)] * 8, lambda place: meeting.wait())) == list(range(8))


def test_players_do_not_wait_for_one_another():
    meeting = threading.Barrier(3, timeout=WAIT_S)
    players = [RandomOpponent(), Remote(2), Remote(2)]
    assert sorted(ask_each(players, lambda place: meeting.wait())) == [0, 1, 2]


def test_no_more_are_asked_than_each_player_allows():
    players = [Remote(3), Remote(2)] * 10
    lock, busy, most = threading.Lock(), [0, 0], [0, 0]

    def ask(place):
        with lock:
            busy[place % 2] += 1
            most[place % 2] = max(most[place % 2], busy[place % 2])
        time.sleep(0.002)
        with lock:
            busy[place % 2] -= 1

    ask_each(players, ask)
    assert most == [3, 2]


def test_other_players_are_asked_one_by_one_where_the_caller_is():
    asked = []
    players = [RandomOpponent(), Remote(1), RandomOpponent(), Remote(1)]
    ask_each(players, lambda place: asked.append((place, threading.get_ident())))
    assert asked == [(place, threading.get_ident()) for place in range(4)]


@pytest.mark.parametrize("first", [RandomOpponent(), Remote(2)])
def test_what_one_raises_is_raised_and_the_rest_is_not_asked(first):
    asked = []

    def ask(place):
        asked.append(place)
        if place == 0:
            raise LookupError("no idea")
        time.sleep(0.02)

    with pytest.raises(LookupError, match="no idea"):
        ask_each([first] + [Remote(2)] * 99, ask)
    num_asked = len(asked)
    time.sleep(0.2)
    assert len(asked) < num_asked + 5 < 100
