"""From finished runs to figures."""

import json
import mmap
import os
import signal

import psutil
import pytest


@pytest.fixture
def bench(load_tool):
    return load_tool("bench_recipes")


@pytest.fixture
def measured(bench):
    """Make a finished run from its win rates and illegal rates after each stage."""

    def make(*, seed=0, wins=(0.1, 0.5, 0.7), illegal=(0.9, 0.05, 0.01), wall_s=100.0,
             peak_bytes=2**30, first_step=0, checkup=None, rows=()):  # fmt: skip
        stages = zip(("initial", "before", "after"), wins, illegal, strict=True)
        evaluation = {
            name: {
                "win_rate": rate,
                "win_rate_low": rate - 0.04,
                "win_rate_high": rate + 0.04,
                "illegal_rate": illegal_rate,
            }
            for name, rate, illegal_rate in stages
        }
        gain = {"win_rate": wins[2] - wins[1], "low": 0.12, "high": 0.28}
        return bench.Measured(
            recipe="some",
            seed=seed,
            wall_s=wall_s,
            peak_bytes=peak_bytes,
            summary={
                "steps": 220,
                "num_parameters": 1000,
                "evaluation": evaluation,
                "gain": {"after_warmup": gain},
                "checkups": {"latest": checkup or {}},
            },
            repeatable_rows=[{"step": first_step}, *rows],
        )

    return make


def values(figures):
    return {name: figure.value for name, figure in figures.items()}


def test_the_small_recipe_is_judged_by_its_worst_run(bench, measured):
    runs = [
        measured(),
        measured(),
        measured(seed=1, wall_s=290.0, wins=(0.1, 0.55, 0.71), illegal=(0.9, 0.08, 0.0)),
        measured(seed=2, peak_bytes=2**31, wins=(0.2, 0.42, 0.6), illegal=(0.9, 0.01, 0.015)),
    ]
    figures = bench.JUDGES["tictactoe-tiny"](runs)
    assert values(figures) == pytest.approx({
        "tiny_illegal_rate_after_warmup": 0.08,
        "tiny_win_rate_gain_by_rl": 0.16,
        "tiny_gap_between_intervals": 0.08,
        "tiny_win_rate": 0.6,
        "tiny_illegal_rate": 0.015,
        "tiny_wall": 290.0,
        "tiny_peak_memory": 2.0,
        "tiny_runs_of_one_seed_identical": 1.0,
    })
    assert all(figure.to_dict()["holds"] for figure in figures.values())


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("tiny_illegal_rate_after_warmup", {"illegal": (0.9, 0.1, 0.0)}),
        ("tiny_win_rate_gain_by_rl", {"wins": (0.1, 0.6, 0.74)}),
        ("tiny_gap_between_intervals", {"wins": (0.1, 0.6, 0.67)}),
        ("tiny_win_rate", {"wins": (0.1, 0.3, 0.57)}),
        ("tiny_illegal_rate", {"illegal": (0.9, 0.05, 0.02)}),
        ("tiny_wall", {"wall_s": 301.0}),
        ("tiny_peak_memory", {"peak_bytes": 2**32 + 2**20}),
    ],
)
def test_one_bad_run_misses_the_goal(bench, measured, name, change):
    figures = bench.JUDGES["tictactoe-tiny"]([measured(), measured(), measured(seed=1, **change)])
    assert not figures[name].to_dict()["holds"]


def test_runs_of_one_seed_must_agree_and_be_two(bench, measured):
    name = "tiny_runs_of_one_seed_identical"
    other = measured(first_step=1)
    assert bench.JUDGES["tictactoe-tiny"]([measured(), other])[name].value == 0.0
    assert bench.JUDGES["tictactoe-tiny"]([measured(), measured(seed=1)])[name].value == 0.0


def test_the_pretrained_recipe_is_compared_with_the_untrained_model(bench, measured):
    run = measured(
        wins=(0.1, 0.3, 0.45), illegal=(0.8, 0.2, 0.1), wall_s=1800.0, peak_bytes=3 * 2**30
    )
    figures = bench.JUDGES["tictactoe-smollm2"]([run])
    assert values(figures) == pytest.approx({
        "smollm2_illegal_rate_untrained": 0.8,
        "smollm2_illegal_rate": 0.1,
        "smollm2_gap_between_intervals": 0.27,
        "smollm2_win_rate": 0.45,
        "smollm2_win_rate_gain_by_rl": 0.15,
        "smollm2_win_rate_gain_by_rl_low": 0.12,
        "smollm2_win_rate_gain_by_rl_high": 0.28,
        "smollm2_wall": 1800.0,
        "smollm2_peak_memory": 3.0,
    })
    assert all(figure.to_dict()["holds"] for figure in figures.values())


