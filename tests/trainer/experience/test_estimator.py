import math
from dataclasses import replace

import pytest
import torch
import torch.distributed as dist
from earl_dispatch.testing import run_ranks
from earl_envs import EndReason
from earl_trainer.algorithms.advantages import group_mean
from earl_trainer.algorithms.aggregation import find_aggregation
from earl_trainer.algorithms.kl import KL_ESTIMATORS, KlController
from earl_trainer.algorithms.losses import LossSettings
from earl_trainer.algorithms.settings import AdvantageSettings, KlPenalty
from earl_trainer.algorithms.shaping import RewardShaping
from earl_trainer.algorithms.table import ALGORITHMS
from earl_trainer.algorithms.trajectories import Discounts
from earl_trainer.experience.estimator import Estimator
from earl_trainer.experience.samples import build_columns
from earl_trainer.learner.learner import Learner, UpdateSettings
from earl_trainer.learner.objective import PolicyObjective
from earl_trainer.learner.optimizer import MasterAdamW
from earl_trainer.rewards.config import RewardConfig
from earl_trainer.rewards.episodes import rewards_of
from earl_trainer.rewards.outcome import Judgement, RewardFailure, RewardOutcome
from earl_trainer.types import RunFailedError
from earl_trainer.workers.group import ALONE, Group

GRPO = AdvantageSettings(normalisation="group")


def numbered(episodes):
    return [
        replace(episode, start=replace(episode.start, episode=number))
        for number, episode in enumerate(episodes)
    ]


def estimated(
    episodes, rewards, *, name="grpo", settings=GRPO, workers=ALONE, of_replies=(), **columns
):
    """The estimator after a step, and what it added."""
    estimator = Estimator(ALGORITHMS[name], settings, num_seats=2, workers=workers)
    rows = build_columns(episodes, RewardConfig())
    rows = replace(rows, per_token={**rows.per_token, **columns})
    summaries = [episode.summary for episode in episodes]
    return estimator, estimator.estimate(rows, summaries, rewards, of_replies)


def by_episode(episodes, rewards, **options):
    """The advantage of each episode that has rows: that of its last trained token."""
    _, rows = estimated(episodes, rewards, **options)
    values = rows.per_token["advantages"].split(rows.lengths.tolist())
    numbers = rows.per_row["episode"].tolist()
    return {number: each[-1].item() for number, each in zip(numbers, values, strict=True)}


def test_every_trained_token_gets_its_episodes_advantage_and_others_none(make_episode, make_turn):
    turns = [make_turn([1, 2], [3]), make_turn([1, 2, 3, 4], [5, 6])]
    episodes = numbered([make_episode(turns=turns), make_episode()])
    _, rows = estimated(episodes, [1.0, 0.0])
    expected = [0.0, 0.0, 1.0, 0.0, 1.0, 1.0, 0.0, 0.0, -1.0, -1.0]
    assert rows.per_token["advantages"].tolist() == expected
    assert "returns" not in rows.per_token


def test_failed_episodes_are_in_no_group_statistic(make_episode):
    episodes = numbered([
        make_episode(group=1),
        make_episode(group=1, end_reason=EndReason.OPPONENT_ERROR),
        make_episode(group=2),
        make_episode(group=1),
        make_episode(group=2, end_reason=EndReason.ENV_ERROR),
    ])
    # The failed episodes' rewards would move both means if they counted.
    advantages = by_episode(episodes, [1.0, 50.0, 1.0, 0.0, -50.0])
    assert advantages == {0: 1.0, 2: 0.0, 3: -1.0}


def test_a_step_of_failed_episodes_only_ends_the_run_with_the_first_reason(make_episode):
    episodes = numbered([
        make_episode(end_reason=EndReason.ENV_ERROR, detail="ValueError: broken rules"),
        make_episode(end_reason=EndReason.OPPONENT_ERROR, detail="KeyError: 3"),
    ])
    with pytest.raises(RunFailedError, match=r"none of 2 episodes.*ValueError: broken rules"):
        estimated(episodes, [0.0, 0.0])


def test_where_every_reward_failed_the_run_ends_with_the_first(make_episode):
    outcomes = {"style": RewardOutcome(failure=RewardFailure.CRASH, detail="exit status 3")}
    episode = replace(make_episode(), judgement=Judgement(outcomes=outcomes, bonus=None))
    with pytest.raises(RunFailedError, match="reward style: crash: exit status 3"):
        estimated([episode], [None])


