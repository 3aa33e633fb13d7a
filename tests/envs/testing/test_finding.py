"""How a finding reads."""

from earl_envs.testing import Finding


def test_a_finding_tells_the_rule_and_the_place():
    finding = Finding(wrong="legal() lies", seed=3, moves=(4, 0), board="X 2\n3 O")
    assert str(finding) == "legal() lies\n    at seed 3, moves [4, 0]: X 2 / 3 O"
    assert str(Finding(wrong="max_moves must be >= 1")) == "max_moves must be >= 1"


def test_one_fault_is_of_one_kind_wherever_it_shows():
    first, again, other = (
        Finding(wrong="action 3 is written '[c]'"),
        Finding(wrong="action 14 is written '[d4]'", seed=1),
        Finding(wrong="action 3 is called '[c]'"),
    )
    assert first.kind == again.kind != other.kind


def test_long_games_and_boards_are_cut():
    finding = Finding(wrong="w" * 9_000, seed=0, moves=tuple(range(100)), board="x" * 1000)
    (wrong, place) = str(finding).split("\n")
    assert wrong.endswith("www...")
    assert len(wrong) < 700
    assert place.startswith("    at seed 0, 100 moves [0, 1, 2, ")
    assert place.endswith("xxx...")
    assert len(place) < 500
