"""From what pytest prints to figures."""

import pytest


@pytest.fixture
def bench(load_tool):
    return load_tool("bench_tests")


@pytest.mark.parametrize(
    ("last", "counts"),
    [
        ("7 passed in 1.20s", {"passed": 7}),
        (
            "2 failed, 30 passed, 1 skipped, 12 errors in 61.20s (0:01:01)",
            {"failed": 2, "passed": 30, "error": 12},
        ),
        ("1 error in 0.10s", {"error": 1}),
        ("no tests ran in 0.01s", {}),
    ],
)
def test_counts_are_those_of_the_last_line(bench, last, counts):
    assert bench.count_outcomes(f"E   99 failed, 99 passed\n{last}\n") == counts


def test_a_suite_that_printed_nothing_has_no_counts(bench):
    assert bench.count_outcomes("") == {}


def missed(figures):
    return {name for name, figure in figures.items() if not figure.to_dict()["holds"]}


def test_a_suite_is_judged_by_time_counts_and_exit_status(bench):
    def figures(wall_s, exit_status, output):
        run = bench.Ran(wall_s=wall_s, exit_status=exit_status, output=output)
        return missed(bench.suite_figures("quick", run, goal="<= 480"))

    assert figures(480.0, 0, "5 passed in 480s") == set()
    assert figures(481.0, 1, "1 failed, 5 passed, 2 errors in 481s") == {
        "quick_wall", "quick_exit_status", "quick_failed", "quick_errors"
    }  # fmt: skip
    # Killed: no last line, so nothing failed either.
    assert figures(9.0, -9, "") == {"quick_exit_status", "quick_passed"}
