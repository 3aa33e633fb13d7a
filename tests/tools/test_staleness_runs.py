"""Runs with stragglers: who is slow, and whether a group that is miscounted would be noticed."""

from types import SimpleNamespace

import pytest
from earl_envs import EndReason
from earl_trainer.asynchronous.ledger import FinishedGroup, GroupLedger
from earl_trainer.types import Episode, EpisodeStart, PlayedGame, Turn


@pytest.fixture
def tool(load_tool):
    return load_tool("staleness_runs")


def finished(number, tool, *, reason=EndReason.FINISHED, versions=(0, 1)):
    turn = Turn(
        prompt_ids=(1,), reply_ids=(2, 3), logprobs=(-1.0, -1.0), versions=versions, text="",
        action=0, cut=False,
    )  # fmt: skip
    game = PlayedGame(game_seed=0, first_turn=0, moves=(0,), end_reason=reason, outcome=1.0)
    episodes = [
        Episode(
            start=EpisodeStart(
                episode=episode, table=episode, group=number, seat=0, game_seed=0, reply_seed=0
            ),
            turns=(turn,),
            games=(game,),
        )
        for episode in tool.episodes_of(number)
    ]
    return FinishedGroup(number=number, episodes=episodes)


def test_one_episode_and_one_group_of_every_fifty_are_drawn(tool):
    for drawn in (tool.is_slow, tool.fails):
        places = [number for number in range(500) if drawn(number)]
        assert [number // 50 for number in places] == list(range(10))
        assert len({number % 50 for number in places}) > 5
    assert [*filter(tool.is_slow, range(500))] != [*filter(tool.fails, range(500))]


def test_the_episodes_of_a_group_start_alike_but_those_that_are_slow_play_more_games(tool):
    starts = [start for number in range(50) for start in tool.plan_group(number, num_games=60)]
    assert [start.episode for start in starts] == list(range(100))
    assert len({start.reply_seed for start in starts}) == 100
    assert len({start.game_seed for start in starts}) == 50
    assert [start.episode for start in starts if start.num_games == 60] == [
        *filter(tool.is_slow, range(100))
    ]
    assert {start.seat for start in starts} == {0, 1}


@pytest.fixture
def balanced(tool):
    """A run of batches of 4 groups at version 0: 4 trained on, one failed, the others played."""
    failing = next(filter(tool.fails, range(50)))
    story = tool.Story(variant=tool.Variant(label="", batch_groups=4, eta=failing // 4 + 2))
    ledger = GroupLedger(story.variant.rules)
    numbers = ledger.admit(0)
    back = [*numbers[:4], failing]
    for number in back:
        reason = EndReason.ENV_ERROR if number == failing else EndReason.FINISHED
        ledger.finish(finished(number, tool, reason=reason))
    workers = SimpleNamespace(
        playing={0: set(numbers[4:10]) - {failing}, 1: set(numbers[10:]) - {failing}},
        told={number: SimpleNamespace(emitted_tokens=[1, 1], took_s=1.0) for number in back},
    )
    batch = ledger.take_batch(0)
    story.train(0, [episode for group in batch for episode in group.episodes])
    return story, ledger, workers


def test_a_tick_is_in_balance_where_the_ledger_and_the_workers_agree(balanced):
    story, ledger, workers = balanced
    story.tick(0, ledger, workers)
    assert (story.num_ticks, story.num_out_of_balance) == (1, 0)
    assert story.consumed == [0, 1, 2, 3]
    assert story.ages == {0: 8, -1: 8}


def lose_a_group(story, workers):
    workers.playing[1].pop()


def count_a_group_twice(story, workers):
    workers.told[1000] = workers.told[0]


def train_twice(story, workers):
    story.consumed[3] = story.consumed[2]


@pytest.mark.parametrize("change", [lose_a_group, count_a_group_twice, train_twice])
def test_a_group_that_is_lost_or_counted_twice_is_noticed_at_the_next_tick(balanced, change):
    story, ledger, workers = balanced
    change(story, workers)
    story.tick(0, ledger, workers)
    assert story.num_out_of_balance == 1


def test_more_groups_than_the_rule_admits_are_noticed(balanced):
    story, ledger, workers = balanced
    # What is in order with one version would have been too much with the one before.
    story.tick(-1, ledger, workers)
    assert story.num_out_of_balance == 1


def test_the_room_that_counts_is_that_of_the_first_tick_after_a_recovery(balanced):
    story, ledger, workers = balanced
    story.tick(0, ledger, workers)
    assert story.room_after_recovery is None
    story.num_again = 3
    story.tick(0, ledger, workers)
    story.tick(1, ledger, workers)
    assert story.room_after_recovery == 1


def test_what_is_neither_under_way_nor_trained_on_nor_dropped_is_lost(balanced, tool):
    story, ledger, workers = balanced
    story.end(ledger.to_dict(), ledger=ledger, workers=workers)
    assert sorted(story.decided) == [0, 1, 2, 3]
    assert (story.num_lost, story.num_twice) == (0, 0)
    story.consumed[3] = story.consumed[2]
    assert (story.num_lost, story.num_twice) == (1, 1)


@pytest.mark.slow
def test_a_run_that_is_stopped_goes_on_with_what_was_under_way(tool):
    story = tool.Story(variant=tool.Variant(label="", batch_groups=4, eta=1, num_games=2))
    tool.play(story, range(2))
    under_way = story.kept["again"]
    assert len(under_way) == 4
    tool.play(story, range(2, 5))
    assert len(set(story.consumed)) == len(story.consumed) == 20
    assert set(under_way) <= {*story.consumed, *filter(tool.fails, story.told)}
    assert (story.num_again, story.room_after_recovery) == (4, 0)
    assert (story.num_out_of_balance, story.num_lost, story.num_twice) == (0, 0, 0)
    assert story.num_ticks >= 10
