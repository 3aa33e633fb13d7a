"""One table: whose turn it is, how games end and what follows them."""

import pytest
from earl_envs import EndReason, GameBatch, TextProtocol, make_opponent
from earl_trainer.rollout.table import Table, Talker, game_seed
from earl_trainer.types import EpisodeStart

ID = "earl/TicTacToe-v0"


class Mute:
    def reply(self, queries):
        return []


def start(seat=0, num_games=1):
    return EpisodeStart(
        episode=0, table=0, group=0, seat=seat, game_seed=5, reply_seed=0, num_games=num_games
    )


@pytest.fixture
def set_table(tic_tac_toe):
    def make(*, seats=(0,), num_games=1, opponent="first"):
        starts = [start(seat, num_games) for seat in seats]
        batches = [
            GameBatch(tic_tac_toe, seeds=[game_seed(starts[0], number)])
            for number in range(num_games)
        ]
        table = Table(
            tic_tac_toe,
            game_id=ID,
            batches=batches,
            index=0,
            talkers={one.seat: Talker(start=one, policy=Mute()) for one in starts},
            opponent=make_opponent(opponent),
        )
        return table, batches

    return make


def play(table, batches, *actions):
    for action in actions:
        batches[table.number].step([action], [0])
        table.settle()


def games_of(table, seat=0):
    return table.talkers[seat].games


def test_the_mover_is_the_seat_to_move_until_the_last_game_is_over(set_table):
    table, batches = set_table(num_games=2)

    assert table.mover == 0
    play(table, batches, 0)
    assert table.mover == 1
    assert table.opponent_action() == 1
    play(table, batches, 1, 3, 2, 6)
    assert (table.number, table.mover) == (1, 0)
    play(table, batches, 0, 1, 3, 2, 6)
    assert table.mover == -1
    assert [game.outcome for game in games_of(table)] == [1.0, 1.0]


def test_every_seat_gets_its_own_score(set_table):
    table, batches = set_table(seats=(0, 1))
    play(table, batches, 0, 1, 3, 2, 6)

    assert [games_of(table, seat)[0].outcome for seat in (0, 1)] == [1.0, -1.0]
    assert games_of(table, 0)[0].moves == games_of(table, 1)[0].moves == (0, 1, 3, 2, 6)


def test_a_forfeit_loses_one_game_and_the_next_one_begins(set_table):
    table, batches = set_table(seats=(0, 1), num_games=2)
    play(table, batches, 0)
    table.forfeit(1, EndReason.ILLEGAL_MOVE, "[1] is not legal now")

    assert (table.number, table.mover) == (1, 0)
    (own,), (other,) = games_of(table, 1), games_of(table, 0)
    assert (own.end_reason, own.outcome) == (EndReason.ILLEGAL_MOVE, -1.0)
    assert (other.end_reason, other.outcome) == (EndReason.FINISHED, 1.0)
    assert other.detail == "seat 1 forfeited, illegal_move: [1] is not legal now"
    assert own.forfeited_by == other.forfeited_by == 1


@pytest.mark.parametrize(
    "reason", [EndReason.CONTEXT_LIMIT, EndReason.ENV_ERROR, EndReason.OPPONENT_ERROR]
)
def test_a_stop_ends_the_episode_whatever_games_were_to_come(set_table, reason):
    table, batches = set_table(seats=(0, 1), num_games=3)
    play(table, batches, 0)
    table.stop(reason, "why")

    assert table.mover == -1
    for seat in (0, 1):
        (game,) = games_of(table, seat)
        assert (game.end_reason, game.outcome, game.detail) == (reason, 0.0, "why")


def test_games_of_a_context_have_seeds_of_their_own():
    seeds = [game_seed(start(), number) for number in range(4)]

    assert seeds[0] == 5
    assert len(set(seeds)) == 4


