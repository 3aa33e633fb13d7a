"""How functions are named, and what their values come to."""

import pytest
from earl_trainer.rewards.function import (
    RewardFunction,
    UnfitFunctionError,
    load_function,
    parse_functions,
    weigh,
)
from earl_trainer.rewards.outcome import RewardFailure, RewardOutcome

FAILED = RewardOutcome(failure=RewardFailure.ERROR, detail="KeyError: 3")


def test_a_function_is_written_with_its_module_and_weight():
    assert parse_functions(["my.own.rewards:brevity=0.1", "rewards:style", "rewards:tone=-2"]) == [
        RewardFunction(target="my.own.rewards:brevity", weight=0.1),
        RewardFunction(target="rewards:style", weight=1.0),
        RewardFunction(target="rewards:tone", weight=-2.0),
    ]
    assert parse_functions(["my.own.rewards:brevity"])[0].name == "brevity"


@pytest.mark.parametrize(
    "text",
    ["brevity", "rewards:", ":brevity", "a b:c", "rewards:f=x", "rewards:f=nan", "r:f.g", ""],
)
def test_anything_else_is_refused_with_the_rule(text):
    with pytest.raises(ValueError, match="written package") as caught:
        parse_functions([text])
    assert repr(text) in str(caught.value)


def test_two_functions_of_one_name_are_refused():
    with pytest.raises(ValueError, match="must differ in name, got 'style' twice"):
        parse_functions(["a:style", "b:style=2"])


def test_a_function_is_found_by_its_name(transcript):
    assert load_function("odd_rewards:length")(transcript("abc")) == 3.0
    assert load_function("builtins:len") is len
    with pytest.raises(UnfitFunctionError, match=r"no module 'odd_rewards\.deeper'"):
        load_function("odd_rewards.deeper:length")
    with pytest.raises(RuntimeError, match="half"):
        load_function("fails_to_import:any")


FUNCTIONS = parse_functions(["a:first=0.5", "a:second=-2.0"])


def test_values_are_added_by_their_weights():
    outcomes = {"first": RewardOutcome(value=3.0), "second": RewardOutcome(value=0.25)}
    for on_failure in ("drop", "zero"):
        judgement = weigh(outcomes, FUNCTIONS, on_failure)
        assert judgement.bonus == 1.0
        assert judgement.outcomes == outcomes
        assert not judgement.detail


def test_a_failure_leaves_the_episode_out_or_counts_nothing():
    outcomes = {"first": RewardOutcome(value=3.0), "second": FAILED}
    assert weigh(outcomes, FUNCTIONS, "drop").bonus is None
    assert weigh(outcomes, FUNCTIONS, "zero").bonus == 1.5
    assert weigh(outcomes, FUNCTIONS, "zero").detail == "reward second: error: KeyError: 3"


def test_what_is_said_of_replies_is_added_reply_by_reply_and_a_failure_says_nothing_of_them():
    parted = RewardOutcome(value=3.0, parts=(1.0, 2.0))
    other = RewardOutcome(value=-0.5, parts=(0.5, -1.0))
    judgement = weigh({"first": parted, "second": other}, FUNCTIONS, "drop")
    assert judgement.bonus == 2.5
    assert judgement.parts == (-0.5, 3.0)
    whole = weigh({"first": parted, "second": RewardOutcome(value=4.0)}, FUNCTIONS, "drop")
    assert (whole.bonus, whole.parts) == (-6.5, (0.5, 1.0))
    failed = {"first": parted, "second": FAILED}
    assert weigh(failed, FUNCTIONS, "zero").parts == (0.5, 1.0)
    assert not weigh(failed, FUNCTIONS, "drop").parts
