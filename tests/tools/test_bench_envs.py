"""From rows of our own and peers' drivers to figures."""

import sys
from pathlib import Path

import pytest

PEERS = Path(__file__).parents[2] / "tools" / "peers"


@pytest.fixture
def bench(load_tool):
    return load_tool("bench_envs")


@pytest.fixture
def runner(load_tool):
    return load_tool("peers.runner")


GAMES = ("tic_tac_toe", "connect_four", "othello")
SIZES = (1, 64, 1024)


def row(peer, game, batch, moves_per_s, *, variant="a loop", observed=True, cores=1):
    return {
        "peer": peer, "game": game, "batch": batch, "variant": variant, "observed": observed,
        "cores": cores, "moves_per_s": moves_per_s,
    }  # fmt: skip


def run_of_all(bench, *, ours=3000.0, theirs=100.0):
    rows = [
        row("earl", game, size, ours, variant="step(random_actions())")
        for game in GAMES
        for size in SIZES
    ]
    return rows + [row(peer, game, 1, theirs) for peer in bench.PEERS for game in GAMES]


def values(figures):
    return {name: figure.value for name, figure in figures.items()}


def verdicts(figures):
    return {name: figure.to_dict()["holds"] for name, figure in figures.items()}


def test_the_lead_is_the_smallest_over_all_sizes_and_over_the_best_peer(bench):
    rows = run_of_all(bench)
    assert bench.lead(rows, "connect_four", 1) == 30
    rows.append(row("pgx", "connect_four", 1024, 1500.0))
    assert bench.lead(rows, "connect_four", 1) == bench.lead(rows, "connect_four", 1024) == 2
    assert bench.lead(rows, "tic_tac_toe", 1) == 30


def test_a_peer_may_split_a_batch_but_not_merge_them(bench):
    rows = [*run_of_all(bench), row("pgx", "connect_four", 64, 1500.0)]
    assert bench.best_peer(rows, "connect_four", 1) == 100
    assert bench.best_peer(rows, "connect_four", 1024) == 1500


def test_a_peer_that_shows_nothing_counts_only_where_that_is_said(bench):
    rows = [*run_of_all(bench), row("openspiel", "connect_four", 1, 1000.0, observed=False)]
    assert bench.lead(rows, "connect_four", 1) == 30
    assert bench.lead(rows, "connect_four", 1, observed=False) == 3
    # The comparison with OpenSpiel's loop takes its fastest.
    figures = values(bench.stepping_figures(rows))
    assert figures["connect_four_1024_over_openspiel"] == 3
    assert figures["connect_four_1024_over_openspiel_with_observation"] == 30


@pytest.mark.parametrize("missing", ["pettingzoo", "openspiel", "pgx", "envpool", "textarena"])
def test_a_missing_peer_fails_every_comparison(bench, missing):
    rows = [r for r in run_of_all(bench, ours=1e9) if r["peer"] != missing]
    figures = bench.stepping_figures(rows)
    assert not verdicts(figures)["peers_measured"]
    assert values(figures)["tic_tac_toe_lead"] == 0
    assert values(figures)["othello_lead_from_64"] == 0


@pytest.mark.parametrize("missing", ["openspiel", "pgx", "envpool"])
def test_othello_needs_every_peer_that_has_it(bench, missing):
    rows = [r for r in run_of_all(bench) if r["game"] != "othello" or r["peer"] not in (
        missing, "pettingzoo", "textarena",
    )]  # fmt: skip
    assert bench.lead(rows, "othello", 64) == 0
    rows.append(row(missing, "othello", 1, 100.0))
    assert bench.lead(rows, "othello", 64) == 30


