import pytest
from earl_trainer.preference.dataset import Demonstration
from earl_trainer.preference.lines import (
    DESIRABLE,
    MISMATCHED,
    Line,
    demonstration_columns,
    encode_turns,
    judged_columns,
    line_of,
    pair_columns,
)
from earl_trainer.rollout.engine import NO_WEIGHTS


def line(prompt, answer):
    return Line(
        token_ids=(*prompt, *answer),
        trained=(False,) * len(prompt) + (True,) * len(answer),
        num_prompt=len(prompt),
    )


def shown(*texts):
    roles = ("assistant", "user")
    return Demonstration(
        prompt=(("user", "[1] [2]"),),
        completion=tuple((roles[i % 2], text) for i, text in enumerate(texts)),
        origin="data.jsonl, line 1",
    )


def test_every_reply_is_written_behind_its_context(tiny_chat):
    first, second = encode_turns(tiny_chat, shown("[1]", "[2] [3]", "[3]"))
    assert first.reply_ids == tiny_chat.encode_reply("[1]")
    start = (*first.prompt_ids, *first.reply_ids)
    assert tuple(second.prompt_ids[: len(start)]) == start
    assert (
        second.prompt_ids
        == tiny_chat.extend(tiny_chat.start("", "[1] [2]"), first.reply_ids, "[2] [3]").prompt_ids
    )


def test_a_line_trains_replies_from_a_turn_on_and_nothing_that_others_said(make_turn):
    turns = [make_turn([1, 2], [3, 4]), make_turn([1, 2, 3, 4, 5], [6])]
    whole = line_of(turns)
    assert whole.token_ids == (1, 2, 3, 4, 5, 6)
    assert whole.trained == (False, False, True, True, False, True)
    assert whole.num_prompt == 2
    rest = line_of(turns, first=1)
    assert rest.token_ids == whole.token_ids
    assert rest.trained == (False,) * 5 + (True,)
    assert rest.answer_ids == (6,)


def test_a_line_ends_where_its_history_was_rewritten(make_turn):
    turns = [make_turn([1, 2], [3, 4]), make_turn([1, 2, 9], [6])]
    assert line_of(turns).token_ids == (1, 2, 3, 4)


def test_a_pair_is_one_row_of_both_lines():
    columns = pair_columns([(line([1], [2, 3]), line([1], [4])), (line([5], [6]), line([5], [7]))])
    assert columns.lengths.tolist() == [5, 4]
    assert columns.per_token["token_ids"].tolist() == [1, 2, 3, 1, 4, 5, 6, 5, 7]
    assert columns.per_token["mask"].int().tolist() == [0, 1, 1, 0, 1, 0, 1, 0, 1]
    assert columns.per_token["versions"].unique().tolist() == [NO_WEIGHTS]
    assert columns.per_row["chosen_tokens"].tolist() == [3, 2]


def test_demonstrations_count_alike():
    columns = demonstration_columns([line([1], [2]), line([3], [4])])
    assert columns.per_token["advantages"].tolist() == [1.0] * columns.num_tokens
    assert columns.lengths.tolist() == [2, 2]


def test_mismatched_answers_stand_behind_the_judged_ones():
    judged = [(line([1], [2]), True), (line([3, 4], [5, 6]), False)]
    columns = judged_columns(judged, [line([1], [5, 6])])
    assert columns.per_row[DESIRABLE].tolist()[:2] == [True, False]
    assert columns.per_row[MISMATCHED].tolist() == [False, False, True]
    rows = columns.per_token["token_ids"].split(columns.lengths.tolist())
    assert [row.tolist() for row in rows] == [[1, 2], [3, 4, 5, 6], [1, 5, 6]]
    trained = columns.per_token["mask"].split(columns.lengths.tolist())
    assert trained[2].tolist() == [False, True, True]


def judged_alone(judged):
    return judged_columns(judged, [])


@pytest.mark.parametrize("build", [demonstration_columns, pair_columns, judged_alone])
def test_nothing_gives_no_rows_of_the_same_schema(build):
    one = line([1], [2])
    example = {demonstration_columns: one, pair_columns: (one, one), judged_alone: (one, True)}
    assert build([]).num_rows == 0
    assert build([]).schema() == build([example[build]]).schema()
