"""Rewards of replies stand where they fell, and add up to the score that an episode has anyhow."""

import pytest
import torch
from earl_dispatch import Columns
from earl_trainer.algorithms.advantages import Scores, divide_by_group_std
from earl_trainer.algorithms.table import ALGORITHMS
from earl_trainer.experience.reply_rewards import compare_replies, place_rewards
from earl_trainer.experience.trained_tokens import TrainedTokens
from hypothesis import given
from hypothesis import strategies as st

REWARD = st.floats(-10, 10, width=32)


def tokens_of(*rows):
    """Rows as (episode, mask)."""
    masks = [flag == "x" for _, mask in rows for flag in mask]
    return TrainedTokens.of(
        Columns(
            lengths=torch.tensor([len(mask) for _, mask in rows], dtype=torch.int64),
            per_token={"mask": torch.tensor(masks, dtype=torch.bool)},
            per_row={"episode": torch.tensor([episode for episode, _ in rows])},
        )
    )


def test_a_part_stands_on_the_last_token_of_its_reply_and_the_rest_at_the_end():
    # Three replies; the last one of the first episode is in a row of its own.
    trained = tokens_of((7, ".xx.x."), (7, ".xx"), (3, ".x..x.xx."))
    placed = place_rewards(torch.tensor([10.0, 1.0]), [[1.0, 2.0, 4.0], [0.5, 0.0, -3.0]], trained)
    assert placed.tolist() == [[0.0, 1.0, 2.0, 0.0, 7.0], [0.5, 0.0, 0.0, 0.5, 0.0]]


def test_without_parts_all_of_the_score_stands_at_the_end():
    trained = tokens_of((7, ".xx.x."), (3, ".x"), (5, "..."))
    placed = place_rewards(torch.tensor([10.0, 1.0, 2.0]), [[], [], []], trained)
    assert placed.tolist() == [[0.0, 0.0, 10.0], [1.0, 0.0, 0.0], [0.0, 0.0, 0.0]]


def test_where_a_reply_has_no_trained_token_all_of_the_score_stands_at_the_end():
    trained = tokens_of((7, ".xx.x."), (3, ".x.x"), (5, "..."))
    parts = [[1.0, 2.0, 4.0], [1.0, 2.0], [1.0]]
    placed = place_rewards(torch.tensor([10.0, 5.0, 2.0]), parts, trained)
    assert placed.tolist() == [[0.0, 0.0, 10.0], [1.0, 4.0, 0.0], [0.0, 0.0, 0.0]]


@st.composite
def episodes(draw):
    """Rows of trained tokens, a score for each episode, and parts that fit its replies or not."""
    rows, scores, parts = [], [], []
    for episode in range(draw(st.integers(1, 4))):
        replies = draw(st.lists(st.tuples(st.integers(1, 3), st.booleans()), min_size=1))
        mask = "."
        for length, starts_row in replies:
            if starts_row:
                rows.append((episode, mask))
                mask = "."
            mask += "x" * length + "."
        rows.append((episode, mask))
        scores.append(draw(REWARD))
        size = len(replies) if draw(st.booleans()) else draw(st.integers(0, 4))
        parts.append(draw(st.lists(REWARD, min_size=size, max_size=size)))
    return rows, scores, parts


@given(episodes=episodes())
def test_the_sum_over_an_episodes_tokens_is_its_score(episodes):
    rows, scores, parts = episodes
    placed = place_rewards(torch.tensor(scores), parts, tokens_of(*rows))
    assert placed.sum(1).tolist() == pytest.approx(scores, rel=1e-5, abs=1e-4)


def comparison(name, normalisation="none"):
    """Of six episodes in groups of three, two and one."""
    scores = Scores(
        rewards=torch.tensor([1.0, 0.0, 2.0, 5.0, 4.0, 3.0]),
        groups=torch.tensor([0, 0, 0, 1, 1, 2]),
        seats=torch.tensor([0, 0, 0, 1, 1, 1]),
        greedy=torch.tensor([False, True, False, False, False, True]),
        baselines=torch.tensor([0.25, -1.0]),
    )

    def compare(rewards):
        compared = ALGORITHMS[name].baseline(
            Scores(
                rewards=rewards,
                groups=scores.groups,
                seats=scores.seats,
                greedy=scores.greedy,
                baselines=scores.baselines,
            )
        )
        return divide_by_group_std(compared, scores) if normalisation == "group" else compared

    return compare


PARTS = [[1.0, 2.0], [0.0], [2.0, 0.0, 3.0], [6.0], [2.0], [4.0, 1.0]]


def test_a_reply_is_compared_with_those_of_its_number():
    compared = compare_replies(PARTS, comparison("dr-grpo"))
    third = 1 / 3
    expected = [[0.0, 4 * third], [-1.0], [1.0, -2 * third, 2.0], [2.0], [-2.0], [0.0, 0.0]]
    for own, right in zip(compared, expected, strict=True):
        assert own == pytest.approx(right, abs=1e-6)


def test_a_baseline_that_no_episode_moves_is_taken_off_no_reply():
    for name in ("rae", "ppo"):
        for own, parts in zip(compare_replies(PARTS, comparison(name)), PARTS, strict=True):
            assert own == pytest.approx(parts)


def test_where_nothing_is_said_of_an_episode_nothing_is_said_of_its_replies():
    # Nobody decoded greedily in the second group, and imitation looks at no reward.
    assert compare_replies(PARTS, comparison("remax"))[3:5] == [[0.0], [0.0]]
    assert compare_replies(PARTS, comparison("sft")) == [[0.0] * len(parts) for parts in PARTS]
    grouped = compare_replies(PARTS, comparison("grpo", "group"))
    std = (2 / 3) ** 0.5
    assert grouped[2] == pytest.approx([1.0 / std, -2 / 3 / std, 2.0 / std], rel=1e-5)
    assert grouped[5] == [0.0, 0.0]


@given(
    name=st.sampled_from([name for name, each in ALGORITHMS.items() if each.reinforces]),
    parts=st.lists(REWARD, min_size=6, max_size=6),
)
def test_every_baseline_compares_parts_so_that_they_add_up_to_the_score(name, parts):
    compare, rest = comparison(name), torch.tensor([1.0, 0.0, 2.0, 5.0, 4.0, 3.0])
    whole = compare(rest + torch.tensor(parts))
    own = torch.tensor(compare_replies([[part] for part in parts], compare))[:, 0]
    assert (own + compare(rest)).tolist() == pytest.approx(whole.tolist(), abs=1e-4)


def test_nothing_is_compared_where_no_episode_has_parts():
    assert compare_replies([(), ()], comparison("grpo")) == [(), ()]
