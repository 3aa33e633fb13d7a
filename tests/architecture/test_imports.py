"""Which package may import which: the contracts in the root pyproject.toml."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
LINT_IMPORTS = Path(sys.executable).with_name("lint-imports")


def run_contracts(folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [LINT_IMPORTS, "--config", folder / "pyproject.toml", "--no-cache"],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=120,
    )


def test_import_contracts_are_kept():
    result = run_contracts(ROOT)
    assert result.returncode == 0, result.stdout
    assert "0 broken" in result.stdout
