"""A game from one agent's seat."""

import copy
import pickle

import pytest
from earl_envs.end_reason import EndReason
from earl_envs.faces.episode import EpisodeKey, Table
from earl_envs.faces.single_agent import SingleAgent


class FirstLegal:
    """Plays the lowest legal action."""

    def move(self, game, state, seat, rng):
        return game.legal(state)[0]


class Breaks:
    """Raises from the first move that finds at most `stones`."""

    def __init__(self, stones):
        self.stones = stones

    def move(self, game, state, seat, rng):
        if state[0] <= self.stones:
            raise RuntimeError("out of order")
        return 0


def agent(game_id="faces/LastStone-v0", *, opponent="random", seat=0, illegal="forfeit", **params):
    player = SingleAgent(Table.lay(game_id, params), opponent=opponent, seat=seat, illegal=illegal)
    player.begin(EpisodeKey(seed=0, episode=0))
    return player


def test_seat_0_moves_first_and_seat_1_is_moved_for():
    assert agent(opponent=FirstLegal(), seat=0).episode.moves == []
    second = agent(opponent=FirstLegal(), seat=1)
    assert (second.episode.moves, second.episode.seat) == ([0], 1)


@pytest.mark.parametrize("seat", [0, 1, 2])
def test_the_others_play_until_it_is_the_agents_turn(seat):
    player = agent(opponent=FirstLegal(), seat=seat, seats=3, stones=30)
    for turn in range(4):
        assert player.episode.seat == seat
        assert len(player.episode.moves) == 3 * turn + seat
        player.act(0)


@pytest.mark.parametrize("seat", [0, 1])
def test_the_reward_is_the_agents_score_at_the_end(seat):
    # With one stone more than seats each takes one; the first mover takes the last.
    player = agent(opponent=FirstLegal(), seat=seat, stones=3)
    rewards = []
    while player.episode.end_reason is None:
        player.act(0)
        rewards.append(player.reward)
    assert rewards == ([0.0, 1.0] if seat == 0 else [-1.0])
    assert player.info()["winner"] == 0
    assert player.info()["end_reason"] == "finished"
    assert player.info()["returns"].tolist() == [1.0, -1.0]
    assert "detail" not in player.info()


@pytest.mark.parametrize("opponent", [None, "self"])
def test_without_an_opponent_the_agent_plays_every_seat_and_is_paid_as_the_mover(opponent):
    player = agent(opponent=opponent, stones=4)
    seen = []
    for _ in range(4):
        seen.append((player.seat, player.info()["action_mask"].tolist()))
        player.act(0)
    assert seen == [(0, [1, 1, 1]), (1, [1, 1, 1]), (0, [1, 1, 0]), (1, [1, 0, 0])]
    assert (player.reward, player.seat, player.info()["winner"]) == (1.0, 1, 1)


def test_an_illegal_action_forfeits():
    player = agent(opponent=FirstLegal(), stones=2)
    player.act(2)
    assert (player.reward, player.episode.end_reason) == (-1.0, EndReason.ILLEGAL_MOVE)
    info = player.info()
    assert (info["illegal_action"], info["winner"]) == (2, 1)
    assert info["detail"] == "action 2 is not legal, legal: [0, 1]"


def test_retries_are_counted_within_a_turn():
    player = agent(opponent=None, illegal="retry(1)", stones=4)
    player.act(0)
    player.act(0)  # two stones left
    player.act(2)
    assert player.episode.end_reason is None
    assert player.info()["illegal_action"] == 2
    player.act(0)
    assert "illegal_action" not in player.info()
    player.act(1)
    assert player.episode.end_reason is None, "the retry of the last turn is forgotten"
    player.act(2)
    assert player.episode.end_reason is EndReason.ILLEGAL_MOVE


def test_spent_turns_cut_the_game_at_its_bound():
    player = agent(opponent=None, illegal="noop", stones=2)
    player.act(2)
    assert player.episode.end_reason is None
    player.act(2)
    assert player.episode.end_reason is EndReason.MOVE_LIMIT
    assert (player.reward, player.episode.truncated) == (0.0, True)


def test_a_substituted_move_is_said_to_be_one():
    drawn = set()
    for seed in range(20):
        player = agent(opponent=None, illegal="random_legal", stones=2)
        player.begin(EpisodeKey(seed=seed, episode=0))
        player.act(2)
        info = player.info()
        assert info["illegal_action"] == 2
        assert player.episode.moves == [info["substituted"]]
        drawn.add(info["substituted"])
    assert drawn == {0, 1}


def test_an_opponent_that_raises_ends_the_game_without_a_winner():
    player = agent(opponent=Breaks(5), stones=8)
    player.act(0)
    assert player.episode.end_reason is None
    player.act(0)
    assert (player.reward, player.episode.end_reason) == (0.0, EndReason.OPPONENT_ERROR)
    assert player.episode.truncated
    assert player.info()["winner"] == -1
    assert "RuntimeError: out of order" in player.info()["detail"]


def test_a_failure_before_the_first_turn_is_reported_by_the_first_step():
    player = agent(opponent=Breaks(99), seat=1)
    assert player.info()["end_reason"] is EndReason.OPPONENT_ERROR
    assert not player.info()["action_mask"].any()
    player.act(0)
    assert player.episode.truncated
    with pytest.raises(ValueError, match=r"the episode is over \(opponent_error\): call reset"):
        player.act(0)


def test_finished_games_and_impossible_actions_are_refused():
    player = agent(opponent=None, stones=1)
    for action in (-1, 3):
        with pytest.raises(ValueError, match=rf"an action must be in 0\.\.2, got {action}"):
            player.act(action)
    player.act(0)
    with pytest.raises(ValueError, match=r"the episode is over \(finished\)"):
        player.act(0)
    with pytest.raises(ValueError, match="no episode has begun"):
        SingleAgent(player.table, opponent=None, seat=0, illegal="forfeit").act(0)


@pytest.mark.parametrize(
    "copied", [copy.deepcopy, lambda player: pickle.loads(pickle.dumps(player))]
)
@pytest.mark.parametrize("game_id", ["earl/TicTacToe-v0", "earl/ConnectFour-v0"])
def test_a_copy_in_mid_game_has_the_same_future(copied, game_id):
    player = agent(game_id)
    player.act(0)
    player.act(player.episode.legal[0])
    twin = copied(player)
    while player.episode.end_reason is None:
        assert twin.episode.state == player.episode.state
        action = player.episode.legal[-1]
        player.act(action)
        twin.act(action)
    assert twin.episode.moves == player.episode.moves
    assert twin.episode.returns == player.episode.returns


def test_the_same_key_gives_the_same_opponent():
    def moves(seed, episode):
        player = agent("earl/ConnectFour-v0")
        player.begin(EpisodeKey(seed=seed, episode=episode))
        while player.episode.end_reason is None:
            player.act(player.episode.legal[0])
        return tuple(player.episode.moves)

    assert moves(1, 2) == moves(1, 2)
    assert len({moves(seed, episode) for seed in range(3) for episode in range(3)}) == 9
