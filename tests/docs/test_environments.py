"""The Python in the guide to the environments runs as it stands there, block after block."""

import re
from pathlib import Path

import pytest

GUIDE = Path(__file__).parents[2] / "docs" / "environments.md"


@pytest.mark.slow
def test_every_snippet_prints_what_its_comments_say(capsys):
    blocks = re.findall(r"```python\n(.*?)```", GUIDE.read_text(), re.DOTALL)
    assert len(blocks) >= 8
    namespace = {"__name__": "guide"}
    for block in blocks:
        exec(compile(block, GUIDE.name, "exec"), namespace)
        expected = re.findall(r"^ *print\(.*\)  # (.*)$", block, re.MULTILINE)
        assert capsys.readouterr().out.splitlines() == expected
        assert expected or "import" in block


def test_the_guide_names_every_kind_of_opponent_and_end():
    from earl_envs import OPPONENTS, EndReason

    guide = GUIDE.read_text()
    assert [name for name in OPPONENTS if f"`{name}" not in guide] == []
    assert [reason.value for reason in EndReason if f"`{reason.value}`" not in guide] == []
