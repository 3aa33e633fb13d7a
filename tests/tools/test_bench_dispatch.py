"""From measured transfers to figures."""

import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

TOOLS = Path(__file__).parents[2] / "tools"
HEADERS = 66


@pytest.fixture
def bench(load_tool):
    return load_tool("bench_dispatch")


@pytest.fixture
def measured(bench, load_tool):
    """Make the measurements of all transports: floors of 1 s for the direct one, times as given."""
    traffic = load_tool("emulated_hosts").Traffic

    def make(*, num_hosts=4, over=None, extra_bytes=0):
        batch = load_tool("dispatch_ranks").Batch(num_hosts=num_hosts, tokens_per_row=8)
        floors = {
            "all_to_all": 1.0,
            "gather_scatter": 2.0 * num_hosts,
            "pipelined": 1.0 * num_hosts,
            "ray_store": 2.0 * num_hosts,
        }
        made = []
        for transport, floor_s in floors.items():
            planned = bench.planned_bytes(batch.plan, transport)
            count = lambda size: traffic(  # noqa: E731
                num_bytes=size + extra_bytes + 3 * HEADERS, num_packets=3
            )
            made.append(
                bench.Measured(
                    batch=batch,
                    transport=transport,
                    times_s=[9 * floor_s, (over or {}).get(transport, 1.0) * floor_s, 0.0],
                    floor_s=floor_s,
                    planned=planned,
                    counted=[(count(sent), count(received)) for sent, received in planned],
                )
            )
        return made

    return make


def test_transfers_at_their_floors_reach_what_the_topology_allows(bench, measured):
    figures = bench.network_figures([*measured(), *measured(num_hosts=16)])
    assert figures["hosts_4_all_to_all_over_floor"].value == 1.0
    assert figures["hosts_4_ratio_to_gather_scatter"].value == 8.0
    assert figures["hosts_4_ratio_to_pipelined"].value == 4.0
    assert figures["hosts_16_ratio_to_gather_scatter"].goal == ">= 25.6"
    assert figures["beyond_the_paper"].value == 32.0
    assert figures["hosts_16_bytes_off_plan"].value == 0.0
    assert all(figure.to_dict()["holds"] for figure in figures.values())


@pytest.mark.parametrize(
    ("change", "missed"),
    [
        (
            {"over": {"all_to_all": 1.3}},
            {"hosts_4_all_to_all_over_floor", "hosts_4_ratio_to_gather_scatter",
             "hosts_4_ratio_to_pipelined", "hosts_4_ratio_to_ray_store"},
        ),
        ({"over": {"pipelined": 1.3}}, {"hosts_4_pipelined_over_floor"}),
        ({"over": {"gather_scatter": 1.3}}, {"hosts_4_gather_scatter_over_floor"}),
        ({"extra_bytes": 100}, {"hosts_4_bytes_off_plan"}),
    ],
)  # fmt: skip
def test_the_worst_batch_decides(bench, measured, change, missed):
    figures = bench.network_figures([*measured(), *measured(**change)][4:])
    assert {name for name, figure in figures.items() if not figure.to_dict()["holds"]} == missed


def test_how_long_ray_takes_is_not_judged_nor_what_else_it_sends(bench, measured):
    extra = [each for each in measured(extra_bytes=10**6) if each.transport == bench.RAY]
    figures = bench.network_figures([*measured(over={"ray_store": 3.0})[:3], *extra])
    assert figures["hosts_4_ratio_to_ray_store"].value == 8.0
    assert figures["hosts_4_bytes_off_plan"].value == 0.0
    assert "hosts_4_ray_store_over_floor" not in figures
    without = bench.network_figures(measured()[:3])
    assert "hosts_4_ratio_to_ray_store" not in without


def test_a_controller_takes_in_and_gives_out_all_but_its_own(bench, load_tool):
    batch = load_tool("dispatch_ranks").Batch(num_hosts=4, tokens_per_row=8)
    quarter = batch.total_bytes // 4
    assert bench.planned_bytes(batch.plan, "pipelined") == [
        (3 * quarter, 3 * quarter), *[(quarter, quarter)] * 3,
    ]  # fmt: skip
    assert bench.planned_bytes(batch.plan, "all_to_all") == [(quarter * 3 // 4,) * 2] * 4


def test_a_quick_run_does_not_replace_what_is_stored():
    done = subprocess.run(
        [sys.executable, TOOLS / "bench_dispatch.py", "--quick"],
        check=False, capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    assert done.returncode == 2
    assert "--quick needs --out" in done.stderr


def be_terminated(bench, cleaned):
    with bench.ends_by_exception():
        try:
            os.kill(os.getpid(), signal.SIGTERM)
        finally:
            cleaned.append(True)


def test_a_termination_signal_cleans_up(bench):
    cleaned = []
    with pytest.raises(SystemExit) as left:
        be_terminated(bench, cleaned)
    assert (left.value.code, cleaned) == (128 + signal.SIGTERM, [True])


@pytest.mark.slow
@pytest.mark.skipif(os.geteuid() != 0 or not shutil.which("tc"), reason="needs root and iproute2")
def test_a_quick_run_stores_figures_rows_and_a_picture(bench, tmp_path, monkeypatch):
    case = bench.Case(
        num_hosts=(2,),
        tokens_per_row=(128, 256),
        bits_per_s=8_000_000,
        copy_bytes=200_000,
        memory_tokens_per_row=256,
        ray_max_hosts=0,
    )
    monkeypatch.setattr(bench, "plan_figures", lambda **sizes: {})
    figures, rows = bench.run(case, tmp_path / "times.png")
    bench.report(figures, rows, target=tmp_path / "dispatch.json")
    stored = json.loads((tmp_path / "dispatch.json").read_text())
    assert {"hosts_2_plain_copy", "hosts_2_bytes_off_plan", "one_host_ratio"} < set(
        stored["figures"]
    )
    assert len(stored["rows"]) == 2 * 3
    assert (tmp_path / "times.png").stat().st_size > 1000
