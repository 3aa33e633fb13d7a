"""The curriculum of a run, from its config."""

import pytest
from earl_envs import make_game
from earl_trainer.experience.curriculum_setup import (
    check_curriculum,
    check_words,
    make_level_player,
)
from earl_trainer.models.tiny import build_tokenizer
from earl_trainer.overrides import parse_flags, resolve


@pytest.fixture
def config(small_config):
    return lambda flags: resolve(small_config(), parse_flags(flags.split()))


def test_every_level_is_played_in_its_size(config, tiny_chat, mute_policy):
    levels = "random@rows=4&columns=4,first"
    rules = config(f"--env earl/ConnectFour-v0 --experience.curriculum {levels}")
    player = make_level_player(rules, tiny_chat, {})
    assert player.names == ["random@rows=4&columns=4", "first"]
    assert player.curriculum.num_open == 1
    # Nobody is asked for a reply by a plan without episodes.
    assert player.collect(mute_policy, []).episodes == []


def test_it_goes_on_where_it_stood(config, tiny_chat):
    rules = config("--experience.curriculum random,first --experience.promote-games 3")
    player = make_level_player(rules, tiny_chat, {})
    state = player.curriculum.update([(0, 1.0)] * 3)
    again = make_level_player(rules, tiny_chat, {"curriculum": state.to_dict()})
    assert again.curriculum == state
    assert again.curriculum.num_open == 2


def test_a_size_with_moves_that_the_tokenizer_has_no_words_for_is_refused():
    tokenizer = build_tokenizer(make_game("earl/Hex-v0", size=3), seed=0)
    check_words("random@size=2", make_game("earl/Hex-v0", size=2), tokenizer)
    with pytest.raises(ValueError, match=r"no word for the move '.*' of 'random@size=4' in"):
        check_words("random@size=4", make_game("earl/Hex-v0", size=4), tokenizer)


@pytest.mark.parametrize(
    ("flags", "rule"),
    [
        ("--experience.curriculum random,random", "names each level once"),
        ("--experience.curriculum random@size", "a level looks like"),
        ("--experience.curriculum random --opponent self", "opponent must be a script"),
        ("--experience.curriculum random --opponent pool:rating", "opponent must be a script"),
        ("--experience.curriculum random --max-staleness 1", "the run synchronous"),
        (
            "--experience.curriculum random --experience.curriculum-fractions 0,0,0",
            "must not all be 0, got",
        ),
        (
            "--experience.curriculum random --experience.easy-from 0.1",
            "hard_below must be < experience.easy_from, got 0.1 and 0.1",
        ),
        (
            "--experience.curriculum random@size=3 --reward.functions a.b:c=1",
            "must have no sizes then",
        ),
    ],
)
def test_what_does_not_fit_is_refused_by_its_rule(config, flags, rule):
    with pytest.raises(ValueError, match=rule):
        check_curriculum(config(flags))
