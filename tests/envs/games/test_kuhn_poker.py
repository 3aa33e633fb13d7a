"""Kuhn poker: its payoffs, its equilibrium and what either seat sees."""

from fractions import Fraction
from itertools import permutations, product

import numpy as np
import pytest
from earl_envs.games.kuhn_poker import Deal, KuhnPoker

GAME = KuhnPoker()
DEALS = list(permutations(range(3)))
J, Q, K = range(3)
Strategy = dict[tuple[int, tuple[int, ...]], Fraction]
"""Probability of action 1 by own card and actions so far."""


def expected(strategies: tuple[Strategy, Strategy]) -> Fraction:
    """Return what seat 0 gets on average over all deals."""

    def value(state: Deal) -> Fraction:
        returns = GAME.returns(state)
        if returns is not None:
            return Fraction(returns[0])
        seat = GAME.seat(state)
        bet = strategies[seat][state[0][seat], state[1]]
        return (1 - bet) * value(GAME.apply(state, 0)) + bet * value(GAME.apply(state, 1))

    return sum((value((deal, ())) for deal in DEALS), Fraction()) / len(DEALS)


def equilibrium(alpha: Fraction) -> tuple[Strategy, Strategy]:
    """Return Kuhn's solutions, one per alpha from 0 to 1/3."""
    zero, one, third = Fraction(0), Fraction(1), Fraction(1, 3)
    first = {
        (J, ()): alpha,
        (Q, ()): zero,
        (K, ()): 3 * alpha,
        (J, (0, 1)): zero,
        (Q, (0, 1)): alpha + third,
        (K, (0, 1)): one,
    }
    second = {
        (J, (0,)): third,
        (Q, (0,)): zero,
        (K, (0,)): one,
        (J, (1,)): zero,
        (Q, (1,)): third,
        (K, (1,)): one,
    }
    return first, second


def pure_strategies(like: Strategy) -> list[Strategy]:
    return [
        dict(zip(like, map(Fraction, bets), strict=True))
        for bets in product((0, 1), repeat=len(like))
    ]


@pytest.mark.parametrize("alpha", [Fraction(0), Fraction(1, 5), Fraction(1, 3)])
def test_kuhns_solution_is_an_equilibrium_worth_minus_one_eighteenth(alpha):
    first, second = equilibrium(alpha)
    assert expected((first, second)) == Fraction(-1, 18)
    assert max(expected((other, second)) for other in pure_strategies(first)) == Fraction(-1, 18)
    assert min(expected((first, other)) for other in pure_strategies(second)) == Fraction(-1, 18)
    assert GAME.solved_value == pytest.approx((-1 / 18, 1 / 18))


@pytest.mark.parametrize(
    ("actions", "with_king", "with_jack"),
    [
        ((0, 0), 1, -1),
        ((1, 0), 1, 1),
        ((1, 1), 2, -2),
        ((0, 1, 0), -1, -1),
        ((0, 1, 1), 2, -2),
    ],
)
def test_every_ending_pays_what_was_put_in(actions, with_king, with_jack):
    assert GAME.returns(((K, Q, J), actions)) == (with_king, -with_king)
    assert GAME.returns(((J, Q, K), actions)) == (with_jack, -with_jack)
    assert GAME.returns(((J, Q, K), actions[:-1])) is None


def test_moves_are_named_by_what_they_mean():
    def names(actions: tuple[int, ...]) -> list[str]:
        state = ((J, Q, K), actions)
        return [GAME.move_name(state, action) for action in GAME.legal(state)]

    assert names(()) == names((0,)) == ["[check]", "[bet]"]
    assert names((1,)) == names((0, 1)) == ["[fold]", "[call]"]


def test_text_tells_the_bets_and_the_other_card_only_at_a_showdown():
    assert GAME.text(((J, K, Q), ()), 0) == "Your card: J"
    assert GAME.text(((J, K, Q), (0, 1)), 0) == "Your card: J, you check, opponent bet"
    assert GAME.text(((J, K, Q), (0, 1)), 1) == "Your card: K, opponent check, you bet"
    assert GAME.text(((J, K, Q), (1, 0)), 1) == "Your card: K, opponent bet, you fold"
    assert GAME.text(((J, K, Q), (1, 1)), 1).endswith("you call, opponent has J")


@pytest.mark.parametrize("seat", [0, 1])
def test_resampling_deals_both_other_cards_to_the_opponent(seat):
    rng = np.random.default_rng(0)
    deals = [GAME.resample(((Q, J, K), ()), seat, rng)[0] for _ in range(200)]
    own = (Q, J)[seat]
    assert {deal[seat] for deal in deals} == {own}
    counts = [sum(deal[1 - seat] == card for deal in deals) for card in {J, Q, K} - {own}]
    assert min(counts) > 70


def test_planes_are_seat_card_and_actions():
    assert GAME.planes(((J, K, Q), (0, 1)), 1).tolist() == [
        [[0, 1, 0], [0, 0, 1], [1, 0, 0], [0, 1, 0], [0, 0, 0]]
    ]
