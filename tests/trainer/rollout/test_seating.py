"""Who meets whom."""

import pytest
from earl_envs import EndReason, make_opponent
from earl_envs.opponents.pool import OpponentPool, PoolMember
from earl_trainer.checkpoint import CheckpointStore
from earl_trainer.rollout.past_models import PastModels
from earl_trainer.rollout.seating import Seating
from earl_trainer.rollout.starts import grouped_starts, paired_starts, self_play_starts
from earl_trainer.workers.team import Team

ID = "earl/TicTacToe-v0"


class Mute:
    def reply(self, queries):
        return []


@pytest.fixture
def seat(tic_tac_toe):
    def make(opponent, match_opponent="random"):
        return Seating(
            tic_tac_toe,
            game_id=ID,
            opponent=make_opponent(opponent) if isinstance(opponent, str) else opponent,
            match_opponent=make_opponent(match_opponent),
        )

    return make


@pytest.fixture
def past(tmp_path):
    """Past models with two checkpoints."""
    for step in (10, 20):
        (tmp_path / f"step-{step:06d}" / "model").mkdir(parents=True)
        (tmp_path / f"step-{step:06d}" / "COMPLETE").touch()
    return PastModels(
        CheckpointStore(tmp_path, keep=2),
        tmp_path / "ratings.jsonl",
        sampling="recency",
        every_steps=10,
        load=lambda folder: Mute(),
        version=lambda: 25,
        team=Team(),
    )


def grouped(num_groups=4, size=3):
    return grouped_starts(0, step=0, num_episodes=num_groups * size, group_size=size, num_seats=2)


def test_a_scripted_opponent_takes_the_seats_that_no_start_names(seat):
    policy = Mute()
    _, tables = seat("first").set_tables(policy, grouped())

    assert [list(table.talkers) for table in tables] == [[start.seat] for start in grouped()]
    assert all(t.policy is policy and t.learns for table in tables for t in table.talkers.values())


def test_in_self_play_every_seat_talks_in_a_context_of_its_own(seat):
    starts = self_play_starts(0, step=0, num_episodes=6, group_size=1, num_seats=2)
    batches, tables = seat(None).set_tables(Mute(), starts)

    assert [batch.batch_size for batch in batches] == [3]
    assert [talker.start for table in tables for talker in table.talkers.values()] == starts


def test_a_group_meets_one_member_of_a_pool_and_groups_meet_different_ones(seat):
    members = tuple(
        PoolMember(name=name, opponent=make_opponent("first")) for name in ("a", "b", "c")
    )
    seating = seat(OpponentPool(members=members))
    _, tables = seating.set_tables(Mute(), grouped(num_groups=8))
    met = [table._opponent for table in tables]

    assert all(met[i] is met[i + 1] is met[i + 2] for i in range(0, 24, 3))
    assert len({id(opponent) for opponent in met}) == 3


def test_past_models_reply_in_the_other_seats_and_are_no_learners(seat, past):
    policy = Mute()
    _, tables = seat(past).set_tables(policy, grouped(num_groups=8))

    assert {table.member for table in tables} == {"step-000010", "step-000020"}
    for table in tables:
        learner, rival = sorted(table.talkers.values(), key=lambda talker: not talker.learns)
        assert (learner.policy is policy, rival.policy is policy) == (True, False)
        assert {learner.start.seat, rival.start.seat} == {0, 1}
        assert not rival.learns
    identities = [t.start.episode for table in tables for t in table.talkers.values()]
    assert len(set(identities)) == len(identities)
    seeds = [t.start.reply_seed for table in tables for t in table.talkers.values() if not t.learns]
    assert all(len(set(seeds[i : i + 3])) == 1 for i in range(0, 24, 3)), "one stream per group"
    assert len(set(seeds)) == 8


def test_without_a_past_the_learner_meets_itself(seat, tmp_path):
    nothing = PastModels(
        CheckpointStore(tmp_path, keep=2),
        tmp_path / "ratings.jsonl",
        sampling="recency",
        every_steps=1,
        load=lambda folder: Mute(),
        version=lambda: 0,
        team=Team(),
    )
    policy = Mute()
    _, tables = seat(nothing).set_tables(policy, grouped(1, 1))
    talkers = tables[0].talkers

    assert [talkers[0].policy, talkers[1].policy] == [policy, policy]
    assert (talkers[0].learns, talkers[1].learns) == (True, False)


def test_matches_meet_the_opponent_of_matches(seat, past):
    _, tables = seat(past).set_tables(Mute(), paired_starts(0, num_games=4, num_seats=2))

    assert all(len(table.talkers) == 1 and table.member == "" for table in tables)


def test_results_against_past_models_are_rated(seat, past, make_turn):
    seating = seat(past)
    batches, tables = seating.set_tables(Mute(), grouped(num_groups=8))
    for table in tables:
        (learner,) = [talker for talker in table.talkers.values() if talker.learns]
        learner.turns.append(make_turn([1], [2]))
        # The learner loses to the older checkpoint and beats the newer one.
        if table.member == "step-000010":
            table.forfeit(learner.start.seat, EndReason.UNPARSABLE, "")
        else:
            x_wins, o_wins = (0, 1, 3, 2, 6), (0, 1, 3, 4, 2, 7)
            for move in (x_wins, o_wins)[learner.start.seat]:
                batches[0].step([move], [table.index])
            table.settle()
    seating.record(tables)
    ratings = {member.name: member.rating for member in past.pool().members}

    assert ratings["step-000010"] > 0 > ratings["step-000020"]


def test_what_an_opponent_loses_by_a_reply_that_is_no_move_is_not_rated(
    seat, past, make_turn, tmp_path
):
    seating = seat(past)
    _, tables = seating.set_tables(Mute(), grouped(num_groups=4))
    for table in tables:
        (learner,) = [talker for talker in table.talkers.values() if talker.learns]
        learner.turns.append(make_turn([1], [2]))
        table.forfeit(1 - learner.start.seat, EndReason.ILLEGAL_MOVE, "")
        assert [game.outcome for game in learner.games] == [0.0]
    seating.record(tables)

    assert not (tmp_path / "ratings.jsonl").exists()


def test_a_scripted_player_and_cut_games_are_not_rated(seat, past, make_turn, tmp_path):
    seating = seat(past)
    _, tables = seating.set_tables(Mute(), grouped(num_groups=2))
    for table in tables[:3]:
        table.forfeit(0, EndReason.UNPARSABLE, "")
    for table in tables[3:]:
        for talker in table.talkers.values():
            talker.turns.append(make_turn([1], [2]))
        table.stop(EndReason.CONTEXT_LIMIT, "")
    seating.record(tables)

    assert not (tmp_path / "ratings.jsonl").exists()


def test_an_opponent_that_happens_to_have_a_method_reply_still_picks_moves(seat):
    class Chatty:
        def reply(self, text):
            raise NotImplementedError

        def move(self, game, state, seat, rng):
            return game.legal(state)[0]

    _, tables = seat(Chatty()).set_tables(Mute(), grouped(1, 1))

    assert list(tables[0].talkers) == [0]


def test_a_match_may_be_against_somebody_who_replies(tic_tac_toe):
    policy, rival = Mute(), Mute()
    seating = Seating(tic_tac_toe, game_id=ID, opponent=None, match_opponent=rival)
    starts = paired_starts(0, num_games=4, num_seats=2)
    _, tables = seating.set_tables(policy, starts)

    for start, table in zip(starts, tables, strict=True):
        assert table.talkers[start.seat].policy is policy
        other = table.talkers[1 - start.seat]
        assert other.policy is rival
        assert not other.learns
