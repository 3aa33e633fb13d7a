"""Series of episodes, one a seed."""

from typing import Any

import gymnasium
import pytest
from earl_envs.faces.episode import EpisodeKey
from earl_envs.faces.series import SeriesEnv


class Keys(SeriesEnv[str, int]):
    """Observes which episode it is."""

    observation_space = gymnasium.spaces.Text(1)
    action_space = gymnasium.spaces.Discrete(1)

    def _begin(self, key: EpisodeKey) -> tuple[str, dict[str, Any]]:
        return f"{key.seed}/{key.episode}", {}


def test_a_seed_begins_a_series_and_no_seed_continues_it():
    env = Keys(render_mode=None)
    told = [env.reset(seed=seed)[0] for seed in (5, None, None, 7, None, 5)]
    assert told == ["5/0", "5/1", "5/2", "7/0", "7/1", "5/0"]
    assert env.np_random_seed == 5


def test_without_any_seed_series_differ_and_start_from_the_seed_that_gymnasium_names():
    envs = [Keys(render_mode="ansi") for _ in range(2)]
    told = [env.reset()[0] for env in envs]
    assert told[0] != told[1]
    assert told == [f"{env.np_random_seed}/0" for env in envs]
    assert envs[0].reset()[0] == told[0].replace("/0", "/1")


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: Keys(render_mode="human"), "unknown render mode"),
        (lambda: Keys(render_mode=None).reset(seed=-1), "seed must be >= 0, got -1"),
        (lambda: Keys(render_mode=None).reset(options={"speed": 1}), "no option 'speed'"),
    ],
)
def test_wrong_arguments_are_refused(call, message):
    with pytest.raises(ValueError, match=message):
        call()
