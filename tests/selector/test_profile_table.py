import json
from dataclasses import replace

import pytest
from earl_selector import ProfileGrid, ProfilePoint, ProfileSubject, ProfileTable
from hypothesis import given
from hypothesis import strategies as st

SUBJECT = ProfileSubject(model="tiny", device="cpu", engine="embedded 1.0")
GRID = ProfileGrid(degrees=(1, 2), num_responses=(8, 16), context_tokens=(256, 512, 1024))
EMPTY = ProfileTable(subject=SUBJECT, grid=GRID)


def point(tp=1, num_responses=8, context_tokens=256, speed=90.0):
    return ProfilePoint(
        tp=tp,
        num_responses=num_responses,
        context_tokens=context_tokens,
        tokens_per_s_per_device=speed,
    )


def test_nothing_measured_leaves_the_whole_grid_one_degree_after_the_other():
    assert len(EMPTY.missing()) == 12
    assert EMPTY.missing()[0] == (1, 8, 256)
    assert [key[0] for key in EMPTY.missing()] == [1] * 6 + [2] * 6


@given(st.sets(st.sampled_from(sorted(GRID))), st.floats(0.0, 1e6))
def test_measuring_resumes_from_the_file_with_what_is_missing(tmp_path_factory, measured, speed):
    path = tmp_path_factory.mktemp("profile") / "profile.json"
    table = replace(EMPTY, switch_s=2.5)
    for key in measured:
        table = table.add(point(*key, speed))
    table.save(path)
    loaded = ProfileTable.load(path)
    assert loaded == table
    assert set(loaded.missing()) == set(GRID) - measured


def test_saving_replaces_the_file_and_leaves_nothing_else(tmp_path):
    path = tmp_path / "profile.json"
    EMPTY.save(path)
    EMPTY.add(point()).save(path)
    assert ProfileTable.load(path).points == (point(),)
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize(
    ("wanted", "message"),
    [
        ({"model": "large"}, "measured for model 'tiny', this run has 'large': measure again"),
        ({"device": "h100"}, "measured for device 'cpu', this run has 'h100': measure again"),
        ({"engine": "embedded 2.0"}, "measured for engine 'embedded 1.0', this run has 'embedded"),
    ],
)
def test_foreign_or_stale_profile_is_refused(wanted, message):
    EMPTY.check_subject(SUBJECT)
    with pytest.raises(ValueError, match=message):
        EMPTY.check_subject(replace(SUBJECT, **wanted))


@pytest.mark.parametrize(
    ("axes", "message"),
    [
        ({"degrees": ()}, "degrees of a profile's grid must not be empty"),
        ({"num_responses": (16, 8)}, r"num_responses .* must rise from >= 1, got \(16, 8\)"),
        ({"context_tokens": (0, 8)}, r"context_tokens .* must rise from >= 1, got \(0, 8\)"),
        ({"context_tokens": (8, 8)}, r"context_tokens .* must rise from >= 1, got \(8, 8\)"),
    ],
)
def test_empty_or_unordered_grid_is_refused(axes, message):
    with pytest.raises(ValueError, match=message):
        replace(GRID, **axes)


def test_nameless_subject_is_refused():
    with pytest.raises(ValueError, match="a profile needs a model, a device and an engine"):
        replace(SUBJECT, engine="")


@pytest.mark.parametrize("speed", [-1.0, float("nan"), float("inf")])
def test_speed_that_cannot_be_is_refused(speed):
    with pytest.raises(ValueError, match=f"must be finite and >= 0, got {speed}"):
        point(speed=speed)


def test_point_off_the_grid_or_measured_twice_is_refused():
    with pytest.raises(ValueError, match=r"\(4, 8, 256\) is not on the grid"):
        EMPTY.add(point(tp=4))
    with pytest.raises(ValueError, match="each point once"):
        EMPTY.add(point()).add(point(speed=3.0))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("not json", "is not a profile"),
        ("[]", "is not a profile"),
        ("{}", "is not a profile: 'format_version'"),
        (json.dumps({"format_version": 1}), "is not a profile: 'subject'"),
        (json.dumps({"format_version": 9}), "format version 9, this release reads 1: measure"),
    ],
)
def test_file_that_is_no_profile_of_this_format_is_refused(tmp_path, text, message):
    path = tmp_path / "profile.json"
    path.write_text(text)
    with pytest.raises(ValueError, match=message):
        ProfileTable.load(path)