def test_actions_of_the_caller_have_a_lead_of_their_own(bench):
    rows = run_of_all(bench)
    given = {"variant": "actions given by the caller"}
    rows += [row("earl", "connect_four", 1024, 900.0, **given),
             row("earl", "connect_four", 16384, 1200.0, **given),
             row("earl", "connect_four", 16384, 5e6, variant="a random half stepped")]  # fmt: skip
    figures = values(bench.stepping_figures(rows))
    assert figures["connect_four_given_actions_lead_from_1024"] == 9
    assert figures["connect_four_lead_from_1024"] == 30
    assert figures["connect_four_16384_half_stepped"] == 5
    assert figures["tic_tac_toe_given_actions_lead_from_1024"] == 0


def test_a_driver_of_given_actions_steps_what_it_says(runner):
    effort = runner.Effort(
        games=("connect_four",), batches=(1, 1024, 16384), num_repeats=1, min_s=0.001, num_checked=1
    )
    rows = runner.run_driver(sys.executable, "earl_given", effort.flags(), cores=1)
    assert [(r["batch"], r["variant"]) for r in rows] == [
        (1024, "actions given by the caller"),
        (16384, "actions given by the caller"),
        (16384, "a random half stepped"),
    ]
    assert all(r["moves_per_s"] > 1e5 for r in rows)


@pytest.mark.slow
def test_the_driver_of_checks_leaves_none_out(runner):
    effort = runner.Effort(
        games=("othello",), batches=(1,), num_repeats=1, min_s=0.001, num_checked=1
    )
    rows = runner.run_driver(sys.executable, "earl_checks", effort.flags(), cores=1)
    assert [r["game"] for r in rows] == ["earl/2048-v0", "openspiel/tic_tac_toe-v0"]
    assert all(r["passed"] and not r["notes"] and r["check_s"] > 0 for r in rows)


@pytest.mark.parametrize("form", ["plain", "plain, naming moves", "think", "think and answer"])
def test_replies_are_as_long_as_asked_and_thoughts_that_name_moves_differ(
    load_tool, monkeypatch, form
):
    monkeypatch.syspath_prepend(PEERS)
    conversation = load_tool("peers.drive_earl_text").Conversation("connect_four")
    replies = conversation.replies(form, 200)
    assert {len(reply) for reply in replies} == {200}
    assert not conversation.words.turn(replies).failures
    assert (len({reply[:150] for reply in replies}) == 1024) == ("naming" in form)


def test_a_peer_needs_both_games(bench):
    rows = [r for r in run_of_all(bench) if (r["peer"], r["game"]) != ("envpool", "connect_four")]
    assert bench.num_peers(rows) == len(bench.PEERS) - 1


def test_two_cores_are_judged_by_the_worse_size(bench):
    rows = [
        {**row("earl", game, size, 100.0, variant="two cores", cores=2), "scaling": scaling}
        for game in ("tic_tac_toe", "connect_four", "arithmetic")
        for size, scaling in ((16384, 1.9), (65536, 1.7))
    ]
    figures = bench.stepping_figures(rows)
    assert values(figures)["connect_four_two_cores"] == 1.7
    assert verdicts(figures)["tic_tac_toe_two_cores"]
    assert not verdicts(figures)["connect_four_two_cores"]
    assert values(figures)["arithmetic_two_cores"] == 1.7
    without = [each for each in rows if each["game"] != "connect_four"]
    assert values(bench.stepping_figures(without))["connect_four_two_cores"] == 0.0


def test_a_second_core_is_judged_by_the_rounds_and_not_by_what_happens_between_them(
    load_tool, monkeypatch
):
    monkeypatch.syspath_prepend(PEERS)
    tool = load_tool("peers.drive_earl_scaling")
    rates = iter([100.0, 190.0, 10.0, 19.0, 100.0, 50.0])
    monkeypatch.setattr(tool, "rate", lambda run, threads, seconds: next(rates))
    found = tool.compare(lambda: None, num_rounds=3, seconds=0.1)
    assert (found["scaling"], found["quartile_low"]) == (1.9, 0.5)
    assert (found["moves_per_s_one_core"], found["moves_per_s"]) == (100.0, 50.0)


