"""The figures of what functions found."""

from earl_trainer.rewards.outcome import (
    Judgement,
    RewardFailure,
    RewardOutcome,
    judgement_metrics,
)


def test_failures_are_counted_by_kind_and_no_failure_enters_a_mean():
    judgements = [
        Judgement(outcomes={"a": RewardOutcome(value=1.0, took_s=1.0)}, bonus=1.0),
        Judgement(outcomes={"a": RewardOutcome(value=4.0, took_s=2.0)}, bonus=4.0),
        Judgement(
            outcomes={"a": RewardOutcome(failure=RewardFailure.TIMEOUT, took_s=6.0)}, bonus=None
        ),
    ]
    assert judgement_metrics(judgements) == {
        "reward/timeout_failures": 1.0,
        "reward/memory_failures": 0.0,
        "reward/crash_failures": 0.0,
        "reward/error_failures": 0.0,
        "reward/dropped_episodes": 1.0,
        "reward/job_s": 3.0,
        "reward/mean_a": 2.5,
    }


def test_there_is_nothing_to_report_without_functions_and_no_mean_of_failures():
    assert judgement_metrics([]) == {}
    failed = RewardOutcome(failure=RewardFailure.CRASH)
    figures = judgement_metrics([Judgement(outcomes={"a": failed, "b": failed}, bonus=0.0)])
    assert figures["reward/crash_failures"] == 2.0
    assert figures["reward/dropped_episodes"] == 0.0
    assert "reward/mean_a" not in figures
