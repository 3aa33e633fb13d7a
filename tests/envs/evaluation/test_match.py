"""Matches: seats exchanged, failures apart, counts by hand."""

import pytest
from earl_envs import EndReason, Game, ParseFailure, RandomOpponent, register_game
from earl_envs.evaluation.intervals import mean_interval
from earl_envs.evaluation.match import play_match
from earl_envs.evaluation.tally import Tally
from earl_envs.opponents.endpoint import NoLegalMoveError

ID = "earl/TicTacToe-v0"
TOSS, SHARED, ALONE, THREE = (
    f"test/{name}Match-v0" for name in ("Toss", "Shared", "Alone", "Three")
)


class OneMove(Game):
    """Every seat names a number in turn; subclasses score them."""

    num_seats, num_actions, max_moves = 2, 5, 2

    def initial(self, rng):
        return ()

    def seat(self, state):
        return len(state)

    def legal(self, state):
        return list(range(self.num_actions))

    def apply(self, state, action):
        return (*state, action)

    def returns(self, state):
        return self.score(state) if len(state) == self.num_seats else None

    def text(self, state, seat):
        return str(state)

    def move_name(self, state, action):
        return f"[{action}]"


class Toss(OneMove):
    """The dealt seat wins, whatever is played."""

    def initial(self, rng):
        return (int(rng.integers(2)),)

    def seat(self, state):
        return len(state) - 1

    def returns(self, state):
        if len(state) < 3:
            return None
        return (1.0, -1.0) if state[0] else (-1.0, 1.0)


class Shared(OneMove):
    """Both seats get the sum."""

    def score(self, state):
        return (float(sum(state)),) * 2


class Alone(OneMove):
    """One seat, its number is its score."""

    num_seats, max_moves = 1, 1

    def score(self, state):
        return (float(state[0]),)


class Three(OneMove):
    """Three seats, the numbers are the scores."""

    num_seats, max_moves = 3, 3

    def score(self, state):
        return tuple(map(float, state))


@pytest.fixture(scope="module", autouse=True)
def games():
    for game_id, game in ((TOSS, Toss), (SHARED, Shared), (ALONE, Alone), (THREE, Three)):
        register_game(game_id, game)


class Constant:
    def __init__(self, number):
        self.number = number

    def move(self, game, state, seat, rng):
        return self.number


class BrokenAs:
    """Random, but raises in one seat at times."""

    def __init__(self, seat):
        self.seat = seat

    def move(self, game, state, seat, rng):
        if seat == self.seat and rng.random() < 0.2:
            raise RuntimeError("no idea")
        return RandomOpponent().move(game, state, seat, rng)


class Mute:
    """Names no legal move in some seats and plays the first one in others."""

    def __init__(self, *seats, failure):
        self.seats = seats
        self.failure = failure

    def move(self, game, state, seat, rng):
        if seat in self.seats:
            raise NoLegalMoveError("m named no legal move", self.failure)
        return game.legal(state)[0]


def test_every_seed_is_played_once_from_each_seat():
    match = play_match(ID, "random", "first", num_games=20, seed=5)
    players = [tuple(episode.players) for episode in match.episodes]
    seeds = [episode.game.seed for episode in match.episodes]

    assert players == [("random", "first"), ("first", "random")] * 10
    assert seeds[::2] == seeds[1::2]
    assert len(set(seeds)) == 10
    assert len({tuple(episode.game.moves) for episode in match.episodes}) > 10


def test_a_seat_that_decides_everything_makes_an_even_match():
    match = play_match(TOSS, Constant(0), Constant(1), num_games=60, seed=0)

    assert (match.total.wins, match.total.draws, match.total.losses) == (30, 0, 30)
    assert match.by_seat[0].wins == match.by_seat[1].losses
    assert 0 < match.by_seat[0].wins < 30
    assert match.mean_returns == (0.0, 0.0)
    assert match.total.score == 0.5


def test_wins_draws_and_losses_are_those_of_the_records():
    match = play_match(ID, "random", "negamax:2", num_games=40, seed=1)
    outcomes = [
        episode.returns[list(episode.players).index("random")] for episode in match.episodes
    ]

    assert match.total == Tally(
        wins=outcomes.count(1.0), draws=outcomes.count(0.0), losses=outcomes.count(-1.0)
    )
    assert match.total.losses > 20
    assert match.total.draws > 0
    assert match.total.games == sum(tally.games for tally in match.by_seat) == 40
    assert match.mean_returns[0] == -match.mean_returns[1] == sum(outcomes) / 40
    assert match.end_reasons == {EndReason.FINISHED: 40}


def test_random_play_gives_the_first_seat_its_edge():
    match = play_match(ID, "random", "random", num_games=600, seed=1)

    assert match.players == ("random (a)", "random (b)")
    # 737 of 1260 games are won by the first of two random players, 363 by the second.
    assert match.by_seat[0].win_rate == pytest.approx(737 / 1260, abs=0.08)
    assert match.by_seat[1].win_rate == pytest.approx(363 / 1260, abs=0.08)
    low, high = match.total.score_interval
    assert low < 0.5 < high


def test_a_pair_with_a_failure_is_counted_apart_and_never_won():
    match = play_match(ID, BrokenAs(0), "random", num_games=100, seed=2)
    failed = [e.end_reason is EndReason.OPPONENT_ERROR for e in match.episodes]
    pairs = [any(failed[i : i + 2]) for i in range(0, 100, 2)]

    assert 0 < sum(failed) < 50
    assert match.end_reasons == {
        EndReason.FINISHED: 100 - sum(failed),
        EndReason.OPPONENT_ERROR: sum(failed),
    }
    assert match.num_excluded == 2 * sum(pairs)
    assert match.total.games == 100 - match.num_excluded
    assert match.by_seat[0].games == match.by_seat[1].games
    assert "BrokenAs in seat 0: RuntimeError: no idea" in "".join(e.detail for e in match.episodes)


