"""Everything measured about asynchronous training in one run."""

import json


def test_every_part_that_is_named_can_be_measured_and_one_is_kept_while_another_is(
    load_tool, monkeypatch, tmp_path
):
    tool, section, figure = (
        load_tool("bench_async"),
        load_tool("bench_section").Section,
        load_tool("benchmarking").Figure,
    )
    assert list(tool.find_measures(tool.SUBJECT, tool.NAMES)) == list(tool.NAMES)

    def measure_as(value):
        figures = {"value": figure(value=value, unit="", goal="")}
        return lambda quick: section(figures=figures, rows=[{"quick": quick}])

    measures = {name: measure_as(place) for place, name in enumerate(tool.NAMES)}
    monkeypatch.setattr(tool, "find_measures", lambda subject, names: measures)
    monkeypatch.setattr(tool, "draw_async", lambda rows, target: None)
    target = tmp_path / "async.json"
    tool.main(["--out", str(target)])
    measures["packing"] = measure_as(9.0)
    tool.main(["--only", "packing", "--quick", "--out", str(target)])
    stored = json.loads(target.read_text())
    assert {name: each["value"] for name, each in stored["figures"].items()} == {
        "simulator_value": 0,
        "packing_value": 9.0,
        "generation_value": 2,
        "publication_value": 3,
        "staleness_value": 4,
        "throughput_value": 5,
    }
    assert [row["quick"] for row in stored["rows"]] == [False, True, False, False, False, False]