def test_text_is_judged_by_the_slowest_game_and_form(bench):
    rows = [
        row("earl", game, 1024, speed * moves, variant=f"text, {form}, replies of {n} characters")
        for n, tic_tac_toe, connect_four in (
            (200, 2e6, 1e6), (2_000, 5e5, 1e6), (16_000, 1e5, 2e5),
        )
        for game, moves in (("tic_tac_toe", tic_tac_toe), ("connect_four", connect_four))
        for form, speed in (
            ("plain", 3), ("plain, naming moves", 3), ("think", 2), ("think and answer", 1)
        )
    ]  # fmt: skip
    rows.append(row("textarena", "connect_four", 1, 5e4, variant="default wrappers"))
    assert values(bench.text_figures(rows)) == pytest.approx({
        "text_turn_200_chars": 1.0,
        "text_turn_2000_chars": 2.0,
        "text_lead_over_textarena": 20.0,
        "text_turn_16000_over_2000_chars": 5.0,
    })
    assert all(verdicts(bench.text_figures(rows)).values())
    for form in ("think", "plain, naming moves"):
        some = [r for r in rows if f"text, {form}, replies of 200 " not in r["variant"]]
        assert not verdicts(bench.text_figures(some))["text_turn_200_chars"]


def search_rows(**changed):
    rates = {"perfect, 10 stones": 4.0, "negamax:6": 2e4, "mcts:1000": 800.0, **changed}
    rows = [row("earl", "connect_four_search", 1, r, variant=v) for v, r in rates.items()]
    book = row("earl", "connect_four_search", 1, 0.0, variant="book")
    found = {"num_positions": 5000, "num_missing": 0, "num_resolved": 15, "num_wrong": 0}
    rows.append({**book, **found})
    return [*rows, row("openspiel", "connect_four_search", 1, 100.0, variant="MCTS")]


def test_opponents_are_judged_by_time_coverage_and_openspiel(bench):
    figures = bench.opponent_figures(search_rows())
    assert values(figures) == pytest.approx({
        "perfect_move_at_10_stones": 0.25,
        "book_positions_reached": 5000,
        "book_positions_at_most": 5000,
        "book_positions_solved_again": 15,
        "book_positions_wrong": 0,
        "book_positions_missing": 0,
        "negamax_6_move": 0.05,
        "mcts_1000_over_openspiel": 8.0,
    })
    assert all(verdicts(figures).values())
    slow = bench.opponent_figures(search_rows(**{"mcts:1000": 400.0, "negamax:6": 1e4}))
    assert {name for name, held in verdicts(slow).items() if not held} == {
        "mcts_1000_over_openspiel", "negamax_6_move",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("changed", "missed"),
    [
        ({"num_positions": 1000}, "book_positions_reached"),
        ({"num_positions": 10_000}, "book_positions_at_most"),
        ({"num_wrong": 1}, "book_positions_wrong"),
        ({"num_missing": 1}, "book_positions_missing"),
    ],
)
def test_the_book_is_judged_by_size_and_by_positions_solved_again(bench, changed, missed):
    rows = [{**r, **changed} if r["variant"] == "book" else r for r in search_rows()]
    held = verdicts(bench.opponent_figures(rows))
    assert [name for name, holds in held.items() if not holds] == [missed]


def test_the_start_is_judged_by_time_and_memory(bench):
    rows = [{"peer": "earl", "variant": "start", "first_step_s": 0.9, "step_bytes": 700}]
    figures = bench.start_figures(rows)
    assert list(values(figures).values()) == [0.9, 700]
    assert all(verdicts(figures).values())
    rows[0] = {**rows[0], "step_bytes": 86_016}
    assert not verdicts(bench.start_figures(rows))["memory_taken_by_a_step_of_1024"]


