import json
import math
from dataclasses import fields
from pathlib import Path

import pytest
import torch
from earl_trainer.algorithms.trajectories import (
    Discounts,
    Trajectories,
    gae,
    reward_to_go,
    vtrace,
)
from hypothesis import given, settings
from hypothesis import strategies as st


def trajectory(rewards, *, values=None, last_value=0.0, ratios=None, turns=None, padding=0):
    """One episode, with so many steps of padding full of nonsense behind it."""

    def row(numbers, filler):
        return torch.tensor([[*numbers, *[filler] * padding]])

    steps = len(rewards)
    return Trajectories(
        rewards=row(rewards, 50.0),
        values=row(values or [0.0] * steps, 100.0),
        last_values=torch.tensor([last_value]),
        log_ratios=row([math.log(ratio) for ratio in ratios or [1.0] * steps], 3.0),
        turns=row(turns or [0] * steps, 0),
        mask=row([True] * steps, False),
    )


def test_the_reward_of_the_last_token_reaches_every_token():
    estimates = reward_to_go(trajectory([0.0, 0.0, -1.5]), Discounts())
    assert estimates.advantages.tolist() == [[-1.5, -1.5, -1.5]]


def test_rewards_to_go_are_discounted_per_step():
    estimates = reward_to_go(trajectory([1.0, -2.0, 4.0]), Discounts(gamma=0.5))
    assert estimates.advantages.tolist() == [[1.0 - 1.0 + 1.0, -2.0 + 2.0, 4.0]]


def test_gae_equals_the_recursion_done_by_hand():
    steps = trajectory([0.0, 0.0, 1.0], values=[0.5, 0.2, 0.4])
    estimates = gae(steps, Discounts(gamma=0.9, trace_decay=0.8))
    last = 1.0 - 0.4
    middle = 0.9 * 0.4 - 0.2 + 0.72 * last
    first = 0.9 * 0.2 - 0.5 + 0.72 * middle
    assert estimates.advantages[0].tolist() == pytest.approx([first, middle, last], abs=1e-6)
    assert estimates.returns[0].tolist() == pytest.approx(
        [first + 0.5, middle + 0.2, 1.0], abs=1e-6
    )


def test_a_cut_episode_bootstraps_from_behind_its_last_token():
    # Terminated: 1 - V. Cut: 1 + gamma V(s_T) - V, and not the value of the last token.
    values = [0.5, 0.25]
    ended = gae(trajectory([0.0, 1.0], values=values), Discounts(gamma=0.9))
    cut = gae(trajectory([0.0, 1.0], values=values, last_value=2.0), Discounts(gamma=0.9))
    assert ended.advantages[0, 1].item() == pytest.approx(0.75)
    assert cut.advantages[0, 1].item() == pytest.approx(0.75 + 0.9 * 2.0)
    assert cut.returns[0, 0].item() == pytest.approx(0.9 * (1.0 + 0.9 * 2.0))


class Counter:
    """Counts to 5 and is cut by a time limit after 3 steps; its reward is the new count.

    Observations are counts, so that the critic V(s) = 10 + s tells which one it was shown.
    """

    def __init__(self, mode):
        self.mode, self.count, self.steps, self.resets = mode, 0, 0, False

    def step(self):
        """Return observation, reward, truncated and the final observation, if any, as Gymnasium.

        `same-step` resets in the step that ends an episode; `next-step` takes no action in the one
        behind it, whose observation is the new start and whose reward is 0.
        """
        if self.resets:
            self.resets, self.count, self.steps = False, 0, 0
            return 0, 0.0, False, None
        self.count, self.steps = self.count + 1, self.steps + 1
        reward, cut = float(self.count), self.steps == 3
        if not cut:
            return self.count, reward, False, None
        final = self.count
        if self.mode == "next-step":
            self.resets = True
            return final, reward, True, final
        self.count = self.steps = 0
        return 0, reward, True, final


def critic(observation):
    return 10.0 + observation


@pytest.mark.parametrize("mode", ["same-step", "next-step"])
def test_a_time_limit_bootstraps_from_the_final_observation_in_both_modes_of_autoreset(mode):
    env, seen, episodes, current = Counter(mode), 0, [], []
    while len(episodes) < 2:
        resets = env.resets
        observation, reward, cut, final = env.step()
        if not resets:  # The step of the autoreset has no action: it is in no trajectory.
            current.append((critic(seen), reward))
        if cut:
            episodes.append((current, critic(final)))
            current = []
        seen = observation
    rows = [
        trajectory(
            [reward for _, reward in steps],
            values=[value for value, _ in steps],
            last_value=last_value,
            padding=1,
        )
        for steps, last_value in episodes
    ]
    joined = Trajectories(**{
        field.name: torch.cat([getattr(row, field.name) for row in rows])
        for field in fields(Trajectories)
    })
    estimates = gae(joined, Discounts(gamma=0.5, trace_decay=1.0))
    # V(3) = 13 behind the third reward, and not V(0) = 10 of the reset: 3 + 0.5 * 13 = 9.5, then
    # 2 + 0.5 * 9.5 = 6.75 and 1 + 0.5 * 6.75 = 4.375. The second episode is the first again.
    assert joined.values[:, :3].tolist() == [[10.0, 11.0, 12.0]] * 2
    assert estimates.returns[:, :3].tolist() == [[4.375, 6.75, 9.5]] * 2
    advantages = [4.375 - 10.0, 6.75 - 11.0, 9.5 - 12.0]
    assert estimates.advantages[:, :3].tolist() == [advantages] * 2


