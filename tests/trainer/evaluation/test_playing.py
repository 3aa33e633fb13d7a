"""A match is played in parts, each game once."""

from earl_trainer.evaluation.playing import MatchPlan, play_match
from earl_trainer.rollout.collector import Rollout
from earl_trainer.rollout.starts import paired_starts
from earl_trainer.workers.team import Team


class Listing:
    """A collector that remembers what it was asked to play."""

    def __init__(self, make_summary):
        self.parts = []
        self._make_summary = make_summary

    def collect(self, policy, starts, *, on_turn):
        on_turn(len(starts))
        self.parts.append(list(starts))
        make = self._make_summary
        return Rollout(
            episodes=[_Episode(make(seat=each.seat)) for each in starts], peak_resident_tokens=0
        )


class _Episode:
    def __init__(self, summary):
        self.summary = summary


def test_all_games_are_played_so_many_at_a_time(make_summary, mute_policy):
    collector, shown = Listing(make_summary), []
    plan = MatchPlan(seed=3, num_games=10, num_seats=2, games_at_once=4)
    episodes = play_match(collector, mute_policy, plan, Team(), shown.append)
    assert [len(part) for part in collector.parts] == [4, 4, 2]
    starts = [start for part in collector.parts for start in part]
    assert starts == paired_starts(3, num_games=10, num_seats=2)
    assert [episode.start.seat for episode in episodes] == [0, 1] * 5
    assert shown[-1] == "8 played, 2 running"