def test_an_opponents_chance_is_new_in_every_game(set_table):
    table, batches = set_table(num_games=6, opponent="random")
    first_moves = []
    for _ in range(6):
        play(table, batches, 0)
        first_moves.append(table.opponent_action())
        table.forfeit(0, EndReason.UNPARSABLE, "")

    assert len(set(first_moves)) > 2


def test_a_message_tells_of_the_last_game_only_in_the_first_turn_of_the_next(
    set_table, tic_tac_toe, make_turn, tiny_chat
):
    table, batches = set_table(num_games=2)
    protocol, talker = TextProtocol(tic_tac_toe), table.talkers[0]
    empty = protocol.turn_message((0, 0), 0)
    assert table.message(protocol, 0) == empty
    talker.dialogue = tiny_chat.start("", empty)
    talker.turns.append(make_turn([1], [2]))
    play(table, batches, 0, 1, 3, 2, 6)

    told = table.message(protocol, 0)
    assert told == f"X O O\nX 5 6\nX 8 9\nScore 1. Next game:\n{empty}"
    talker.turns.append(make_turn([1, 2, 3], [2]))
    assert table.message(protocol, 0) == empty


def test_a_seat_is_told_of_every_game_that_ended_since_its_last_turn(
    set_table, tic_tac_toe, make_turn
):
    table, batches = set_table(seats=(0, 1), num_games=4)
    protocol = TextProtocol(tic_tac_toe)
    table.talkers[0].turns.append(make_turn([1], [2]))
    play(table, batches, 0)
    table.talkers[1].turns.append(make_turn([1], [2]))
    play(table, batches, 1, 3, 2, 6)
    for _ in range(2):
        table.talkers[0].turns.append(make_turn([1], [2]))
        table.forfeit(0, EndReason.UNPARSABLE, "")
    empty = protocol.turn_message((0, 0), 0)

    assert table.message(protocol, 0) == f"Score -1. Next game:\n{empty}"
    assert table.message(protocol, 1) == (
        "O X X\nO 5 6\nO 8 9\nScore -1. Next game:\n"
        f"Score 1. Next game:\nScore 1. Next game:\n{empty}"
    )


def test_a_seat_that_has_said_nothing_yet_is_told_of_earlier_games_as_well(set_table, tic_tac_toe):
    table, _ = set_table(seats=(0, 1), num_games=2)
    table.forfeit(0, EndReason.UNPARSABLE, "")
    protocol = TextProtocol(tic_tac_toe)
    board = protocol.turn_message((0, 0), 1)

    assert table.message(protocol, 1) == f"Score 1. Next game:\n{board}"


def test_an_opponent_that_replies_with_no_move_has_failed_and_is_beaten_by_nobody(set_table):
    table, batches = set_table(seats=(0, 1), num_games=2)
    table.talkers[1].learns = False
    play(table, batches, 0)
    table.forfeit(1, EndReason.UNPARSABLE, "no complete [move]")

    (game,) = games_of(table, 0)
    assert table.mover == -1
    assert (game.end_reason, game.outcome) == (EndReason.OPPONENT_ERROR, 0.0)
    assert game.detail == "the opponent's reply is no move: no complete [move]"
    assert game.forfeited_by is None


@pytest.mark.parametrize(
    "scores", [(1.0,), (1.0, float("nan")), (1.0, float("inf")), "ab", None, (1.0, 2.0, 3.0)]
)
def test_a_forfeit_that_the_game_scores_wrongly_is_the_games_error(
    set_table, tic_tac_toe, monkeypatch, scores
):
    monkeypatch.setattr(type(tic_tac_toe), "forfeit", lambda game, seat: scores)
    table, _ = set_table(seats=(0, 1))
    table.forfeit(0, EndReason.UNPARSABLE, "")

    for seat in (0, 1):
        (game,) = games_of(table, seat)
        assert (game.end_reason, game.outcome) == (EndReason.ENV_ERROR, 0.0)