def test_by_turn_a_reply_is_one_step_and_its_tokens_share_what_it_gets():
    steps = trajectory(
        [0.0, 0.5, 0.0, 0.0, 1.0], values=[0.4, 9.0, 0.2, 9.0, 9.0], turns=[0, 0, 1, 1, 1]
    )
    estimates = gae(steps, Discounts(gamma=0.9, trace_decay=0.8, by_turn=True))
    second = 1.0 - 0.2
    first = 0.5 + 0.9 * 0.2 - 0.4 + 0.72 * second
    assert estimates.advantages[0].tolist() == pytest.approx([first] * 2 + [second] * 3, abs=1e-6)
    assert estimates.returns[0].tolist() == pytest.approx([first + 0.4] * 2 + [1.0] * 3, abs=1e-6)


def test_by_turn_equals_by_token_where_replies_are_tokens():
    steps = trajectory([0.1, 0.2, 1.0], values=[0.5, 0.2, 0.4], turns=[0, 1, 2], last_value=0.3)
    by_token = gae(steps, Discounts(gamma=0.9, trace_decay=0.8))
    by_turn = gae(steps, Discounts(gamma=0.9, trace_decay=0.8, by_turn=True))
    assert torch.allclose(by_token.advantages, by_turn.advantages)
    assert torch.allclose(by_token.returns, by_turn.returns)


def test_vtrace_equals_the_recursion_done_by_hand():
    ratios = [0.5, 3.0]
    steps = trajectory([1.0, 2.0], values=[0.3, 0.7], ratios=ratios, last_value=0.9)
    estimates = vtrace(steps, Discounts(gamma=0.9, trace_decay=0.8, max_trace=2.0))
    # rho = 0.5 and 2, c = 0.8 x 0.5 and 0.8 x 1.
    last = 0.7 + 2.0 * (2.0 + 0.9 * 0.9 - 0.7)
    first = 0.3 + 0.5 * (1.0 + 0.9 * 0.7 - 0.3) + 0.9 * 0.4 * (last - 0.7)
    ahead = 0.8 * last + 0.2 * 0.7
    assert estimates.returns[0].tolist() == pytest.approx([first, last], abs=1e-6)
    assert estimates.advantages[0].tolist() == pytest.approx(
        [0.5 * (1.0 + 0.9 * ahead - 0.3), 2.0 * (2.0 + 0.9 * 0.9 - 0.7)], abs=1e-6
    )


numbers = st.floats(-2.0, 2.0, width=32)
rollouts = st.lists(st.tuples(numbers, numbers), min_size=1, max_size=8)


@settings(derandomize=True, max_examples=60, deadline=None)
@given(rollout=rollouts, last_value=numbers)
def test_on_policy_vtrace_targets_are_the_returns(rollout, last_value):
    rewards, values = map(list, zip(*rollout, strict=True))
    steps = trajectory(rewards, values=values, last_value=last_value)
    expected, targets = last_value, []
    for reward in reversed(rewards):
        expected = reward + 0.9 * expected
        targets.insert(0, expected)
    returns = vtrace(steps, Discounts(gamma=0.9)).returns
    assert returns[0].tolist() == pytest.approx(targets, abs=1e-4)
    assert gae(steps, Discounts(gamma=0.9)).returns[0].tolist() == pytest.approx(targets, abs=1e-4)


@settings(derandomize=True, max_examples=60, deadline=None)
@given(rollout=rollouts, padding=st.integers(1, 4), by_turn=st.booleans())
@pytest.mark.parametrize("along", [reward_to_go, gae, vtrace])
def test_what_stands_behind_an_episode_changes_nothing(along, rollout, padding, by_turn):
    rewards, values = map(list, zip(*rollout, strict=True))
    turns = [place // 2 for place in range(len(rewards))]
    discounts = Discounts(gamma=0.9, trace_decay=0.7, by_turn=by_turn)
    alone = along(trajectory(rewards, values=values, turns=turns), discounts)
    padded = along(trajectory(rewards, values=values, turns=turns, padding=padding), discounts)
    for name in ("advantages", "returns"):
        kept = getattr(padded, name)[:, : len(rewards)]
        assert torch.equal(kept, getattr(alone, name))


def golden(library):
    """The trajectory that another library was given, the constants, and what it made of it."""
    found = json.loads((Path(__file__).parent / "golden" / f"{library}.json").read_text())
    inputs = found["inputs"]
    *values, last_value = inputs["values"]
    steps = trajectory(
        inputs["rewards"],
        values=values,
        last_value=last_value,
        ratios=[math.exp(value) for value in inputs["log_ratios"]],
        padding=2,
    )
    return steps, found["constants"], found["outputs"]


def close(actual, expected):
    return actual[0, : len(expected)].tolist() == pytest.approx(expected, abs=1e-5)


@pytest.mark.parametrize("library", ["rlax", "torchrl"])
def test_gae_is_that_of_other_libraries(library):
    steps, constants, expected = golden(library)
    discounts = Discounts(gamma=constants["gamma"], trace_decay=constants["trace_decay"])
    estimates = gae(steps, discounts)
    assert close(estimates.advantages, expected["gae"])
    returns = [a + v for a, v in zip(expected["gae"], steps.values[0].tolist(), strict=False)]
    assert close(estimates.returns, expected.get("gae_returns", returns))


@pytest.mark.parametrize("library", ["rlax", "torchrl"])
def test_vtrace_is_that_of_other_libraries(library):
    steps, constants, expected = golden(library)
    # torchrl has neither a lambda nor, here, another bound than 1.
    tuned = library == "rlax"
    discounts = Discounts(
        gamma=constants["gamma"],
        trace_decay=constants["trace_decay"] if tuned else 1.0,
        max_trace=constants["max_trace"] if tuned else 1.0,
    )
    estimates = vtrace(steps, discounts)
    assert close(estimates.returns, expected["vtrace_targets"])
    assert close(estimates.advantages, expected["vtrace_advantages"])
