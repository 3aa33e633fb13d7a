"""What holds for every source file."""

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SOURCES = sorted(
    path
    for path in ROOT.glob("packages/*/src/**/*.py")
    if path.name not in ("__init__.py", "__main__.py")
)
# The only modules that may import these; each is heavy, optional, or somebody else's API.
HOMES = {
    "wandb": {"tracking/wandb_sink.py"},
    "matplotlib": {
        "tracking/plot.py",
        "cli/comparison_plot.py",
        "cli/tp_plot.py",
        "cli/async_plot.py",
    },
    "rich": {"tracking/console.py", "cli/profile_progress.py"},
    "tokenizers": {"models/tiny.py"},
    "pydantic": {"config_fields.py", "overrides.py"},
    "yaml": {"overrides.py"},
    "ray": {
        "parallel/ray_ranks.py",
        "asynchronous/pool.py",
        "asynchronous/ray_placement.py",
    },
    "vllm": {"rollout/vllm_library.py", "serving/gloo_receiver.py"},
    "httpx": {"serving/http.py"},
}

SECTIONS_TEST = "test_config.py"


def package_and_module(path: Path) -> tuple[str, Path]:
    relative = path.relative_to(ROOT / "packages")
    return relative.parts[0], Path(*relative.parts[3:])


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(Path(*package_and_module(path))))
def test_every_module_has_tests_of_its_own(path: Path):
    package, module = package_and_module(path)
    # Sections of the configuration have one test, over all fields.
    is_section = module.name in {"config.py", "config_fields.py"}
    own = Path(SECTIONS_TEST) if is_section else module.with_name(f"test_{module.name}")
    test = ROOT / "tests" / package / own
    assert test.is_file(), f"{test.relative_to(ROOT)} is missing"


def test_foreign_libraries_are_imported_by_their_one_module():
    strays: list[str] = []
    for path in SOURCES:
        package, module = package_and_module(path)
        strays.extend(
            f"{module} imports {name}"
            for name in imported_packages(path)
            if package == "trainer" and name in HOMES and str(module) not in HOMES[name]
        )
    assert not strays


def imported_packages(path: Path) -> set[str]:
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            names.add(node.module.split(".")[0])
    return names


def test_the_training_step_fits_one_screen():
    tree = ast.parse((ROOT / "packages/trainer/src/earl_trainer/loop.py").read_text())
    functions = [node for node in tree.body if isinstance(node, ast.FunctionDef)]
    lines = {function.name: function.end_lineno - function.lineno + 1 for function in functions}
    assert set(lines) == {"train", "train_step"}
    assert sum(lines.values()) <= 60, lines
