"""Commands of the learning table's runs, and what is read of them."""

import json

import pytest
from earl_trainer.overrides import resolve
from earl_trainer.recipes import find_recipe
from earl_trainer.rules import check_config


@pytest.fixture
def tool(load_tool):
    return load_tool("algorithm_runs")


@pytest.fixture
def commands(tool, monkeypatch):
    """The commands that would have run, each leaving what a run leaves."""
    made = []

    def run(command, environment):
        made.append([str(part) for part in command])
        assert environment["OMP_NUM_THREADS"] == "1"
        run_dir = command[command.index("--run-dir") + 1]
        run_dir.mkdir(parents=True)
        evaluation = {name: {"win_rate": 0.5} for name in ("initial", "before", "after")}
        (run_dir / "summary.json").write_text(json.dumps({"evaluation": evaluation}))
        steps = [{"game/win_rate": 0.25}, {"evaluation": "after"}, {"game/win_rate": 0.5}]
        (run_dir / "metrics.jsonl").write_text("\n".join(map(json.dumps, steps)))
        (run_dir / "episodes.jsonl").write_text("\n".join(map(json.dumps, EPISODES)))
        return 12.5, 2**20

    monkeypatch.setattr(tool, "run_watched", run)
    return made


def episode(seat, outcome, *, phase="evaluation-after", end_reason="finished"):
    return {
        "phase": phase,
        "seat": seat,
        "games": [{"outcome": outcome, "end_reason": end_reason}],
    }


EPISODES = [
    episode(0, 0.0, phase="evaluation-before"),
    episode(0, 0.0),
    episode(0, 0.0),
    episode(0, -1.0),
    episode(1, 0.0, end_reason="context_limit"),
    episode(1, 0.0),
]


def config_of(command):
    """The config that a command line gives."""
    flags = dict(zip(command[5::2], command[6::2], strict=True))
    tree = {}
    for name, value in flags.items():
        *sections, field = name.removeprefix("--").replace("-", "_").split(".")
        place = tree
        for section in sections:
            place = place.setdefault(section, {})
        place[field] = value
    return resolve(find_recipe(command[2]), tree)


def test_a_warm_up_reinforces_nothing_and_a_run_begins_with_its_model(tool, commands, tmp_path):
    budget = tool.Budget(warmup_steps=7, num_steps=5, num_episodes=16, group_size=4, num_games=10)
    model = tool.warm_up(3, budget, tmp_path)
    model.mkdir()
    (model / "config.json").write_text("{}")
    plan = tool.Plan(algorithm="grpo", seed=3, budget=budget)
    row = tool.run_plan(plan, model, tmp_path)
    warm, trained = map(config_of, commands)
    for config in (warm, trained):
        check_config(config)
        assert (config.seed, config.rollout.num_episodes) == (3, 16)
        assert config.evaluation.num_games == 10
    assert (warm.warmup.num_steps, warm.learner.num_steps) == (7, 0)
    assert (trained.warmup.num_steps, trained.learner.num_steps) == (0, 5)
    assert (trained.model.name, trained.algorithm.name) == (str(model), "grpo")
    assert row == {
        **plan.key,
        "wall_s": 12.5,
        "peak_bytes": 2**20,
        "evaluation": {"before": {"win_rate": 0.5}, "after": {"win_rate": 0.5}},
        "win_rates_of_steps": [0.25, 0.5],
    }


def test_a_long_run_counts_draws_of_the_last_match_by_seat(tool, commands, tmp_path):
    row = tool.run_long("solver", ["--learner.num-steps", "9"], tmp_path)
    assert row["first"] == {"games": 3, "draws": 2}
    # Nobody agreed to a draw where a game was cut.
    assert row["second"] == {"games": 2, "draws": 1}
    assert commands[0][-2:] == ["--learner.num-steps", "9"]