def test_a_player_that_never_names_a_legal_move_scores_the_floor():
    mute = Mute(0, 1, failure=ParseFailure.UNPARSABLE)
    match = play_match(ID, mute, "random", num_games=20, seed=0)

    assert match.total == Tally(wins=0, draws=0, losses=20)
    assert match.mean_returns == (-1.0, 1.0)
    assert match.num_excluded == 0
    assert match.end_reasons == {EndReason.UNPARSABLE: 20}
    assert match.faults == {"Mute": {EndReason.UNPARSABLE: 20}, "random": {}}
    assert match.episodes[1].detail == "Mute in seat 1: m named no legal move"


def test_forfeits_and_errors_are_told_apart_by_player():
    mute = Mute(1, failure=ParseFailure.ILLEGAL)
    match = play_match(ID, BrokenAs(0), mute, num_games=60, seed=0)
    failed = [e for e in match.episodes if e.end_reason is EndReason.OPPONENT_ERROR]

    assert 0 < len(failed) < 20
    assert match.faults == {
        "BrokenAs": {EndReason.OPPONENT_ERROR: len(failed)},
        "Mute": {EndReason.ILLEGAL_MOVE: 30 - len(failed)},
    }
    assert match.by_seat[0].wins == match.by_seat[0].games == 30 - len(failed)
    assert match.describe().splitlines()[-2:] == [
        f"by BrokenAs: opponent_error {len(failed)}",
        f"by Mute: illegal_move {30 - len(failed)}",
    ]


def test_a_pair_scores_what_its_games_do_on_average():
    match = play_match(ID, "random", "negamax:1", num_games=60, seed=3)
    points = [
        (1 + episode.returns[list(episode.players).index("random")]) / 2
        for episode in match.episodes
    ]

    assert match.pair_scores == [
        (a + b) / 2 for a, b in zip(points[::2], points[1::2], strict=True)
    ]
    assert len(set(match.pair_scores)) > 2
    assert match.paired_interval == mean_interval(match.pair_scores)
    assert (
        play_match(TOSS, Constant(0), Constant(1), num_games=60, seed=0).pair_scores == [0.5] * 30
    )
    assert play_match(ALONE, Constant(4), Constant(1), num_games=4, seed=0).pair_scores == [1.0] * 2


def test_a_match_in_which_every_pair_failed_says_why():
    with pytest.raises(ValueError, match=r"every pair of games failed.*the move 77 is not legal"):
        play_match(ID, Constant(77), "random", num_games=4, seed=0)


def test_where_all_seats_share_a_score_the_mean_return_tells():
    match = play_match(SHARED, Constant(4), Constant(1), num_games=6, seed=0)

    assert (match.total.draws, match.total.games) == (6, 6)
    assert match.mean_returns == (5.0, 5.0)


def test_alone_both_play_each_seed_and_are_compared():
    match = play_match(ALONE, Constant(4), Constant(1), num_games=10, seed=0)

    assert (match.total.wins, match.total.games) == (5, 5)
    assert match.mean_returns == (4.0, 1.0)


def test_of_three_seats_one_is_compared_with_the_best_of_the_others():
    match = play_match(THREE, Constant(3), Constant(1), num_games=6, seed=0)

    assert [tally.wins for tally in match.by_seat] == [2, 2, 2]
    assert match.mean_returns == (3.0, 1.0)
    assert [list(episode.players).index("Constant (a)") for episode in match.episodes] == [
        0, 1, 2, 0, 1, 2,
    ]  # fmt: skip


@pytest.mark.parametrize("num_games", [0, -2, 3, 5])
def test_games_that_cannot_be_paired_are_refused(num_games):
    with pytest.raises(ValueError, match=f"multiple of 2, .* got {num_games}$"):
        play_match(ID, "random", "first", num_games=num_games, seed=0)


def test_a_longer_match_begins_with_the_shorter_one():
    short = play_match(ID, "random", "first", num_games=6, seed=9)
    long = play_match(ID, "random", "first", num_games=12, seed=9)

    assert list(long.episodes[:6]) == list(short.episodes)


def test_a_report_reads_as_lines():
    match = play_match(ID, "random", "first", num_games=10, seed=0)
    lines = match.describe().splitlines()

    assert lines[0] == "earl/TicTacToe-v0: random against first, 10 games, 0 left out"
    low, high = match.total.score_interval
    paired_low, paired_high = match.paired_interval
    assert lines[1].startswith(
        f"score {match.total.score:.1%} [{low:.1%}, {high:.1%}], "
        f"by seeds [{paired_low:.1%}, {paired_high:.1%}], mean returns "
    )
    assert [line.split(":")[0] for line in lines[2:]] == ["all seats", "seat 0", "seat 1", "ended"]
    assert f"won {match.total.win_rate:.1%}" in lines[2]
    assert lines[5] == "ended: finished 10"


def test_matches_that_repeat_one_pair_of_games_say_so():
    repeated = play_match(ID, "first", "first", num_games=8, seed=0)
    assert repeated.is_repetitive
    assert "every pair of games is the same" in repeated.describe()
    for match in (
        play_match(ID, "first", "first", num_games=2, seed=0),
        play_match(ID, "first", "random", num_games=8, seed=0),
        play_match(TOSS, Constant(0), Constant(1), num_games=8, seed=0),
        play_match("earl/KuhnPoker-v0", "first", "first", num_games=8, seed=0),
    ):
        assert not match.is_repetitive
        assert "every pair" not in match.describe()
