"""The measuring scripts, which are no package."""

import importlib
from pathlib import Path

import pytest

TOOLS = Path(__file__).parents[2] / "tools"


@pytest.fixture
def load_tool(monkeypatch):
    """Import a script by its name."""
    monkeypatch.syspath_prepend(TOOLS)
    return importlib.import_module
