"""The learning table: which runs are made, kept and judged."""

import json
from dataclasses import asdict

import pytest


@pytest.fixture
def bench(load_tool):
    return load_tool("bench_algorithms")


def row(bench, algorithm, seed=0, *, before=0.4, after=0.7, games=400, budget=None):
    def result(win_rate):
        return {"win_rate": win_rate, "games": games, "illegal_rate": 0.0}

    return {
        "algorithm": algorithm,
        "seed": seed,
        "budget": asdict(budget or bench.FULL),
        "wall_s": 60.0,
        "peak_bytes": 2**30,
        "evaluation": {"before": result(before), "after": result(after)},
        "win_rates_of_steps": [before, after],
    }


def long_row(label, *, first=960, second=960):
    return {
        "long": label,
        "flags": ["--some", "flag"],
        "wall_s": 600.0,
        "peak_bytes": 2**30,
        "first": {"games": 1000, "draws": first},
        "second": {"games": 1000, "draws": second},
    }


def test_imitation_is_no_algorithm_of_the_table(bench):
    assert "grpo" in bench.REINFORCING
    assert "sft" not in bench.REINFORCING


def test_a_run_that_has_a_row_is_not_made_again(bench):
    plans = [
        bench.Plan(algorithm=algorithm, seed=seed, budget=bench.FULL)
        for algorithm in ("grpo", "ppo")
        for seed in (0, 1)
    ]
    stored = json.loads(json.dumps([row(bench, "grpo", 1), long_row("solver")]))
    assert [(plan.algorithm, plan.seed) for plan in bench.missing(plans, stored)] == [
        ("grpo", 0),
        ("ppo", 0),
        ("ppo", 1),
    ]


def test_a_row_of_another_budget_does_not_count(bench):
    plan = bench.Plan(algorithm="grpo", seed=0, budget=bench.FULL)
    assert bench.missing([plan], [row(bench, "grpo", budget=bench.QUICK)]) == [plan]


def test_all_runs_of_a_seed_begin_with_one_warm_up_and_each_is_kept(bench, tmp_path):
    made, kept = [], []

    def warm_up(seed, budget):
        made.append(seed)
        return tmp_path / str(seed)

    def run(plan, model):
        assert model == tmp_path / str(plan.seed)
        return row(bench, plan.algorithm, plan.seed)

    plans = [
        bench.Plan(algorithm=algorithm, seed=seed, budget=bench.FULL)
        for seed in (0, 2)
        for algorithm in ("a", "b")
    ]
    bench.measure_table(plans, warm_up=warm_up, run=run, keep=kept.append, num_jobs=2)
    assert sorted(made) == [0, 2]
    assert sorted((each["algorithm"], each["seed"]) for each in kept) == [
        ("a", 0), ("a", 2), ("b", 0), ("b", 2),
    ]  # fmt: skip


def test_a_run_that_fails_ends_the_table_and_keeps_what_was_finished(bench, tmp_path):
    kept = []

    def run(plan, model):
        if plan.algorithm == "b":
            raise SystemExit("ended with status 1")
        return row(bench, plan.algorithm)

    plans = [bench.Plan(algorithm=name, seed=0, budget=bench.FULL) for name in ("a", "b", "c")]
    with pytest.raises(SystemExit, match="status 1"):
        bench.measure_table(
            plans,
            warm_up=lambda seed, budget: tmp_path,
            run=run,
            keep=kept.append,
            num_jobs=1,
        )
    assert kept[0]["algorithm"] == "a"


@pytest.mark.parametrize(("after", "holds"), [(0.7, True), (0.45, False)])
def test_an_algorithm_has_to_improve_with_disjoint_intervals(bench, after, holds):
    figures = bench.figures_of([row(bench, "ppo", seed, after=after) for seed in (0, 1, 2)])
    figure = figures["ppo_gap_between_intervals"]
    assert figure.to_dict()["holds"] is holds
    assert figures["ppo_win_rate"].value == pytest.approx(after)


def test_an_algorithm_that_may_fail_is_only_reported(bench):
    figures = bench.figures_of([row(bench, "reinforce++", after=0.1)])
    assert figures["reinforcepp_gap_between_intervals"].to_dict()["holds"]
    assert figures["reinforcepp_gap_between_intervals"].value < 0


@pytest.mark.parametrize("seat", ["first", "second"])
def test_long_runs_are_judged_by_each_seat(bench, seat):
    figures = bench.figures_of([long_row("self-play", **{seat: 940})])
    missed = [name for name, figure in figures.items() if not figure.to_dict()["holds"]]
    assert missed == [f"self_play_draws_as_{seat}"]


def test_the_long_run_is_of_the_best_algorithm_and_self_play_of_rae(bench):
    flags = bench.long_plans([row(bench, "grpo", after=0.6), row(bench, "rloo", after=0.8)])
    assert list(flags["solver"][:4]) == ["--algorithm.name", "rloo", "--opponent", "perfect"]
    assert list(flags["self-play"][:4]) == ["--algorithm.name", "rae", "--opponent", "self"]
    assert "perfect" not in flags["self-play"][:4]


def test_without_a_table_there_is_no_best_algorithm(bench):
    with pytest.raises(ValueError, match="no row yet"):
        bench.long_plans([])


def test_finished_runs_of_the_stored_file_are_shown_without_any_new_one(
    bench, tmp_path, monkeypatch, capsys
):
    monkeypatch.setattr(bench, "REINFORCING", ("grpo",))
    monkeypatch.setattr(bench, "SEEDS", (0,))
    target = tmp_path / "algorithms.json"
    target.write_text(json.dumps({"rows": [row(bench, "grpo"), long_row("solver")]}))
    bench.main(["--out", str(target)])
    assert "grpo_gap_between_intervals" in capsys.readouterr().out
    stored = json.loads(target.read_text())
    assert len(stored["rows"]) == 2
    assert target.with_suffix(".png").exists()


def test_quick_figures_do_not_replace_stored_ones(bench):
    with pytest.raises(SystemExit):
        bench.main(["--quick"])
