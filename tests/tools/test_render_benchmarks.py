"""From stored measurements to the tables of the pages."""

import pytest


@pytest.fixture
def render(load_tool):
    return load_tool("render_benchmarks")


def result(win_rate, illegal_rate):
    return {
        "win_rate": win_rate,
        "win_rate_low": win_rate - 0.05,
        "win_rate_high": win_rate + 0.05,
        "illegal_rate": illegal_rate,
    }


def row(recipe="tictactoe-tiny", *, seed=0, wall_s=90.0):
    return {
        "recipe": recipe,
        "seed": seed,
        "wall_s": wall_s,
        "peak_bytes": 3 * 2**29,
        "evaluation": {
            "initial": result(0.1, 0.9),
            "before": result(0.5, 0.04),
            "after": result(0.75, 0.0),
        },
        "gain": {"after_warmup": {"win_rate": 0.25, "low": 0.18, "high": 0.321}},
    }


def stored(rows, figures):
    environment = {"date": "2000-01-02", "cores": 2, "python": "3.11.9", "torch": "2.9.0"}
    return {"figures": figures, "environment": environment, "rows": rows}


FIGURES = {
    "wall": {"value": 1234.5, "unit": "s", "goal": "<= 300", "holds": False},
    "wins": {"value": 0.75, "unit": "", "goal": "", "holds": True},
}


def test_a_run_is_one_line_of_rates_in_percent(render):
    head, rule, line = render.recipe_table([row()]).splitlines()
    assert line == (
        "| `tictactoe-tiny` | 0 | 10.0 % [5.0, 15.0] | 50.0 % [45.0, 55.0] | 75.0 % [70.0, 80.0] "
        "| +25.0 [+18.0, +32.1] | 90.0 %, 4.0 %, 0.0 % | 1.5 min | 1.5 GiB |"
    )
    assert head.count("|") == rule.count("|") == line.count("|")


def test_a_missed_goal_stands_out_and_a_figure_without_goal_is_reported(render):
    assert render.figure_table(FIGURES).splitlines()[2:] == [
        "| wall | 1,234 s | <= 300 | **no** |",
        "| wins | 0.75 | (reported) | yes |",
    ]


def test_the_front_page_shows_the_latest_run_of_every_seed_of_each_recipe(render):
    rows = [
        row(seed=1),
        row(wall_s=60.0),
        row(wall_s=120.0),
        row("tictactoe-smollm2", wall_s=600.0),
    ]
    lines = render.readme_content({"recipes": stored(rows, {})}).splitlines()[2:]
    assert [line.split(" | ")[0] for line in lines] == [
        "| `tictactoe-tiny`", "| `tictactoe-tiny`", "| `tictactoe-smollm2`"
    ]  # fmt: skip
    assert "2.0 min" in lines[1]
    assert "10.0 min" in lines[2]


def test_the_page_of_measurements_shows_every_run_and_every_file(render):
    rows = [row(), row(seed=1)]
    files = {"recipes": stored(rows, FIGURES), "tests": stored([], FIGURES)}
    content = render.benchmarks_content(files)
    assert content.startswith(render.recipe_table(rows))
    assert content.count(render.figure_table(FIGURES)) == 2
    assert (
        "## tests\n\n`tools/bench_tests.py`, 2000-01-02, 2 cores, Python 3.11.9, torch 2.9.0.\n\n|"
        in content
    )


def test_links_are_shown_beside_the_plan_by_the_busiest_and_the_farthest_off(render):
    def transfer(tokens_per_row, counted):
        return {
            "hosts": 2,
            "tokens_per_row": tokens_per_row,
            "transport": "all_to_all",
            "planned_sent_and_received_bytes": [[3000, 1000], [1000, 3000]],
            "counted_sent_and_received_bytes": counted,
        }

    rows = [
        transfer(8, [[9, 9], [9, 9]]),
        transfer(64, [[3030, 1001], [980, 3000]]),
    ]
    assert render.link_table(rows).splitlines()[2:] == [
        "| 2 | all_to_all | busiest: host 0 out | 3,000 | 3,030 | 1.0 % |",
        "| 2 | all_to_all | rest: host 1 out | 1,000 | 980 | -2.0 % |",
    ]


def test_cells_are_shown_by_context_and_responses_with_what_the_rule_says(render):
    def cell(responses, context_tokens, measured, tp, share):
        return {
            "responses": responses,
            "context_tokens": context_tokens,
            "measured_percent": measured,
            "memory_rule_tp": tp,
            "share_of_tp4_capacity": share,
        }

    rows = [
        cell(64, 8192, 6.4, 8, 1.16),
        cell(8, 1024, -21.1, 4, 0.02),
        cell(64, 1024, -29.1, 4, 0.14),
        cell(8, 8192, None, 8, 1.2),
        {"training_batch": "whole", "gib_at_4096": 97.0, "gib_at_8192": 354.0, "ratio": 3.65},
        {"note": "Cannot: weights."},
        {"seed": 0, "kind": "spiky"},
    ]
    lines = render.selector_details(rows).splitlines()
    assert "| context \\ responses | 8 | 64 |" in lines
    assert "| 8,192 | **out of memory, TP 8** | **+6.4 %, TP 8** |" in lines
    assert "| 1,024 | -21.1 %, TP 4 | -29.1 %, TP 4 |" in lines
    assert "| whole | 97.0 | 354.0 | 3.65 |" in lines
    assert lines[-1] == "- Cannot: weights."
    assert not any("spiky" in line for line in lines)