def test_seats_of_a_group_are_compared_apart(make_episode):
    # A zero-sum game: over both seats the mean is 0 whatever was played.
    episodes = numbered([make_episode(group=2, seat=seat) for seat in (0, 1, 0, 1, 0, 1)])
    advantages = by_episode(episodes, [1.0, -1.0, 1.0, -1.0, -1.0, 1.0])
    expected = [0.5**0.5, -(0.5**0.5)] * 2 + [-(2**0.5), 2**0.5]
    assert list(advantages.values()) == pytest.approx(expected)


def test_a_seat_that_never_replied_is_in_no_group_statistic(make_episode):
    # The other seat forfeited with its first reply: won, but not by anything that was said.
    silent = make_episode(turns=[])
    episodes = numbered([make_episode(), silent, make_episode(), silent])
    assert by_episode(episodes, [1.0, 1.0, -1.0, 1.0]) == {0: 1.0, 2: -1.0}


def test_the_bonus_enters_the_advantage_and_an_episode_without_one_no_statistic(make_episode):
    lost = make_episode(outcome=-1.0)
    episodes = numbered([
        replace(lost, judgement=Judgement(outcomes={}, bonus=bonus))
        for bonus in (0.0, None, 4.0, 2.0)
    ])
    rewards = rewards_of([episode.summary for episode in episodes], RewardConfig())
    advantages = by_episode(episodes, rewards)
    kept = [episodes[0], episodes[2], episodes[3]]
    assert advantages == by_episode(kept, [-1.0, 3.0, 1.0])
    assert advantages[2] > 1.0


@pytest.mark.parametrize("name", ["grpo", "rloo", "reinforce++", "ppo"])
def test_an_empty_reply_counts_in_its_group_and_trains_nothing(
    name, make_episode, make_turn, make_llama
):
    empty = make_episode(turns=[make_turn([1, 2], [])])
    episodes = numbered([make_episode(), empty, make_episode()])
    rewards = [1.0, -2.0, 1.0]
    algorithm = ALGORITHMS[name]
    settings = AdvantageSettings(normalisation=algorithm.normalisation)
    columns = {"old_logprobs": torch.full((10,), -1.0), "values": torch.zeros(10)}
    _, rows = estimated(episodes, rewards, name=name, settings=settings, **columns)
    assert rows.lengths.tolist() == [4, 2, 4]
    assert rows.per_token["mask"].split([4, 2, 4])[1].tolist() == [False, False]
    first, of_empty, last = rows.per_token["advantages"].split([4, 2, 4])
    assert of_empty.tolist() == [0.0, 0.0]
    # The mean of the group is 0 and its std sqrt(2); whitened, all four tokens are alike.
    expected = {"grpo": 0.5**0.5, "rloo": 1.5, "reinforce++": 0.0, "ppo": 0.0}[name]
    for each in (first, last):
        assert each.tolist() == pytest.approx([0.0, 0.0, expected, expected])

    def gradient(batch):
        model = make_llama()
        objective = PolicyObjective(
            function=algorithm.loss,
            settings=LossSettings(clip_low=0.2, clip_high=0.2, entropy_coefficient=0.1),
            aggregation=find_aggregation("sequence-mean", max_tokens=4),
            temperature=1.0,
        )
        limits = UpdateSettings(max_microbatch_tokens=8, max_grad_norm=1.0)
        optimizer = MasterAdamW(model, betas=(0.9, 0.95), weight_decay=0.0)
        metrics = Learner(model, optimizer, objective, limits).accumulate(batch)
        return metrics, torch.cat([each.grad.flatten() for each in model.parameters()])

    (told, found), (told_without, without) = gradient(rows), gradient(rows.select([0, 2]))
    assert found.isfinite().all()
    assert found.any()
    assert torch.allclose(found, without, atol=1e-6)
    assert told == pytest.approx(told_without, abs=1e-6)


def test_the_same_prompt_twice_in_a_step_is_two_groups(make_episode):
    episodes = numbered([make_episode(group=group) for group in (4, 9, 4, 9)])
    advantages = by_episode(episodes, [1.0, 5.0, 0.0, 5.0])
    assert advantages == {0: 1.0, 1: 0.0, 2: -1.0, 3: 0.0}


