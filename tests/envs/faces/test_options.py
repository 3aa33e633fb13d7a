"""Checks of what callers pass."""

import json
import subprocess
import sys

import numpy as np
import pytest
from earl_envs.faces.options import as_policy, as_seed, check_options


def test_unknown_options_are_refused_and_the_valid_ones_named():
    check_options(None)
    check_options({})
    check_options({"reset_mask": 1}, ("reset_mask",))
    with pytest.raises(ValueError, match=r"no option 'speed' \(valid: reset_mask\)"):
        check_options({"speed": 1}, ("reset_mask",))
    with pytest.raises(ValueError, match=r"no option 'speed' \(valid: none\)"):
        check_options({"speed": 1})
    with pytest.raises(ValueError, match=r"options of reset\(\) must be a dict or None, got 3"):
        check_options(3)


@pytest.mark.parametrize("seed", [0, 3, 2**70, np.int64(3), np.uint8(3)])
def test_integers_of_all_kinds_are_seeds(seed):
    assert as_seed(seed) == seed
    assert type(as_seed(seed)) is int
    assert as_seed(None) is None


@pytest.mark.parametrize("seed", [True, np.True_, 1.5, 1.0, "a", [1], -1])
def test_nothing_else_is_a_seed(seed):
    with pytest.raises(ValueError, match="seed must be"):
        as_seed(seed)


def test_policies_are_named_by_strings():
    assert as_policy("retry(3)").num_retries == 3
    with pytest.raises(ValueError, match="illegal must be a string such as 'forfeit', got 5"):
        as_policy(5)
    with pytest.raises(ValueError, match="did you mean 'noop'"):
        as_policy("nop")


MISUSES = {
    "GameEnv(ID, illegal=5)": "illegal must be a string",
    "GameEnv(ID, opponent=5)": "opponent must be a player",
    "GameEnv(ID, opponent=Player)": "opponent must be a player",
    "GameEnv(ID, render_mode=5)": "unknown render mode '5'",
    "GameEnv(ID, seat=0.0)": "seat must be an integer, got 0.0",
    "GameEnv(ID, seat=True)": "seat must be an integer, got True",
    "GameEnv(ID).reset(seed='a')": "seed must be an integer, got 'a'",
    "GameEnv(ID).reset(options=3)": "must be a dict or None, got 3",
    "GameTextEnv(ID, illegal=5)": "illegal must be a string",
    "GameTextEnv(ID, seat='0')": "seat must be an integer, got '0'",
    "GameTextEnv(ID, opponent=Player)": "opponent must be a player",
    "GameTextEnv(ID).reset(seed=1.5)": "seed must be an integer, got 1.5",
    "GameTextEnv(ID, history=5)": "unknown history policy '5'",
    "GameTextEnv(ID, limits=5)": "limits must be TextLimits(...) or None, got 5",
    "GameTextEnv(ID, count_tokens=5)": "count_tokens must be a function of a text, got 5",
    "(e := GameTextEnv(ID), e.reset(seed=0), e.step(b'[1]'))": "must be a string, got b'[1]'",
    "TextLimits(turns=0)": "turns must be >= 1, got 0",
    "TextLimits(reply_tokens=1.5)": "reply_tokens must be an integer, got 1.5",
    "GameVectorEnv(1.5, ID)": "num_envs must be an integer, got 1.5",
    "GameVectorEnv(2, ID, illegal=5)": "illegal must be a string",
    "GameVectorEnv(2, ID, opponent=5)": "opponent must be a player",
    "GameVectorEnv(2, ID, seat=0.5)": "seat must be an integer, got 0.5",
    "GameVectorEnv(2, ID, autoreset_mode=5)": "valid: Disabled, NextStep, SameStep",
    "GameVectorEnv(2, ID).reset(seed=True)": "seed must be an integer, got True",
    "GameVectorEnv(2, ID).reset(seed='ab')": "seed must be an integer, got 'ab'",
    "GameVectorEnv(2, ID).reset(seed=[1, 1.5])": "seed must be an integer, got 1.5",
    "GameVectorEnv(2, ID).record(0.5)": "index must be an integer, got 0.5",
    "pettingzoo_env(ID, illegal=5)": "illegal must be a string",
    "pettingzoo_env(ID).reset(seed='a')": "seed must be an integer, got 'a'",
    "pettingzoo_env(ID).reset(options=3)": "must be a dict or None, got 3",
    "pettingzoo_env(ID).action_space(5)": "unknown agent '5'",
    "pettingzoo_parallel_env(ID).reset(seed=1.5)": "seed must be an integer, got 1.5",
    "(e := pettingzoo_parallel_env(ID), e.reset(seed=0), e.step(None))": "must be a dict",
}

PROGRAM = """
import json, sys
from earl_envs import pettingzoo_env, pettingzoo_parallel_env
from earl_envs.faces.gymnasium_env import GameEnv
from earl_envs.faces.gymnasium_text_env import GameTextEnv
from earl_envs.faces.gymnasium_vector import GameVectorEnv
from earl_envs.faces.text_limits import TextLimits

ID = "earl/TicTacToe-v0"

class Player:
    def move(self, game, state, seat, rng):
        return 0

def outcome(code):
    try:
        return repr(eval(code))
    except Exception as error:
        return f"{type(error).__name__}: {error}"

print(json.dumps([outcome(code) for code in json.loads(sys.argv[1])]))
"""


def test_no_environment_answers_a_misuse_with_a_raw_error():
    # In a process of its own: under these tests the annotations refuse the values before it.
    program = [sys.executable, "-c", PROGRAM, json.dumps([*MISUSES])]
    ran = subprocess.run(program, capture_output=True, text=True, check=True)
    outcomes = dict(zip(MISUSES, json.loads(ran.stdout), strict=True))
    for misuse, complaint in MISUSES.items():
        assert outcomes[misuse].startswith("ValueError: "), (misuse, outcomes[misuse])
        assert complaint in outcomes[misuse], (misuse, outcomes[misuse])
