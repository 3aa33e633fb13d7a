import json

import pytest
from earl_trainer.preference.load import load_demonstrations, load_judged, load_pairs


@pytest.fixture
def file(tmp_path):
    def make(*rows):
        path = tmp_path / "data.jsonl"
        path.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
        return path

    return make


def test_pairs_become_lines_of_one_prompt(file, tiny_chat):
    path = file({"prompt": "[1] [2]", "chosen": "[1]", "rejected": "[2]"})
    ((chosen, rejected),) = load_pairs(path, tiny_chat, max_tokens=64)
    prompt = tiny_chat.start("", "[1] [2]").prompt_ids
    assert chosen.token_ids == (*prompt, *tiny_chat.encode_reply("[1]"))
    assert rejected.token_ids == (*prompt, *tiny_chat.encode_reply("[2]"))


def test_demonstrations_become_turns_and_judged_answers_lines(file, tiny_chat):
    row = {"prompt": "[1]", "completion": "[1]"}
    path = file({**row, "label": True}, {**row, "label": False})
    ((turn,), _) = load_demonstrations(path, tiny_chat, max_tokens=64)
    assert turn.reply_ids == tiny_chat.encode_reply("[1]")
    judged = load_judged(path, tiny_chat, max_tokens=64)
    assert [good for _, good in judged] == [True, False]
    assert judged[0][0].answer_ids == tiny_chat.encode_reply("[1]")


def test_a_context_that_is_too_long_is_refused_by_its_line(file, tiny_chat):
    short, long = ({"prompt": "[1] " * n, "completion": "[1]"} for n in (1, 50))
    with pytest.raises(ValueError, match=r"line 2: .* rollout\.max_context_tokens = 20, it has"):
        load_demonstrations(file(short, long), tiny_chat, max_tokens=20)


def test_answers_that_differ_in_text_but_not_in_tokens_are_refused(file, tiny_chat):
    path = file({"prompt": "[1]", "chosen": "Paris", "rejected": "Rome"})
    with pytest.raises(ValueError, match="line 1: both answers are the same 2 tokens"):
        load_pairs(path, tiny_chat, max_tokens=64)
