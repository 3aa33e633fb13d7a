from earl_trainer.phases import RL, WARMUP, plan_phases
from earl_trainer.rollout.collection import InlineCollection
from earl_trainer.rollout.collector import Collector, Rollout
from earl_trainer.workers.team import Team


class Recording(Collector):
    """Remembers what it was asked to play."""

    def __init__(self):
        pass

    def collect(self, policy, starts, *, share_tokens, on_turn):
        on_turn(7)
        self.asked = policy, starts, share_tokens
        return Rollout(episodes=[], peak_resident_tokens=5)


def test_it_plays_this_workers_share_of_the_phases_starts(small_config, mute_policy):
    config, policy, said = small_config(), mute_policy, []
    phase = plan_phases(config, {WARMUP: policy, RL: policy})[1]
    collector, team = Recording(), Team(rank=1, num_rollout_workers=2)
    collection = InlineCollection(collector, phase, team, seed=5, num_seats=2)
    rollout = collection.collect(phase.first_step + 1, share_tokens=99, on_turn=said.append)
    starts = phase.starts(5, phase.first_step + 1, num_seats=2)
    assert rollout.peak_resident_tokens == 5
    assert collector.asked == (policy, starts[len(starts) // 2 :], 99)
    assert said == ["7 games running"]
    assert collection.to_dict() == {}
