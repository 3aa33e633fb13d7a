"""The Python in the packages' READMEs runs as it stands there."""

import ast
import re
from pathlib import Path

import pytest

PACKAGES = Path(__file__).parents[2] / "packages"


def python_blocks(package):
    text = (PACKAGES / package / "README.md").read_text()
    blocks = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    assert blocks
    return blocks


@pytest.mark.parametrize("package", ["dispatch", "envs", "selector"])
def test_examples_run_and_print_what_their_comments_say(package, capsys):
    for block in python_blocks(package):
        exec(compile(block, f"{package}/README.md", "exec"), {"__name__": "readme"})
        printed = capsys.readouterr().out
        assert printed
        for expected in re.findall(r"^print\(.*\)  # (.*)$", block, re.MULTILINE):
            assert expected in printed.splitlines()


def test_the_example_of_the_trainer_resolves_up_to_the_training():
    (block,) = python_blocks("trainer")
    module = ast.parse(block)
    training = module.body.pop()
    assert "assemble_run" in ast.unparse(training)
    namespace = {"__name__": "readme"}
    exec(compile(module, "trainer/README.md", "exec"), namespace)
    names = {node.id for node in ast.walk(training) if isinstance(node, ast.Name)}
    assert names <= set(namespace)
