from collections import Counter

import pytest
from earl_trainer.preference.collection import DataCollection, PlayedCollection, places_of_step
from earl_trainer.preference.lines import Line, demonstration_columns
from earl_trainer.rollout.collection import RolloutRequest
from earl_trainer.rollout.collector import Rollout
from earl_trainer.types import RunFailedError
from earl_trainer.workers.team import Team
from hypothesis import given, settings
from hypothesis import strategies as st


def line(token):
    return Line(token_ids=(0, token), trained=(False, True), num_prompt=1)


def collection(team, *, num_examples=6, per_step=4):
    return DataCollection(
        [line(token) for token in range(1, num_examples + 1)],
        lambda part, step: demonstration_columns(part),
        per_step=per_step,
        first_step=10,
        seed=0,
        team=team,
        wanted="demonstrations",
    )


def tokens(source, step):
    rollout = source.collect(RolloutRequest(step=step))
    return rollout.samples.per_token["token_ids"][1::2].tolist()


@settings(derandomize=True, max_examples=60, deadline=None)
@given(num_examples=st.integers(1, 20), per_step=st.integers(1, 30), seed=st.integers(0, 5))
def test_every_pass_takes_every_example_once(num_examples, per_step, seed):
    steps = -(-num_examples * 3 // per_step)
    taken = [
        place
        for step in range(steps)
        for place in places_of_step(num_examples, step, per_step=per_step, seed=seed)
    ]
    for epoch in range(3):
        part = taken[epoch * num_examples : (epoch + 1) * num_examples]
        assert sorted(part) == list(range(num_examples))


def test_passes_and_seeds_are_shuffled_differently():
    orders = [places_of_step(8, step, per_step=8, seed=seed) for step in (0, 1) for seed in (0, 1)]
    assert len({tuple(order) for order in orders}) == 4


def test_a_step_takes_the_same_examples_whatever_came_before():
    once, again = collection(Team()), collection(Team())
    tokens(once, 10)
    assert tokens(once, 11) == tokens(again, 11)
    assert Counter(tokens(once, 10) + tokens(once, 11) + tokens(once, 12)) == Counter(
        dict.fromkeys(range(1, 7), 2)
    )


def test_workers_take_the_parts_of_a_step():
    whole = tokens(collection(Team()), 10)
    parts = [tokens(collection(Team(rank=rank, num_rollout_workers=2)), 10) for rank in range(2)]
    assert parts[0] + parts[1] == whole
    assert len(parts[0]) == 2


class Games:
    """A collection that has always played the same."""

    def __init__(self):
        self.takes_starts = True
        self.figures = {"reward/wait_s": 1.0}
        self.closed = False

    def collect(self, request):
        return Rollout(episodes=[], peak_resident_tokens=request.step)

    def publish(self, model, version):
        raise AssertionError("nobody was to publish")

    def to_dict(self):
        return {"under": "way"}

    def close(self):
        self.closed = True


def played(build, games=None):
    return PlayedCollection(games or Games(), build, team=Team(), wanted="pairs")


def test_games_bring_their_samples_with_them():
    games = Games()
    source = played(lambda rollout, step: demonstration_columns([line(step)] * 3), games)
    assert tokens(source, 7) == [7, 7, 7]
    assert source.figures == {"reward/wait_s": 1.0, "preference/rows": 3.0}
    assert source.to_dict() == {"under": "way"}
    source.close()
    assert games.closed


def test_several_steps_in_a_row_with_nothing_to_learn_from_end_the_run():
    source = played(lambda rollout, step: demonstration_columns([line(1)] * (step == 4)))
    for step in range(9):
        tokens(source, step)
    with pytest.raises(RunFailedError, match="in 5 steps in a row: no pairs"):
        tokens(source, 9)
