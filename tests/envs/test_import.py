"""What importing the package costs."""

import subprocess
import sys


def test_import_loads_no_game_and_nothing_heavy():
    code = "import earl_envs, sys; print('\\n'.join(sys.modules))"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = set(ran.stdout.split())
    assert not loaded & {"torch", "transformers", "numba", "PIL", "pyspiel", "textarena"}
    assert not loaded & {"earl_envs.games", "earl_envs.kernels", "earl_envs.adapters"}


def test_every_game_is_known_to_gymnasium_after_the_import():
    code = """
import earl_envs, gymnasium
for game_id in earl_envs.game_ids():
    assert gymnasium.spec(game_id).kwargs == {"game_id": game_id}
env = gymnasium.make("earl/TicTacToe-v0")
print(env.reset(seed=0)[0].shape)
"""
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.strip() == "(2, 3, 3)"
