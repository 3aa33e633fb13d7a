"""Players that there are not, or that cannot play the game, are refused before anything is made."""

import pytest
from earl_envs import make_game
from earl_trainer.config import RunConfig
from earl_trainer.overrides import parse_flags, resolve
from earl_trainer.players import check_players

EVERY = "--tracking.checkpoint-every-steps"


def check(flags):
    config = resolve(RunConfig(), parse_flags(flags.split()))
    check_players(config, make_game(config.env))


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        ("--opponent slef", "unknown opponent 'slef'; did you mean 'self'? (valid: first, "),
        ("--opponent pool:recent", "unknown opponent 'pool:recent'; did you mean 'pool:recency'?"),
        ("--opponent pool:", "opponent 'pool' needs SPEC,SPEC,..."),
        (
            "--evaluation.opponent self",
            "evaluation.opponent must be none of the learner's own weights, so that matches of one "
            "run can be compared: name one such as 'random', got 'self'",
        ),
        ("--evaluation.opponent pool:rating", "evaluation.opponent must be none of the learner's"),
        (
            "--opponent self --env earl/2048-v0",
            "opponent 'self' needs a game of two seats or more, 'earl/2048-v0' has num_seats = 1",
        ),
        ("--opponent pool:recency --env earl/2048-v0", "opponent 'pool:recency' needs a game of"),
        (
            f"--opponent pool:rating {EVERY} 270",
            "opponent 'pool:rating' meets checkpoints of the run: tracking.checkpoint_every_steps "
            "must be less than its 270 steps, got 270",
        ),
        (
            "--opponent perfect --env earl/KuhnPoker-v0",
            "opponent 'perfect' cannot play 'earl/KuhnPoker-v0': ValueError: perfect play is for",
        ),
        (
            "--opponent pool:random,perfect --env earl/KuhnPoker-v0",
            "opponent 'pool:random,perfect' cannot play 'earl/KuhnPoker-v0': ValueError: perfect",
        ),
        pytest.param(
            "--opponent minimax --env earl/ConnectFour-v0",
            "opponent 'minimax' cannot play 'earl/ConnectFour-v0': ValueError: this game has more",
            marks=pytest.mark.slow,
        ),
        (
            "--evaluation.opponent scripted:99",
            "opponent 'scripted:99' cannot play 'earl/TicTacToe-v0': ValueError: no scripted",
        ),
        (
            "--warmup.player perfect --env earl/KuhnPoker-v0",
            "opponent 'perfect' cannot play 'earl/KuhnPoker-v0'",
        ),
    ],
)
def test_players_that_cannot_take_part_are_refused_in_one_line(flags, message):
    with pytest.raises(ValueError, match=r".") as refusal:
        check(flags)

    assert str(refusal.value).startswith(message)
    assert "\n" not in str(refusal.value)


@pytest.mark.parametrize(
    "flags",
    [
        "",
        "--opponent self",
        f"--opponent pool:rating {EVERY} 269",
        "--opponent pool:random,first",
        "--opponent minimax --evaluation.opponent negamax:2",
        # Asked for nothing yet: the server may be up only when the run is.
        "--opponent openai:http://127.0.0.1:9/v1#none",
        "--env earl/2048-v0",
    ],
)
def test_players_that_can_take_part_pass(flags):
    check(flags)


@pytest.mark.parametrize(
    ("changes", "rule"),
    [
        ({"opponents": ()}, "evaluation.opponents must name one"),
        ({"checkup_games": 3}, "evaluation.checkup_games must be a multiple of the game's 2 seats"),
        ({"opponents": ("rndom",)}, "rndom"),
        ({"opponents": ("random", "scripted:99")}, "'scripted:99' cannot play"),
    ],
)
def test_checkups_that_cannot_be_made_are_refused(changes, rule):
    evaluation = {"every_steps": 5, **changes}
    config = resolve(RunConfig(), {"evaluation": evaluation})
    with pytest.raises(ValueError, match=rule):
        check_players(config, make_game(config.env))


@pytest.mark.parametrize(
    "changes",
    [{"opponents": ("first",)}, {"past_selves": 2}, {"optimum": True}, {"checkup_games": 50}],
)
def test_what_only_checkups_look_at_is_refused_without_them(changes):
    (name,) = changes
    config = resolve(RunConfig(), {"evaluation": changes})
    with pytest.raises(ValueError, match=rf"there are no checkups: evaluation\.{name} must be "):
        check_players(config, make_game(config.env))
    checked = resolve(RunConfig(), {"evaluation": changes | {"every_steps": 5}})
    check_players(checked, make_game(config.env))


def test_optimal_moves_need_a_game_that_can_be_solved():
    asked = {"evaluation": {"every_steps": 5, "optimum": True}}
    check_players(resolve(RunConfig(), asked), make_game("earl/TicTacToe-v0"))
    config = resolve(RunConfig(), asked, {"env": "earl/KuhnPoker-v0"})
    with pytest.raises(ValueError, match=r"evaluation\.optimum needs a game that can be solved"):
        check_players(config, make_game(config.env))
