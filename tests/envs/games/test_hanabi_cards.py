"""What hints tell about a card."""

from earl_envs.games.hanabi_cards import Held, card_name

ALL = frozenset((colour, rank) for colour in range(3) for rank in range(3))


def test_a_hint_tells_what_a_card_is_and_what_it_is_not():
    held = Held(card=(1, 2), possible=ALL)
    assert held.known == "RGB123"
    green = held.told(0, 1)
    assert (green.card, green.known) == ((1, 2), "G123")
    assert held.told(0, 0).known == "GB123"
    assert green.told(1, 2).possible == {(1, 2)}
    assert green.told(1, 0).known == "G23"


def test_no_hint_takes_away_the_card_itself():
    for card in ALL:
        for part, value in ((0, 0), (0, 2), (1, 0), (1, 2)):
            assert card in Held(card=card, possible=ALL).told(part, value).possible


def test_cards_are_named_by_colour_and_rank_from_one():
    assert card_name((0, 0)) == "R1"
    assert card_name((4, 4)) == "W5"
