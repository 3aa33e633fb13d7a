"""Taking reasoning out of replies."""

import pytest
from earl_envs.text.reasoning import after_reasoning, without_reasoning
from hypothesis import example, given, settings
from hypothesis import strategies as st

TAGS = (
    *("<think>", "</think>", "<THINK>", "</THINK>", "<thinking>", "</thinking>"),
    *("<reasoning>", "</reasoning>", "[THINK]", "[/THINK]", "<", "</", "[", "]"),
)


@pytest.mark.parametrize(
    ("reply", "rest"),
    [
        ("", ""),
        ("a < b", "a < b"),
        ("<think>a</think>b", "b"),
        ("a<thought>b</thought>c<Reasoning>d</Reasoning>e", "ace"),
        ("a[THINK]b[/THINK]c", "ac"),
        ("a<think>b", "a"),
        ("a</think>b", "b"),
        ("a[/THINK]b", "b"),
        ("<think>a</thinking>b", ""),
        ("<think>a[/THINK]b</think>c", "c"),
        ("<think><think>a</think>b</think>c", "c"),
        ("<thinks>a</thinks>", "<thinks>a</thinks>"),
    ],
)
def test_blocks_of_reasoning_are_taken_out(reply, rest):
    assert without_reasoning(reply) == rest


@pytest.mark.parametrize(
    ("reply", "rest"),
    [
        ("<think>a</think>b", "b"),
        ("<think>a < b</think><answer>c</answer>", "<answer>c</answer>"),
        ("a</think>b<c>", "b<c>"),
        ("a[/THINK]b</think>c", "c"),
        ("[THINK]a[/THINK]b", "b"),
        ("[THINK]a</think>b", "<THINK>a</think>b"),
        ("<think>a", "<think>a"),
        ("a<think>b</think>c", "a<think>b</think>c"),
        ("[a]", "[a]"),
    ],
)
def test_reasoning_in_front_is_dropped_where_that_is_easy(reply, rest):
    assert after_reasoning(reply) == rest


@settings(max_examples=300)
@given(parts=st.lists(st.sampled_from((*TAGS, "x", " ")), max_size=10))
@example(parts=["<THINK>", "[/THINK]", "x", "<think>", "</THINK>"])
def test_dropping_it_first_leaves_the_same(parts):
    reply = "".join(parts)
    assert without_reasoning(after_reasoning(reply)) == without_reasoning(reply)


@given(before=st.text(), inside=st.text(), after=st.text())
def test_prose_outside_a_block_stays_as_it_is(before, inside, after):
    # What looks like a tag is another test's.
    before, inside, after = (text.translate({60: "", 91: ""}) for text in (before, inside, after))
    reply = f"{before}<think>{inside}</think>{after}"
    assert without_reasoning(reply) == before + after