def test_connect_four_is_judged_by_its_gain_its_switch_and_its_time(bench, measured):
    checkup = {"checkup/negamax:2/score": 0.2, "checkup/negamax:4/score": 0.1}
    rows = [{"selector/tp": 1.0}, {"selector/tp": 2.0}, {"selector/tp": 1.0}]
    judge = bench.JUDGES["connectfour-tiny"]
    figures = judge([measured(checkup=checkup, rows=rows, wall_s=1700.0)])
    assert values(figures) == pytest.approx({
        "connectfour_win_rate_gain": 0.2,
        "connectfour_gap_between_intervals": 0.12,
        "connectfour_illegal_rate": 0.01,
        "connectfour_wall": 1700.0,
        "connectfour_peak_memory": 1.0,
        "connectfour_highest_tp": 2.0,
        "connectfour_points_against_negamax_2": 0.2,
        "connectfour_points_against_negamax_4": 0.1,
    })
    assert all(figure.to_dict()["holds"] for figure in figures.values())
    for name, change in {
        "win_rate_gain": {"wins": (0.0, 0.5, 0.59)},
        "gap_between_intervals": {"wins": (0.0, 0.5, 0.57)},
        "illegal_rate": {"illegal": (0.9, 0.1, 0.02)},
        "wall": {"wall_s": 1801.0},
        "highest_tp": {"rows": rows[:1]},
    }.items():
        worse = judge([measured(**({"checkup": checkup, "rows": rows} | change))])
        assert not worse[f"connectfour_{name}"].to_dict()["holds"], name


def test_recipes_that_learn_from_data_are_judged_by_what_they_gain(bench, measured):
    judge = bench.JUDGES["tictactoe-dpo"]
    figures = judge([measured(wins=(0.0, 0.3, 0.45))])
    assert values(figures) == pytest.approx({
        "dpo_gap_between_intervals": 0.07,
        "dpo_win_rate": 0.45,
        "dpo_wall": 100.0,
        "dpo_peak_memory": 1.0,
    })
    assert not judge([measured(wins=(0.0, 0.3, 0.36))])["dpo_gap_between_intervals"].to_dict()[
        "holds"
    ]


def test_a_reward_model_is_judged_by_the_pairs_of_its_last_steps(bench, measured):
    rows = [{"policy/accuracy": 0.0}, *[{"policy/accuracy": 0.75}] * 10]
    figures = bench.JUDGES["reward-model"]([measured(rows=rows)])
    assert values(figures) == {"reward_model_accuracy": 0.75, "reward_model_wall": 100.0}


def test_no_recipes_figures_are_taken_for_anothers(bench):
    prefixes = [f"{prefix}_" for prefix in bench.FIGURE_PREFIX.values()]
    assert len(prefixes) == len(bench.JUDGES)
    for prefix in prefixes:
        assert not any(other != prefix and other.startswith(prefix) for other in prefixes)


def test_what_is_stored_of_a_run_is_all_that_its_table_shows(bench, measured, load_tool):
    row = measured(seed=5, wall_s=90.0).row()
    assert "| `some` | 5 |" in load_tool("render_benchmarks").recipe_table([row])
    assert (row["steps"], row["num_parameters"]) == (220, 1000)


def test_a_process_that_ends_while_memory_is_summed_counts_nothing(bench, monkeypatch):
    running, gone = FakeProcess(5), FakeProcess(None)
    monkeypatch.setattr(
        bench.psutil, "Process", lambda pid: FakeProcess(100, [running, gone, running])
    )
    assert bench.tree_bytes(1) == 110


def test_memory_is_that_of_a_real_process_and_of_none_that_is_not_there(bench):
    assert bench.tree_bytes(os.getpid()) > 2**20
    assert bench.tree_bytes(2**30) == 0


def test_pages_that_processes_share_count_once(bench):
    # Far more than both write into pages of their own, which a fork shares until then.
    shared = mmap.mmap(-1, 512 * 2**20)
    shared.write(b"x" * len(shared))
    before = bench.tree_bytes(os.getpid())
    reader, writer = os.pipe()
    child = os.fork()
    if not child:
        assert shared[:: mmap.PAGESIZE]  # a look at every page maps it here too
        os.write(writer, b"x")
        signal.pause()
    try:
        os.read(reader, 1)
        assert psutil.Process(child).memory_info().rss > len(shared)
        assert bench.tree_bytes(os.getpid()) - before < len(shared) / 2
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        os.close(reader)
        os.close(writer)


class FakeProcess:
    """A process of so many bytes; one of None has ended."""

    def __init__(self, num_bytes, children=()):
        self.pss = num_bytes
        self._children = list(children)

    def children(self, *, recursive):
        return self._children

    def memory_full_info(self):
        if self.pss is None:
            raise psutil.NoSuchProcess(0)
        return self


def test_what_is_stored_of_other_recipes_is_kept(tmp_path, bench):
    target = tmp_path / "recipes.json"
    assert bench.kept_results(target, without=["tictactoe-tiny"]) == ({}, [])
    figure = {"value": 1.0, "unit": "s", "goal": "<= 2", "holds": True}
    target.write_text(
        json.dumps({
            "figures": {"tiny_wall": figure, "smollm2_wall": figure},
            "rows": [{"recipe": "tictactoe-tiny"}, {"recipe": "tictactoe-smollm2"}],
        })
    )
    figures, rows = bench.kept_results(target, without=["tictactoe-tiny"])
    assert {name: kept.to_dict() for name, kept in figures.items()} == {"smollm2_wall": figure}
    assert rows == [{"recipe": "tictactoe-smollm2"}]
