"""Pools, shares and promotions of a curriculum."""

import json

import pytest
from earl_trainer.experience.curriculum import Curriculum, CurriculumRules, Level, LevelTally
from hypothesis import given, settings
from hypothesis import strategies as st

RULES = CurriculumRules(
    fractions=(0.1, 0.6, 0.3),
    easy_from=0.8,
    hard_below=0.2,
    promote_from=0.7,
    promote_games=10,
    memory=0.9,
)


def at(*successes, rules=RULES):
    """A curriculum of open levels with these success rates over ten games each."""
    tallies = tuple(
        LevelTally() if each is None else LevelTally(games=10.0, points=10.0 * each, num_games=10)
        for each in successes
    )
    return Curriculum(rules=rules, tallies=tallies, num_open=len(tallies))


def test_levels_share_the_fraction_of_their_pool():
    curriculum = at(0.9, 0.8, 0.5, None, 0.1)
    pools = [curriculum.difficulty(level) for level in range(5)]
    assert pools == ["easy", "easy", "normal", "normal", "hard"]
    assert curriculum.probabilities() == pytest.approx([0.05, 0.05, 0.3, 0.3, 0.3])


def test_the_fractions_of_empty_pools_go_to_the_others():
    assert at(0.9, 0.1).probabilities() == pytest.approx([0.25, 0.75])
    assert at(0.5).probabilities() == [1.0]
    never_easy = CurriculumRules(
        fractions=(0.0, 1.0, 0.0), easy_from=0.8, hard_below=0.2, promote_from=0.7,
        promote_games=10, memory=0.9,
    )  # fmt: skip
    assert at(0.9, 0.95, rules=never_easy).probabilities() == [0.5, 0.5]
    assert at(0.9, 0.5, rules=never_easy).probabilities() == [0.0, 1.0]


@settings(max_examples=20, deadline=None)
@given(st.lists(st.one_of(st.none(), st.floats(0.0, 1.0)), min_size=1, max_size=6))
def test_draws_are_as_frequent_as_probabilities_say(successes):
    curriculum = at(*successes)
    num_draws = 100
    drawn = [curriculum.draw((place + 0.5) / num_draws) for place in range(num_draws)]
    for level, share in enumerate(curriculum.probabilities()):
        assert abs(drawn.count(level) - share * num_draws) <= 1.0
    assert curriculum.probabilities()[curriculum.draw(1.0 - 2.0**-53)] > 0.0


def test_the_next_level_opens_by_success_and_games_and_one_at_a_time():
    curriculum = Curriculum.begin(RULES, num_levels=3)
    assert curriculum.probabilities() == [1.0, 0.0, 0.0]
    few = curriculum.update([(0, 1.0)] * 9)
    assert few.num_open == 1
    enough = few.update([(0, 1.0)])
    assert enough.num_open == 2
    assert enough.update([(0, 1.0)] * 99).num_open == 2
    assert enough.update([(1, 0.5)] * 99).num_open == 2
    both = enough.update([(1, 1.0)] * 99)
    assert both.num_open == 3
    assert both.update([(2, 1.0)] * 99).num_open == 3
    assert curriculum.num_open == 1


def test_older_games_count_less():
    curriculum = Curriculum.begin(RULES, num_levels=1).update([(0, 0.0)] * 4)
    later = curriculum.update([(0, 1.0)] * 4)
    assert later.tallies[0].success == pytest.approx(4 / (0.9 * 4 + 4))
    assert later.tallies[0].num_games == 8


@given(
    st.lists(
        st.lists(st.tuples(st.integers(0, 2), st.sampled_from([0.0, 0.5, 1.0])), max_size=12),
        max_size=6,
    )
)
def test_games_are_conserved_and_a_curriculum_that_was_saved_goes_on_alike(steps):
    curriculum = again = Curriculum.begin(RULES, num_levels=3)
    opened = [curriculum.num_open]
    for results in steps:
        curriculum = curriculum.update(results)
        saved = json.loads(json.dumps(again.to_dict()))
        again = Curriculum.from_dict(RULES, saved).update(results)
        assert again == curriculum
        opened.append(curriculum.num_open)
    assert sum(tally.num_games for tally in curriculum.tallies) == sum(map(len, steps))
    assert opened == sorted(opened)


def test_a_level_names_an_opponent_and_maybe_sizes():
    assert Level.from_text("negamax:2") == Level(opponent="negamax:2")
    sized = Level.from_text("random@rows=4&columns=5")
    assert sized.params == {"rows": 4, "columns": 5}
    assert sized.make_game("earl/ConnectFour-v0").max_moves == 20
    for wrong in ("", "@rows=4", "random@", "random@rows", "random@rows=four", "random@rows=4&"):
        with pytest.raises(ValueError, match="a level looks like 'negamax:2' or"):
            Level.from_text(wrong)
    with pytest.raises(ValueError, match="cannot be made with"):
        Level.from_text("random@heaps=3").make_game("earl/ConnectFour-v0")