def test_a_file_is_ascribed_to_the_script_that_there_is(render):
    assert render.script("tests") == "tools/bench_tests.py"
    assert render.script("render_benchmarks") == "tools/render_benchmarks.py"


def test_a_picture_is_shown_where_it_lies(render, tmp_path):
    path = tmp_path / "tests.png"
    assert render.picture(path) == ""
    path.write_bytes(b"")
    assert render.picture(path) == "\n![tests](benchmarks/tests.png)\n"


def test_a_picture_stands_below_the_figures_of_its_file(render, monkeypatch, tmp_path):
    monkeypatch.setattr(render, "STORE", tmp_path / "benchmarks")
    render.STORE.mkdir()
    (render.STORE / "tests.png").write_bytes(b"")
    files = {"recipes": stored([row()], FIGURES), "tests": stored([], FIGURES)}
    content = render.benchmarks_content(files)
    assert content.count("![") == 1 + render.SIMULATED.is_file()
    assert f"{render.figure_table(FIGURES)}\n![tests](benchmarks/tests.png)\n" in content


def test_the_simulated_transfers_are_computed_and_stand_beside_the_papers(render):
    content = render.simulated_content()
    assert content.count("| floor, s | ") == 3
    assert "| measured in the paper | 9.7 | 11.0 | 11.2 |" in content
    # 46 MiB on each of 128 ranks, a sixteenth of which stays: 15 sixteenths at 25 GB/s.
    assert "| floor, s | 0.01447 | " in content
    assert "10 us for each message" in " ".join(content.split())
    assert content in render.benchmarks_content({"recipes": stored([row()], FIGURES)})


def test_only_what_stands_between_the_markers_is_replaced(render):
    begin, end = "<!-- measured: begin -->", "<!-- measured: end -->"
    page = f"# Title\n\n{begin}\nold\n{end}\n\nrest\n"
    new = render.splice(page, "| new |\n")
    assert new == f"# Title\n\n{begin}\n| new |\n{end}\n\nrest\n"
    assert render.splice(new, "| new |\n") == new
    with pytest.raises(ValueError, match="substring not found"):
        render.splice("no markers", "| new |\n")


def test_the_pages_show_what_is_stored(render):
    files = render.read_stored()
    for path, content in render.PAGES.items():
        page = path.read_text()
        assert render.splice(page, content(files)) == page, f"{path}: run render_benchmarks.py"


def test_asynchronous_runs_are_a_line_for_every_variant_in_their_order(render):
    def run(variant, rate, *, seed):
        return {
            "variant": variant,
            "seed": seed,
            "tokens_per_s": rate,
            "generation_idle_share": 0.25,
            "staleness_mean": 1.25,
            "staleness_max": 2.0 + seed,
            "win_rates_of_steps": [0.5],
            **result(0.75, 0.0),
        }

    replay = {
        "table": "2",
        "eta": "4",
        "published_tokens_per_s": 1000.0,
        "simulated_tokens_per_s": 1050,
        "error_percent": 5.0,
        "fitted": False,
    }
    rows = [run("b", 10.0, seed=0), run("a", 30.0, seed=0), run("b", 30.0, seed=1), replay]
    lines = render.async_details(rows).splitlines()
    assert "| b | 20 | 25.0 % | 1.25 | 3 | 75.0 % [70.0, 80.0], 75.0 % [70.0, 80.0] |" in lines
    assert lines.index("| a | 30 | 25.0 % | 1.25 | 2 | 75.0 % [70.0, 80.0] |") == 6
    assert "| 2 | 4 | 1,000 | 1,050 | +5.0 % |" in lines


def test_algorithms_are_shown_from_the_best_and_long_runs_by_seat(render):
    def run(algorithm, win_rate):
        return {
            "algorithm": algorithm,
            "wall_s": 61.0,
            "peak_bytes": 2**30,
            "win_rates_of_steps": [win_rate],
            "evaluation": {
                "before": {"win_rate": 0.5, "games": 100, "illegal_rate": 0.1},
                "after": {"win_rate": win_rate, "games": 100, "illegal_rate": 0.01},
            },
        }

    long = {
        "long": "solver",
        "flags": ["--opponent", "perfect"],
        "wall_s": 1200.0,
        "first": {"games": 1000, "draws": 970},
        "second": {"games": 1000, "draws": 960},
    }
    lines = render.algorithm_details([run("ppo", 0.6), run("grpo", 0.7), long]).splitlines()
    assert lines[3] == (
        "| `grpo` | 1 | 50.0 % [40.4, 59.6] | 70.0 % [60.4, 78.1] | 1.0 % | 61 s | 1.0 GiB |"
    )
    assert lines[4].startswith("| `ppo` |")
    assert lines[-1] == (
        "- solver: 97.0 % of the games from the first seat and 96.0 % from the second drawn "
        "against the solver after 20 minutes (`--opponent perfect`)"
    )


def test_the_loss_is_shown_by_precision_and_way(render):
    row = {"dtype": "bfloat16", "variant": "chunks", "bytes": 36 * 2**20, "seconds": 2.25}
    assert render.loss_details([row]).splitlines()[-1] == ("| bfloat16 | chunks | 36 MiB | 2.2 s |")
