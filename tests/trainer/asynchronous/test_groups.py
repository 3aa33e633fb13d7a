from earl_trainer.asynchronous.groups import group_starts, groups_per_step
from earl_trainer.config import RolloutConfig, RunConfig
from earl_trainer.phases import RL, WARMUP, plan_phases


def test_the_groups_of_a_phase_are_those_of_its_synchronous_steps(mute_policy):
    config = RunConfig(rollout=RolloutConfig(num_episodes=12, group_size=4, games_ramp_steps=3,
                                             games_per_episode=2))  # fmt: skip
    phase = plan_phases(config, {WARMUP: mute_policy, RL: mute_policy})[1]
    assert groups_per_step(phase, num_seats=2) == 3
    starts = group_starts(phase, seed=7, num_seats=2)
    identities = set()
    for number in range(9):
        step = phase.first_step + number // 3
        own = [start for start in phase.starts(7, step, num_seats=2) if start.group == number % 3]
        group = starts(number)
        assert [(s.game_seed, s.reply_seed, s.seat, s.num_games) for s in group] == [
            (s.game_seed, s.reply_seed, s.seat, s.num_games) for s in own
        ]
        identities |= {(start.episode, start.table) for start in group}
        assert {start.group for start in group} == {number}
    assert len(identities) == len({table for _, table in identities}) == 36
