from math import inf

import pytest
from earl_selector import ContextReport
from earl_selector.outlook import append_report, look_ahead


def report_of(step, resident_tokens, *, num_responses=10, max_context_tokens=50):
    return ContextReport(
        step=step,
        num_responses=num_responses,
        mean_context_tokens=float(max_context_tokens),
        max_context_tokens=max_context_tokens,
        resident_tokens=resident_tokens,
    )


def look(*reports, max_context_tokens=100, num_responses=10):
    return look_ahead(reports, num_responses=num_responses, max_context_tokens=max_context_tokens)


def test_without_reports_every_response_counts_as_full_length():
    outlook = look(num_responses=3)
    assert (outlook.num_responses, outlook.resident_tokens) == (3, 300)
    assert outlook.likely_context_tokens == (100,)
    assert outlook.steps_within(1000) == inf
    assert outlook.steps_to_limit(capacity_tokens=1, max_context_tokens=1) is None


def test_forecast_is_the_latest_plus_the_growth():
    outlook = look(report_of(0, 200), report_of(1, 300), report_of(2, 400))
    assert outlook.resident_tokens == 500
    assert set(outlook.likely_context_tokens) == {50}


def test_forecast_stays_within_the_limit_of_each_response():
    outlook = look(report_of(0, 200), report_of(1, 900))
    assert outlook.resident_tokens == 1000
    assert max(outlook.likely_context_tokens) == 100
    assert look(report_of(0, 1500)).resident_tokens == 1500, "what was seen can happen again"


def test_growth_is_that_of_each_response():
    outlook = look(report_of(0, 200), report_of(1, 440, num_responses=20), num_responses=20)
    # 20 tokens each, then 22: 24 tokens each of 20 responses.
    assert outlook.resident_tokens == 480
    assert outlook.num_responses == 20


def test_forecast_is_for_the_responses_of_the_next_rollout():
    steady = report_of(0, 400), report_of(1, 400)
    assert look(*steady, num_responses=15).resident_tokens == 600
    assert set(look(*steady, num_responses=15).likely_context_tokens) == {40}
    assert look(*steady, num_responses=5).resident_tokens == 200
    # What was seen beyond the limit can happen again to each of them.
    assert look(report_of(0, 1500), num_responses=20).resident_tokens == 3000


def test_likely_lengths_scatter_as_the_latest_did():
    outlook = look(report_of(0, 380), report_of(1, 420), report_of(2, 380), report_of(3, 420))
    assert min(outlook.likely_context_tokens) < 43 < max(outlook.likely_context_tokens)
    assert len(outlook.likely_context_tokens) == 4


@pytest.mark.parametrize(("capacity_tokens", "num_steps"), [(500, 1.0), (650, 3.0), (499, inf)])
def test_steps_within_end_where_the_growth_fills_the_capacity(capacity_tokens, num_steps):
    outlook = look(report_of(0, 300), report_of(1, 400))
    assert outlook.steps_within(capacity_tokens) == num_steps


def test_steps_to_limit_is_the_earlier_limit():
    outlook = look(
        report_of(0, 300, max_context_tokens=40), report_of(1, 400, max_context_tokens=50)
    )
    assert outlook.steps_to_limit(capacity_tokens=600, max_context_tokens=100) == 2
    assert outlook.steps_to_limit(capacity_tokens=2000, max_context_tokens=80) == 3
    assert outlook.steps_to_limit(capacity_tokens=400, max_context_tokens=80) == 0


def test_only_the_window_is_kept_and_nothing_adds_nothing():
    reports = ()
    for step in range(5):
        reports = append_report(reports, report_of(step, 1), window=3)
    assert [report.step for report in reports] == [2, 3, 4]
    assert append_report(reports, None, window=2) == reports
    with pytest.raises(ValueError, match="rising steps, got step 4 after step 4"):
        append_report(reports, report_of(4, 1), window=3)


def test_inputs_name_the_average_context_and_the_growth():
    inputs = look(report_of(0, 201), report_of(1, 303)).to_inputs(switch_s=2.0)
    assert (inputs.num_responses, inputs.context_tokens) == (10, 41)  # 405 tokens
    assert (inputs.growth_tokens_per_step, inputs.switch_s) == (102.0, 2.0)
    assert look().to_inputs(switch_s=None).growth_tokens_per_step is None
