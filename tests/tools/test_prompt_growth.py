"""The table of prompt growth in the documentation."""

import sys

import pytest


@pytest.fixture
def prompt_growth(load_tool):
    return load_tool("prompt_growth")


def test_the_stored_table_is_the_measured_one(prompt_growth, tmp_path, monkeypatch, capsys):
    guide = tmp_path / "environments.md"
    guide.write_text(prompt_growth.GUIDE.read_text())
    monkeypatch.setattr(prompt_growth, "GUIDE", guide)
    monkeypatch.setattr(sys, "argv", ["prompt_growth.py"])
    prompt_growth.main()
    assert capsys.readouterr().out in guide.read_text()


def test_writing_replaces_the_table_and_nothing_else(prompt_growth, tmp_path, monkeypatch):
    guide = tmp_path / "environments.md"
    guide.write_text(f"before\n{prompt_growth.START}old\n{prompt_growth.END}after\n")
    monkeypatch.setattr(prompt_growth, "GUIDE", guide)
    monkeypatch.setattr(prompt_growth, "table", lambda: "new\n")
    monkeypatch.setattr(sys, "argv", ["prompt_growth.py", "--write"])
    prompt_growth.main()
    assert guide.read_text() == (f"before\n{prompt_growth.START}new\n{prompt_growth.END}after\n")


@pytest.mark.parametrize("move", ["[1]", "[10]"])
def test_replies_are_of_one_length_and_end_in_the_move(prompt_growth, move):
    reply = prompt_growth._reply(move)
    assert len(reply) == prompt_growth.REPLY_CHARS
    assert reply.endswith(move)
