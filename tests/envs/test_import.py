"""What importing the package costs."""

import subprocess
import sys


def test_import_loads_no_game_and_nothing_heavy():
    code = "import earl_envs, sys; print('\\n'.join(sys.modules))"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = set(ran.stdout.split())
    assert not loaded & {"torch", "transformers", "gymnasium", "earl_envs.games"}
