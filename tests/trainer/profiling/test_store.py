"""Where profiles lie, and which are refused."""

from dataclasses import replace
from pathlib import Path

import pytest
from earl_selector import ProfileGrid, ProfilePoint
from earl_trainer.profiling.grid import DegreeLoad, RunLoad
from earl_trainer.profiling.store import check_answers, open_table, profile_path, read_table


def run_load(*degrees):
    return RunLoad(
        degrees=tuple(DegreeLoad(tp=tp, num_responses=4, capacity_tokens=99) for tp in degrees),
        max_context_tokens=64,
        max_reply_tokens=4,
    )


def point(tp, num_responses, context_tokens):
    return ProfilePoint(
        tp=tp,
        num_responses=num_responses,
        context_tokens=context_tokens,
        tokens_per_s_per_device=float(tp),
    )


@pytest.fixture
def subject(make_table):
    return replace(make_table().subject, model="Llama 0.8M float32")


def test_profiles_lie_in_the_users_cache_one_file_per_subject_and_load(
    monkeypatch, tmp_path, subject
):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    path = profile_path(subject, run_load(1, 2))
    assert path.parent == tmp_path / "earl" / "profiles"
    assert path.name.startswith("llama-0-8m-float32-")
    assert path.suffix == ".json"
    assert path == profile_path(subject, run_load(1, 2))
    others = {
        profile_path(subject, run_load(1)),
        profile_path(subject, replace(run_load(1, 2), max_context_tokens=65)),
        profile_path(replace(subject, device="other"), run_load(1, 2)),
    }
    assert len(others | {path}) == 4


@pytest.mark.parametrize("named", [None, "", "relative"])
def test_without_an_absolute_cache_folder_the_usual_one_is_taken(monkeypatch, subject, named):
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    if named is not None:
        monkeypatch.setenv("XDG_CACHE_HOME", named)
    monkeypatch.setenv("HOME", "/home/somebody")
    path = profile_path(subject, run_load(1))
    assert path.parent == Path("/home/somebody/.cache/earl/profiles")


def test_what_a_file_holds_of_a_grid_is_gone_on_with(tmp_path, make_table):
    path, table = tmp_path / "p.json", make_table()
    assert open_table(path, table.subject, table.grid) == table
    table = replace(table.add(point(1, 2, 32)).add(point(2, 4, 64)), switch_s=1.5)
    table.save(path)
    assert open_table(path, table.subject, table.grid) == table
    # Of another grid only the points on it; what a switch takes depends on the degrees.
    shifted = ProfileGrid(degrees=(1, 2), num_responses=(2, 8), context_tokens=(32,))
    opened = open_table(path, table.subject, shifted)
    assert (opened.grid, opened.points, opened.switch_s) == (shifted, table.points[:1], 1.5)
    single = replace(shifted, degrees=(1,))
    assert open_table(path, table.subject, single).switch_s is None


def test_a_foreign_broken_or_absent_file_is_refused_by_name(tmp_path, make_table):
    path, table = tmp_path / "p.json", make_table()
    table.save(path)
    with pytest.raises(ValueError, match=rf"^{path}: the profile was measured for device 'cpu', "):
        open_table(path, replace(table.subject, device="h100"), table.grid)
    path.write_text("[]")
    with pytest.raises(ValueError, match=rf"^{path} is not a profile: "):
        read_table(path, table.subject)
    with pytest.raises(ValueError, match=rf"^cannot read the profile '{tmp_path}/no.json': No su"):
        read_table(tmp_path / "no.json", table.subject)
    with pytest.raises(ValueError, match=rf"^cannot read the profile '{tmp_path}': Is a direc"):
        open_table(tmp_path, table.subject, table.grid)


def test_a_profile_must_know_every_degree_and_the_cost_of_a_change(make_table):
    table = make_table()
    with pytest.raises(ValueError, match=r"every degree that may be chosen, 1: it holds none$"):
        check_answers(table, run_load(1))
    table = table.add(point(1, 2, 32))
    check_answers(table, run_load(1))
    with pytest.raises(ValueError, match=r"every degree that may be chosen, 1, 2: it holds 1$"):
        check_answers(replace(table, switch_s=1.0), run_load(1, 2))
    table = table.add(point(2, 2, 32))
    with pytest.raises(ValueError, match="must hold what a change of degree takes: finish"):
        check_answers(table, run_load(1, 2))
    check_answers(replace(table, switch_s=1.0), run_load(1, 2))
