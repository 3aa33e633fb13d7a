"""The package's README and what importing the package costs."""

import re
import subprocess
import sys
from pathlib import Path

README = Path(__file__).parents[2] / "packages/envs/README.md"


def test_readme_example_runs_and_prints_a_finished_game():
    (code,) = re.findall(r"```python\n(.*?)```", README.read_text(), re.DOTALL)
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout.startswith("Tic-Tac-Toe.")
    assert ran.stdout.count("X") >= 3


def test_import_loads_no_game_and_nothing_heavy():
    code = "import earl_envs, sys; print('\\n'.join(sys.modules))"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = set(ran.stdout.split())
    assert not loaded & {"torch", "transformers", "gymnasium", "earl_envs.games"}
