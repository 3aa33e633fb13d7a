"""Each package is built, installed and imported without the workspace around it."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
# `uv run` says which uv it is; it need not be on the path.
UV = os.environ.get("UV") or shutil.which("uv")
# What `import earl_X` may load of the libraries that take seconds or that a user may not want.
HEAVY = ("torch", "transformers", "vllm", "ray", "wandb", "matplotlib", "gymnasium", "pettingzoo")
ALLOWED = {
    "earl_envs": {"gymnasium", "pettingzoo"},
    "earl_selector": set[str](),
    "earl_dispatch": {"torch"},
    "earl_trainer": {"gymnasium", "pettingzoo"},
}
# What has to run besides: modules that import nearly all else, so that no dependency is undeclared.
USES = {
    "earl_trainer": [
        ["bin/earl", "games"],
        ["bin/python", "-I", "-c", "import earl_trainer.assemble"],
    ],
}


def uv(*arguments: str | Path) -> str:
    if UV is None:
        pytest.fail("uv is not on the path: pip install uv")
    return run(UV, *arguments, cwd=ROOT)


def run(*command: str | Path, cwd: Path) -> str:
    result = subprocess.run(command, cwd=cwd, capture_output=True, text=True, timeout=300)
    assert result.returncode == 0, result.stderr
    return result.stdout


@pytest.fixture(scope="module")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheels")
    uv("build", "--quiet", "--wheel", "--all-packages", "--out-dir", folder)
    # The versions of the lock, so that this test resolves to what everything else here runs with.
    locked = uv("export", "--quiet", "--frozen", "--no-hashes", "--no-emit-workspace", "--no-dev")
    (folder / "constraints.txt").write_text(locked)
    return folder


@pytest.mark.slow
@pytest.mark.parametrize("module", sorted(ALLOWED))
def test_wheel_installs_alone_and_imports_light(module: str, wheels: Path, tmp_path: Path):
    python = tmp_path / "venv" / "bin" / "python"
    uv("venv", "--quiet", "--python", sys.executable, tmp_path / "venv")
    uv(
        "pip", "install", "--quiet", "--python", python, "--find-links", wheels,
        "--constraint", wheels / "constraints.txt", *wheels.glob(f"{module}-*.whl"),
    )  # fmt: skip
    script = (
        f"import sys, json, {module}; print(json.dumps([{module}.__file__, list(sys.modules)]))"
    )
    file, loaded = json.loads(run(python, "-I", "-c", script, cwd=tmp_path))
    assert Path(file).is_relative_to(tmp_path)
    assert {name for name in HEAVY if name in loaded} == ALLOWED[module]
    for program, *arguments in USES.get(module, []):
        run(tmp_path / "venv" / program, *arguments, cwd=tmp_path)
