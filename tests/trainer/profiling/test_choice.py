"""Which table a run goes by, and when one is measured."""

from dataclasses import replace

import pytest
from earl_selector import ProfileTable
from earl_trainer.config import SelectorConfig
from earl_trainer.profiling.choice import PROFILE_FILE, find_or_measure
from earl_trainer.profiling.grid import DegreeLoad, RunLoad
from earl_trainer.profiling.setup import ProfileSetup
from earl_trainer.profiling.store import profile_path


class Flat:
    """Assumes the same speed everywhere."""

    def tokens_per_s_per_device(self, tp, num_responses, context_tokens):
        return 1.0


@pytest.fixture(autouse=True)
def cache(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache" / "earl" / "profiles"


@pytest.fixture
def make_setup(timed_engine, make_meter, make_table):
    """A setup for engines that gain nothing from a second device."""

    def make(*, degrees=(1, 2), device="cpu", speed=lambda tp, responses: 100.0 * responses):
        return ProfileSetup(
            meter=make_meter(timed_engine(speed)),
            subject=replace(make_table().subject, device=device),
            load=RunLoad(
                degrees=tuple(
                    DegreeLoad(tp=tp, num_responses=4, capacity_tokens=10**6) for tp in degrees
                ),
                max_context_tokens=60,
                max_reply_tokens=4,
            ),
            prior=Flat(),
        )

    return make


def num_batches(setup):
    return len(setup.meter.engine.batches)


def test_the_first_run_measures_the_next_one_finds_it(make_setup, tmp_path, cache):
    first = make_setup()
    config = SelectorConfig(profile_s=1e9)
    measured = find_or_measure(config, first, folder=tmp_path)
    (path,) = cache.iterdir()
    assert measured.throughput.tokens_per_s_per_device(1, 4, 60) == pytest.approx(400.0)
    assert measured.throughput.tokens_per_s_per_device(2, 4, 60) == pytest.approx(200.0)
    assert measured.switch_s == pytest.approx(2.0)
    assert measured.note.startswith("speed by degree: measured at 18 loads in ")
    assert measured.note.endswith(f" s, kept in {path}")

    second = make_setup()
    found = find_or_measure(config, second, folder=tmp_path)
    assert found.table == measured.table
    assert found.note == f"speed by degree: {path}"
    assert num_batches(second) == 0


def test_the_time_is_kept_to(make_setup, tmp_path):
    setup = make_setup()
    chosen = find_or_measure(SelectorConfig(profile_s=1e-3), setup, folder=tmp_path)
    assert [point.key for point in chosen.table.points] == [(1, 1, 15), (2, 1, 15)]
    assert chosen.throughput.tokens_per_s_per_device(2, 4, 60) == pytest.approx(50.0)


def test_what_was_interrupted_is_gone_on_with(make_setup, tmp_path):
    class StoppedError(Exception):
        pass

    def speed(tp, responses):
        if tp == 2:
            raise StoppedError
        return 100.0 * responses

    config = SelectorConfig(profile_s=1e9)
    with pytest.raises(StoppedError):
        find_or_measure(config, make_setup(speed=speed), folder=tmp_path)
    setup = make_setup()
    chosen = find_or_measure(config, setup, folder=tmp_path)
    assert len(chosen.table.points) == 18
    assert num_batches(setup) < 9 * 4 + 10


def test_a_run_keeps_its_table_whatever_the_cache_says_later(make_setup, tmp_path, cache):
    config, setup = SelectorConfig(profile_s=1e-3), make_setup()
    chosen = find_or_measure(config, setup, folder=tmp_path)
    chosen.keep(tmp_path)
    assert ProfileTable.load(tmp_path / PROFILE_FILE) == chosen.table
    replace(chosen.table, switch_s=77.0).save(profile_path(setup.subject, setup.load))

    resumed = find_or_measure(config, setup, folder=tmp_path)
    assert resumed.switch_s == pytest.approx(2.0)
    assert resumed.note == f"speed by degree: {tmp_path / PROFILE_FILE}"
    # On another machine the cache and the folder say nothing.
    elsewhere = make_setup(device="h100")
    assert "measured at" in find_or_measure(config, elsewhere, folder=tmp_path).note


def test_one_degree_leaves_nothing_to_choose_and_none_asks_for_nothing(make_setup, tmp_path):
    for config, degrees in (
        (SelectorConfig(), (1,)),
        (SelectorConfig(profile="none"), (1, 2)),
    ):
        setup = make_setup(degrees=degrees)
        chosen = find_or_measure(config, setup, folder=tmp_path)
        assert chosen.throughput is chosen.table is chosen.note is None
        assert chosen.switch_s == 0.0
        assert num_batches(setup) == 0
        chosen.keep(tmp_path / "no folder")


def test_a_file_that_is_named_is_taken_or_refused(make_setup, tmp_path):
    setup, path = make_setup(), tmp_path / "mine.json"
    config = SelectorConfig(profile=str(path))
    with pytest.raises(ValueError, match="cannot read the profile"):
        find_or_measure(config, setup, folder=tmp_path)
    table = find_or_measure(SelectorConfig(), setup, folder=tmp_path).table
    table.save(path)
    before = num_batches(setup)
    chosen = find_or_measure(config, setup, folder=tmp_path)
    assert chosen.table == table
    assert num_batches(setup) == before

    for setup, message in (
        (make_setup(device="h100"), "measured for device 'cpu', this run has 'h100'"),
        (make_setup(degrees=(1, 2, 4)), "every degree that may be chosen, 1, 2, 4: it holds 1, 2"),
    ):
        with pytest.raises(ValueError, match=f"^{path}: .*{message}"):
            find_or_measure(config, setup, folder=tmp_path)


def test_a_table_of_nothing_but_refusals_says_nothing(make_setup, tmp_path):
    table = find_or_measure(SelectorConfig(), make_setup(), folder=tmp_path).table
    points = tuple(replace(point, tokens_per_s_per_device=0.0) for point in table.points)
    path = tmp_path / "mine.json"
    replace(table, points=points).save(path)
    with pytest.raises(ValueError, match=f"^{path}: a profile without any point that ran"):
        find_or_measure(SelectorConfig(profile=str(path)), make_setup(), folder=tmp_path)


def test_a_broken_file_in_the_cache_is_measured_anew(make_setup, tmp_path, cache):
    cache.mkdir(parents=True)
    setup = make_setup()
    path = profile_path(setup.subject, setup.load)
    path.write_text("{")
    chosen = find_or_measure(SelectorConfig(), setup, folder=tmp_path)
    assert ProfileTable.load(path) == chosen.table


def test_without_a_place_for_the_cache_a_run_measures_all_the_same(make_setup, tmp_path, cache):
    cache.parent.parent.write_text("a file where a folder should be")
    chosen = find_or_measure(SelectorConfig(), make_setup(), folder=tmp_path)
    assert chosen.table.points
    assert chosen.note.endswith("s, not cached (Not a directory)")