def test_a_greedy_episode_is_compared_with_and_not_trained(make_episode):
    episodes = numbered([make_episode(), make_episode(), make_episode()])
    episodes[1] = replace(episodes[1], start=replace(episodes[1].start, greedy=True))
    settings = AdvantageSettings()
    advantages = by_episode(episodes, [1.0, 0.25, 0.0], name="remax", settings=settings)
    assert advantages == {0: 0.75, 2: -0.25}


def test_rewards_are_shaped_before_they_are_compared(make_episode):
    # Contexts of 4 tokens of 5, the last two of which are punished: half a point.
    shaping = RewardShaping(scale=2.0, max_abs=3.0, max_tokens=5, overlong_share=0.4)
    settings = AdvantageSettings(shaping=shaping)
    advantages = by_episode([make_episode()], [9.0], name="reinforce++", settings=settings)
    assert advantages == {0: pytest.approx(2.5)}


def test_an_episode_whose_tokens_are_hidden_counts_in_its_group_alone(make_episode):
    cut = make_episode(end_reason=EndReason.CONTEXT_LIMIT)
    episodes = numbered([make_episode(), cut])
    estimator = Estimator(ALGORITHMS["grpo"], GRPO, num_seats=2)
    rows = build_columns(episodes, RewardConfig(truncation="mask"))
    rows = estimator.estimate(rows, [each.summary for each in episodes], [1.0, 0.0])
    assert rows.per_token["advantages"].tolist() == [0.0, 0.0, 1.0, 1.0] + [0.0] * 4


def test_whitened_tokens_have_the_mean_0_over_the_step(make_episode, make_turn):
    # A long reply and a short one: by episode the mean would be another.
    episodes = numbered([make_episode(turns=[make_turn([1], [2, 3, 4])]), make_episode()])
    settings = AdvantageSettings(normalisation="batch")
    _, rows = estimated(episodes, [1.0, -1.0], name="reinforce++", settings=settings)
    trained = rows.per_token["advantages"][rows.per_token["mask"]]
    std = math.sqrt(0.96)
    expected = [0.8 / std] * 3 + [-1.2 / std] * 2
    assert trained.tolist() == pytest.approx(expected, rel=1e-5)


def test_groups_count_their_trained_tokens(make_episode, make_turn):
    long = make_episode(group=3, turns=[make_turn([1], [2, 3, 4])])
    episodes = numbered([long, make_episode(group=5), make_episode(group=3)])
    _, rows = estimated(episodes, [1.0, 0.0, 0.0])
    assert rows.per_row["group_tokens"].tolist() == [5.0, 2.0, 5.0]


def penalised(episode, *, coefficient, target=0.0):
    penalty = KlPenalty(
        coefficient=coefficient,
        estimate=KL_ESTIMATORS["k1"],
        controller=KlController(target=target, horizon=100),
    )
    nothing = torch.zeros(4)
    return estimated(
        [episode],
        [1.0],
        name="reinforce++",
        settings=AdvantageSettings(penalty=penalty),
        old_logprobs=nothing,
        # A NaN at a prompt's token stays there.
        reference_logprobs=torch.tensor([math.nan, math.nan, -0.5, -0.25]),
    )


def test_a_divergence_in_the_reward_is_taken_off_the_tokens_from_there_on(make_episode):
    estimator, rows = penalised(make_episode(), coefficient=0.2)
    assert rows.per_token["advantages"].tolist() == pytest.approx([
        0.0,
        0.0,
        1.0 - 0.2 * 0.75,
        1.0 - 0.2 * 0.25,
    ])
    assert estimator.figures["advantage/reference_kl"] == pytest.approx(0.375)


def test_the_weight_of_the_penalty_is_adapted_and_goes_on_after_a_resume(make_episode):
    estimator, _ = penalised(make_episode(), coefficient=0.2, target=0.1)
    expected = 0.2 * (1 + 0.2 * 2 / 100)
    assert estimator.to_dict()["kl_coefficient"] == pytest.approx(expected)
    resumed, _ = penalised(make_episode(), coefficient=0.2, target=0.1)
    resumed.restore(estimator.to_dict())
    assert resumed.to_dict() == estimator.to_dict()