def test_checked_games_are_counted(bench):
    def checked(game, passed, notes=""):
        row = {"peer": "earl", "game": game, "variant": "check_game", "passed": passed}
        return {**row, "notes": notes}

    rows = [checked(f"earl/{name}-v0", True) for name in "ABCDEFGHIJKLM"]
    rows += [checked(f"openspiel/g{i}-v0", i > 0) for i in range(11)]
    assert all(verdicts(bench.check_figures(rows)).values())
    rows[0] = checked("earl/A-v0", False)
    rows[-1] = checked("openspiel/g10-v0", False)
    figures = bench.check_figures(rows)
    assert values(figures) == {
        "listed_games_passing_check": 12,
        "listed_games_failing_check": 1,
        "openspiel_games_passing_check": 9,
        "openspiel_games_decided": 9,
    }
    rows[-2] = checked("openspiel/g9-v0", True, notes="strong_beats_random: not decided")
    assert values(bench.check_figures(rows))["openspiel_games_decided"] == 8


def test_nothing_measured_misses_every_goal(bench):
    figures = {
        **bench.stepping_figures([]),
        **bench.text_figures([]),
        **bench.opponent_figures([]),
        **bench.start_figures([]),
        **bench.check_figures([]),
    }
    held = {name for name, holds in verdicts(figures).items() if holds}
    assert held == {name for name, figure in figures.items() if not figure.goal}


def test_a_driver_answers_with_rows_and_a_broken_one_with_none(runner, tmp_path, capsys):
    pytest.importorskip("pyspiel")
    effort = runner.Effort(
        games=("tic_tac_toe",), batches=(1, 3), num_repeats=2, min_s=0.001, num_checked=1
    )
    rows = runner.run_driver(sys.executable, "openspiel", effort.flags(), cores=1)
    assert {(r["peer"], r["version"], r["cores"]) for r in rows} == {("openspiel", "2.0.2", 1)}
    assert [(r["batch"], r["observed"]) for r in rows] == [
        (1, False), (1, True), (3, False), (3, True)
    ]  # fmt: skip
    assert all(r["moves_per_s"] > 1000 for r in rows)
    assert runner.run_driver(sys.executable, "openspiel", ["--games", "no_game"], cores=1) == []
    assert "openspiel failed" in capsys.readouterr().err


def test_a_driver_that_takes_too_long_is_a_failed_one(runner, capsys):
    rows = runner.run_driver(sys.executable, "earl_start", [], cores=1, timeout_s=0.01)
    assert rows == []
    assert "earl_start was given up after 0.01 s" in capsys.readouterr().err


def test_drivers_run_on_the_cores_that_there_are(runner):
    cores = runner.num_cores()
    assert cores >= 1
    with pytest.raises(ValueError, match=f"needs {cores + 1} cores, this process may use {cores}"):
        runner.run_driver(sys.executable, "earl_start", [], cores=cores + 1)


def test_rates_are_moves_over_time_after_a_warm_up(load_tool, monkeypatch):
    driver = load_tool("peers.driver")
    now, calls = [0.0], []
    monkeypatch.setattr(driver.time, "perf_counter", lambda: now[0])

    def run(num_calls):
        calls.append(num_calls)
        now[0] += 0.001 * num_calls
        return 8 * num_calls

    options = driver.Options(games=(), batches=(), num_repeats=3, min_s=0.3, num_checked=1)
    assert driver.rates(run, options) == pytest.approx([8000.0] * 3)
    assert calls[:6] == [1, 2, 4, 8, 16, 32]
    assert set(calls[6:]) == {32}


def test_a_summary_is_the_median_and_the_range(load_tool):
    summary = load_tool("peers.driver").summary([1.0, 4.0, 2.0])
    assert summary == {"moves_per_s": 2.0, "spread": 1.5}


def test_the_import_is_timed_in_fresh_interpreters(runner):
    times = runner.import_times(2)
    assert len(times) == 2
    assert all(0.001 < seconds < 10 for seconds in times)
