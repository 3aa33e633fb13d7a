import json

import pytest
from earl_trainer.preference.dataset import read_demonstrations, read_judged, read_pairs

USER = {"role": "user", "content": "board"}
SYSTEM = {"role": "system", "content": "rules"}
GOOD, BAD = {"role": "assistant", "content": "[1]"}, {"role": "assistant", "content": "[2]"}
ASKED = (("user", "board"),)


@pytest.fixture
def file(tmp_path):
    def make(*rows):
        path = tmp_path / "data.jsonl"
        path.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
        return path

    return make


def test_messages_are_a_prompt_up_to_the_first_answer(file):
    path = file({"messages": [SYSTEM, USER, GOOD, USER, BAD]})
    (shown,) = read_demonstrations(path)
    assert shown.prompt == (("system", "rules"), ("user", "board"))
    assert shown.completion == (("assistant", "[1]"), ("user", "board"), ("assistant", "[2]"))
    assert shown.origin == f"{path}, line 1"


@pytest.mark.parametrize(
    "row",
    [
        {"prompt": "board", "completion": "[1]"},
        {"prompt": [USER], "completion": [GOOD]},
        {"prompt": "board", "completion": [GOOD], "source": "elsewhere"},
    ],
)
def test_texts_are_messages_of_the_user_and_the_assistant(file, row):
    (shown,) = read_demonstrations(file(row))
    assert (shown.prompt, shown.completion) == (ASKED, (("assistant", "[1]"),))


@pytest.mark.parametrize(
    "row",
    [
        {"prompt": "board", "chosen": "[1]", "rejected": "[2]"},
        {"prompt": [USER], "chosen": [GOOD], "rejected": [BAD]},
        {"chosen": [USER, GOOD], "rejected": [USER, BAD]},
        # UltraFeedback repeats the prompt inside the answers.
        {"prompt": "board", "chosen": [USER, GOOD], "rejected": [USER, BAD]},
    ],
)
def test_pairs_are_two_answers_to_one_prompt(file, row):
    (pair,) = read_pairs(file(row))
    assert pair.chosen.prompt == pair.rejected.prompt == ASKED
    assert pair.chosen.completion == (("assistant", "[1]"),)
    assert pair.rejected.completion == (("assistant", "[2]"),)


def test_judged_answers_have_a_label(file):
    row = {"prompt": "board", "completion": "[1]"}
    answers = read_judged(file({**row, "label": True}, {**row, "label": False}))
    assert [each.desirable for each in answers] == [True, False]
    assert answers[0].answer.completion == (("assistant", "[1]"),)


def test_judged_answers_of_one_kind_are_refused(file):
    row = {"prompt": "board", "completion": "[1]", "label": True}
    with pytest.raises(ValueError, match="good and bad, none has label false"):
        read_judged(file(row, row))


PROBLEMS = [
    (read_pairs, {"prompt": "a", "chosen": "b"}, "'rejected': is missing; the line has prompt"),
    (read_pairs, {"prompt": "a", "chosen": "b", "rejected": "b"}, "'rejected': must differ"),
    (read_pairs, {"prompt": "a", "chosen": " ", "rejected": "b"}, "'chosen': .* say something"),
    (read_pairs, {"prompt": "a", "chosen": [], "rejected": "b"}, "'chosen': must be a text or"),
    (read_pairs, {"chosen": [USER, GOOD], "rejected": [USER]}, "'rejected': nothing is left"),
    (read_pairs, {"chosen": "b", "rejected": "c"}, "'prompt': is missing"),
    (read_demonstrations, {"messages": [USER]}, "'messages': a turn of the assistant is needed"),
    (read_demonstrations, {"messages": [GOOD]}, "'messages': user and assistant must take turns"),
    (read_demonstrations, {"messages": [USER, USER, GOOD]}, "'messages': .* take turns"),
    (read_demonstrations, {"messages": [USER, GOOD, USER]}, "'messages': .* take turns"),
    (read_demonstrations, {"prompt": "a", "completion": 3}, "'completion': must be a text or"),
    (read_demonstrations, {"prompt": ["a"], "completion": "b"}, "'prompt': a message has a role"),
    (
        read_demonstrations,
        {"messages": [{"role": "tool", "content": "x"}]},
        "'messages': roles are system, user and assistant, got 'tool'",
    ),
    (read_judged, {"prompt": "a", "completion": "b", "label": 1}, "'label': must be true or"),
]


@pytest.mark.parametrize(("read", "row", "message"), PROBLEMS)
def test_the_line_and_the_field_at_fault_are_named(file, read, row, message):
    with pytest.raises(ValueError, match=f"line 1, field {message}"):
        read(file(row))


def test_a_file_without_a_line_is_refused(file):
    with pytest.raises(ValueError, match="holds no line of data"):
        read_pairs(file())