def test_running_baselines_are_kept_by_seat_and_go_on_after_a_resume(make_episode):
    episodes = numbered([make_episode(seat=0), make_episode(seat=1)])
    settings = AdvantageSettings(baseline_decay=0.5)
    estimator, rows = estimated(episodes, [1.0, -1.0], name="rae", settings=settings)
    assert rows.per_token["advantages"].tolist() == [0.0, 0.0, 0.5, 0.5, 0.0, 0.0, -0.5, -0.5]
    resumed = Estimator(ALGORITHMS["rae"], settings, num_seats=2)
    resumed.restore(estimator.to_dict())
    again = resumed.estimate(
        build_columns(episodes, RewardConfig()), [each.summary for each in episodes], [1.0, -1.0]
    )
    assert again.per_token["advantages"].tolist()[2:4] == [0.25, 0.25]


@pytest.fixture
def turned_row(make_turn, make_episode):
    """Two replies of one token, between and behind which others speak."""
    return make_episode(turns=[make_turn([1, 2], [3]), make_turn([1, 2, 3, 4, 5], [6])])


def valued(episode, values, *, last_value=0.0, of_replies=(), **settings):
    estimator = Estimator(ALGORITHMS["ppo"], AdvantageSettings(**settings), num_seats=2)
    rows = build_columns([episode], RewardConfig())
    rows = replace(
        rows,
        per_token={**rows.per_token, "values": torch.tensor(values)},
        per_row={**rows.per_row, "last_values": torch.tensor([last_value])},
    )
    return estimator.estimate(rows, [episode.summary], [1.0], of_replies).per_token


def test_values_at_tokens_that_are_not_trained_change_nothing(turned_row):
    calm = valued(turned_row, [0.0, 0.0, 0.5, 0.0, 0.0, 0.25])
    wild = valued(turned_row, [100.0, 100.0, 0.5, 100.0, math.nan, 0.25])
    assert calm["advantages"].tolist() == [0.0, 0.0, 0.5, 0.0, 0.0, 0.75]
    assert calm["returns"].tolist() == [0.0, 0.0, 1.0, 0.0, 0.0, 1.0]
    for name in ("advantages", "returns"):
        assert torch.equal(calm[name], wild[name])


def test_the_reward_stands_on_the_last_trained_token_of_a_row_that_goes_on(turned_row):
    # A row that ends with what the other seat said: its last token is not trained.
    rows = build_columns([turned_row], RewardConfig())
    rows.per_token["mask"][-1] = False
    settings = AdvantageSettings()
    estimator = Estimator(ALGORITHMS["reinforce++"], settings, num_seats=2)
    added = estimator.estimate(rows, [turned_row.summary], [1.0])
    assert added.per_token["advantages"].tolist() == [0.0, 0.0, 1.0, 0.0, 0.0, 0.0]


def test_only_a_cut_episode_bootstraps_and_only_if_it_is_to(turned_row):
    cut = replace(
        turned_row, games=[replace(turned_row.games[0], end_reason=EndReason.CONTEXT_LIMIT)]
    )
    values = [0.0, 0.0, 0.5, 0.0, 0.0, 0.25]
    cases = ((turned_row, True, 0.75), (cut, False, 0.75), (cut, True, 2.75))
    for episode, bootstraps, last in cases:
        added = valued(episode, values, last_value=2.0, bootstraps=bootstraps)
        assert added["advantages"][-1].item() == last


PLAIN = AdvantageSettings()


def test_no_later_reply_has_credit_for_what_an_earlier_one_got(turned_row):
    _, rows = estimated(
        [turned_row], [2.0], name="reinforce++", settings=PLAIN, of_replies=[[1.5, -1.0]]
    )
    assert rows.per_token["advantages"].tolist() == [0.0, 0.0, 2.0, 0.0, 0.0, 0.5]


def test_gae_sees_parts_where_they_fall_by_token_and_by_turn(make_turn, make_episode):
    turns = [make_turn([1, 2], [3, 4]), make_turn([1, 2, 3, 4, 5], [6, 7])]
    episode = make_episode(turns=turns)
    values = [9.0, 9.0, 0.5, 0.25, 9.0, 1.0, 0.5]
    for by_turn, expected in (
        # With lambda 0 an advantage is r + V' - V; the reward is 1, of which 0.75 is the first's.
        (False, [0.25 - 0.5, 0.75 + 1.0 - 0.25, 0.5 - 1.0, 0.25 - 0.5]),
        (True, [0.75 + 1.0 - 0.5] * 2 + [0.25 - 1.0] * 2),
    ):
        discounts = Discounts(trace_decay=0.0, by_turn=by_turn)
        added = valued(episode, values, discounts=discounts, of_replies=[[0.75, 0.0]])
        advantages = added["advantages"][[2, 3, 5, 6]].tolist()
        assert advantages == expected, by_turn


