"""Two stretches of the same loop."""

from dataclasses import replace

import pytest
from earl_envs import RandomOpponent
from earl_trainer.config import RunConfig
from earl_trainer.overrides import resolve
from earl_trainer.phases import RL, TEACHER, WARMUP, plan_phases
from earl_trainer.rollout.policies import ScriptedPolicy


class Player:
    def reply(self, queries):
        return []


def planned(**tree):
    config = resolve(RunConfig(), {"warmup": {"num_steps": 20}, "learner": {"num_steps": 30}}, tree)
    policies = {WARMUP: Player(), RL: Player(), TEACHER: Player()}
    return plan_phases(config, policies), policies, config


def test_phases_follow_each_other_with_their_own_player_and_algorithm():
    (warmup, reinforcement), policies, config = planned()

    assert (warmup.first_step, warmup.end_step) == (0, 20)
    assert (reinforcement.first_step, reinforcement.end_step) == (20, 50)
    assert (warmup.evaluation, reinforcement.evaluation) == ("initial", "before")
    assert warmup.policy is policies[WARMUP]
    assert reinforcement.policy is policies[RL]
    assert (warmup.algorithm.name, reinforcement.algorithm.name) == ("sft", "grpo")
    assert (warmup.group_size, warmup.num_episodes) == (1, config.warmup.num_episodes)
    assert reinforcement.group_size == config.rollout.group_size


def test_a_reward_model_is_learned_between_the_two():
    (warmup, learning, reinforcement), policies, _ = planned(
        reward_model={"num_steps": 7, "num_episodes": 48, "lr": 0.25},
        algorithm={"kl_coefficient": 0.1},
    )

    assert learning.name == "reward-model"
    assert (learning.first_step, learning.end_step) == (warmup.end_step, 27)
    assert (reinforcement.first_step, reinforcement.end_step) == (27, 57)
    assert learning.policy is policies[RL]
    assert (learning.num_episodes, learning.peak_lr) == (48, 0.25)
    assert not learning.needs_reference
    assert not learning.needs_old_logprobs
    assert reinforcement.needs_reference


def test_the_rate_rises_and_falls_within_each_phase():
    (warmup, reinforcement), _, config = planned()

    for phase, group in ((warmup, config.warmup), (reinforcement, config.learner)):
        rates = [phase.lr(step) for step in range(phase.first_step, phase.end_step)]
        assert max(rates) == pytest.approx(group.lr)
        assert rates[0] < group.lr
        assert rates.index(max(rates)) <= group.lr_warmup_steps
        assert group.lr / 10 < rates[-1] < group.lr / 6


def test_phases_never_share_the_seeds_of_a_step():
    (warmup, reinforcement), _, _ = planned()
    seeds = [
        {start.game_seed for start in phase.starts(0, step, num_seats=2)}
        for phase in (warmup, reinforcement)
        for step in (0, 1)
    ]

    assert len(set().union(*seeds)) == sum(map(len, seeds))
    again = reinforcement.starts(0, 1, num_seats=2)
    assert again == reinforcement.starts(0, 1, num_seats=2)
    assert {start.seat for start in again} == {0, 1}


def test_a_reference_is_needed_only_where_the_loss_has_a_kl_term():
    (warmup, reinforcement), _, _ = planned()
    assert not warmup.needs_reference
    assert not reinforcement.needs_reference
    (warmup, reinforcement), _, _ = planned(algorithm={"kl_coefficient": 0.1})
    assert not warmup.needs_reference
    assert reinforcement.needs_reference
    assert warmup.kl_coefficient == 0.0


def test_both_phases_play_every_seat_in_self_play_and_as_many_games_as_asked_for():
    phases, _, _ = planned(opponent="self", rollout={"games_per_episode": 3})

    for phase in phases:
        starts = phase.starts(0, 0, num_seats=2)
        assert len(starts) == phase.num_episodes
        assert {start.num_games for start in starts} == {3}
        assert [start.seat for start in starts] == [0, 1] * (phase.num_episodes // 2)
        assert len({start.table for start in starts}) == phase.num_episodes // 2


def test_with_a_ramp_games_are_added_in_reinforcement_learning_to_one_before():
    (warmup, reinforcement), _, _ = planned(
        rollout={"games_per_episode": 3, "games_ramp_steps": 10}
    )

    def games(phase, step):
        return [start.num_games for start in phase.starts(0, step, num_seats=2)]

    for step in (warmup.first_step, warmup.end_step - 1):
        assert set(games(warmup, step)) == {1}
    means = [
        sum(games(reinforcement, step)) / reinforcement.num_episodes
        for step in range(reinforcement.first_step, reinforcement.end_step)
    ]
    # Sixteen groups: a sixteenth is as near as their mean comes.
    assert means[:11] == pytest.approx([1 + 0.2 * step for step in range(11)], abs=1 / 32)
    assert set(means[10:]) == {3.0}


def test_a_greedy_baseline_adds_a_table_to_every_group_and_changes_no_other():
    (_, plain), _, _ = planned()
    (_, greedy), _, _ = planned(algorithm={"name": "remax"})
    starts = greedy.starts(0, 20, num_seats=2)

    assert [start for start in starts if not start.greedy] == plain.starts(0, 20, num_seats=2)
    added = [start for start in starts if start.greedy]
    assert len(starts) == greedy.num_played == plain.num_played + len(added)
    assert [start.group for start in added] == list(range(len(added)))


@pytest.mark.parametrize(
    ("fields", "needed"),
    [
        ({"name": "grpo"}, True),
        ({"name": "reinforce"}, False),
        ({"name": "reinforce", "correction": "decoupled"}, True),
        ({"name": "reinforce", "correction": "loglinear"}, False),
        ({"name": "grpo", "correction": "naive"}, False),
        ({"name": "vtrace"}, True),
    ],
)
def test_old_logprobs_are_computed_where_something_compares_with_them(fields, needed):
    (warmup, reinforcement), _, _ = planned(algorithm=fields)
    assert reinforcement.needs_old_logprobs is needed
    assert not warmup.needs_old_logprobs


def test_what_corrects_itself_is_not_corrected_again():
    (_, reinforcement), _, _ = planned(algorithm={"name": "vtrace"}, max_staleness=2)
    assert reinforcement.correction.name == "none"


def test_data_need_no_teacher():
    (_, phase), policies, _ = planned(preference={"name": "sft", "data": "a.jsonl"})
    assert phase.policy is policies[RL]


def test_the_engine_is_asked_by_all_but_a_script_alone(tiny_chat, tic_tac_toe):
    script = ScriptedPolicy(RandomOpponent(), game=tic_tac_toe, chat=tiny_chat)
    asked = {}
    for name in ("sft", "spin", "dpo"):
        (_, phase), _, _ = planned(preference={"name": name})
        asked[name] = replace(phase, policy=script).asks_engine
    assert asked == {"sft": False, "spin": False, "dpo": False}
    (_, reinforcement), _, _ = planned()
    assert reinforcement.asks_engine


def test_an_attempt_after_a_rollback_plays_other_games_at_a_lower_rate():
    (warmup, first), policies, config = planned()
    again_warmup, again = plan_phases(config, policies, num_rollbacks=2)

    assert again_warmup == warmup
    assert again.lr(30) == pytest.approx(first.lr(30) / 4)
    seeds = [
        {start.game_seed for start in phase.starts(0, 30, num_seats=2)} for phase in (first, again)
    ]
    assert not seeds[0] & seeds[1]