def test_parts_are_scaled_and_bounded_with_their_reward(turned_row):
    def advantages(reward, parts, **shaping):
        settings = AdvantageSettings(shaping=RewardShaping(**shaping))
        _, rows = estimated(
            [turned_row], [reward], name="reinforce++", settings=settings, of_replies=[parts]
        )
        return rows.per_token["advantages"][[2, 5]].tolist()

    assert advantages(2.0, [0.5, 1.0], scale=2.0) == [4.0, 3.0]
    assert advantages(2.0, [0.5, 1.0], scale=2.0, max_abs=1.0) == [1.0, 0.75]
    assert advantages(-2.0, [0.5, 1.0], scale=2.0, max_abs=1.0) == [-1.0, -1.25]
    # The penalty for a context of 6 tokens of 6 is nobody's but the end's.
    assert advantages(2.0, [0.5, 1.0], max_tokens=6, overlong_share=0.5) == [1.0, 0.5]


def test_parts_are_compared_within_the_group_and_one_of_one_episode_says_nothing(turned_row):
    episodes = numbered([turned_row] * 3)
    episodes[2] = replace(episodes[2], start=replace(episodes[2].start, group=4))
    parts = [[1.0, 0.0], [0.0, 0.0], [7.0, 7.0]]
    _, rows = estimated(episodes, [3.0, 1.0, 9.0], of_replies=parts)
    # Scores of 1 and -1, as the std is 1; the first replies had half a point more and less.
    advantages = rows.per_token["advantages"].reshape(3, 6)[:, [2, 5]]
    assert advantages.tolist() == [[1.0, 0.5], [-1.0, -0.5], [0.0, 0.0]]


def parts_of(episodes):
    """Rewards of replies that differ from episode to episode; none of one that failed."""
    return [
        () if episode.summary.failed else [0.25 * episode.start.episode, 0.5][-len(episode.turns) :]
        for episode in episodes
    ]


def advantages_on_every_rank(parts, rewards, name, settings):
    rank = dist.get_rank()
    _, rows = estimated(
        parts[rank],
        rewards[rank],
        name=name,
        settings=settings,
        workers=Group(rank=rank, size=dist.get_world_size(), process_group=dist.group.WORLD),
        of_replies=parts_of(parts[rank]),
    )
    return rows.per_token["advantages"].tolist(), rows.per_row["group_tokens"].tolist()


@pytest.mark.parametrize(
    ("name", "settings"),
    [("grpo", GRPO), ("reinforce++", AdvantageSettings(normalisation="batch"))],
)
def test_workers_estimate_together_what_one_of_them_would(make_episode, turned_row, name, settings):
    failed = make_episode(group=1, end_reason=EndReason.ENV_ERROR)
    turned = replace(turned_row, start=replace(turned_row.start, group=1))
    episodes = numbered([make_episode(group=2), turned, failed, turned])
    rewards = [0.25, 1.0, 7.0, 0.0]
    _, whole = estimated(
        episodes, rewards, name=name, settings=settings, of_replies=parts_of(episodes)
    )
    first, last = whole.per_token["advantages"].split(whole.lengths.tolist())[1][[2, 5]].tolist()
    assert first != last
    told = run_ranks(
        3,
        advantages_on_every_rank,
        [episodes[:2], [], episodes[2:]],
        [rewards[:2], [], rewards[2:]],
        name,
        settings,
        timeout_s=180.0,
    )
    advantages = [value for part, _ in told for value in part]
    assert advantages == pytest.approx(whole.per_token["advantages"].tolist(), rel=1e-6)
    counts = [count for _, part in told for count in part]
    assert counts == whole.per_row["group_tokens"].tolist()


def test_group_means_stand_on_the_group_whatever_is_whitened_later(make_episode):
    assert ALGORITHMS["reinforce++-baseline"].baseline is group_mean
    episodes = numbered([make_episode(group=group) for group in (1, 1, 2, 2)])
    settings = AdvantageSettings(normalisation="batch")
    advantages = by_episode(
        episodes, [1.0, 0.0, 30.0, 28.0], name="reinforce++-baseline", settings=settings
    )
    std = math.sqrt((0.25 * 2 + 1.0 * 2) / 4)
    assert list(advantages.values()) == pytest.approx([0.5 / std, -0.5 / std, 1 / std, -1 / std])
