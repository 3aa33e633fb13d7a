"""Finding answers: the rules of `find_answer`, one by one, and the time it takes."""

import time

import pytest
from earl_envs.text.answer import AnswerFault, bare_name, find_answer
from hypothesis import given, settings
from hypothesis import strategies as st

MISSING, UNMATCHED, AMBIGUOUS = AnswerFault


@pytest.mark.parametrize(
    ("reply", "answer"),
    [
        # Without structure the last complete bracket answers.
        ("[a]", "a"),
        ("[a] no, [ b ].", "b"),
        ("[[a]]", "a"),
        ("[a] or [b", "a"),
        ("[a] or b]", "a"),
        ("[]", ""),
        ("", MISSING),
        ("a", MISSING),
        ("]a[", MISSING),
        # A structured answer is final, bare or in brackets.
        ("[a] <answer>b</answer> [c]", "b"),
        ("<action> [b] </action>", "b"),
        ("I say <answer>I take [b].</answer>", "b"),
        (r"so \boxed{b}", "b"),
        (r"so \boxed{[b]}", "b"),
        (r"so \boxed{\text{[b]}}", "b"),
        (r"<answer>\boxed{b}</answer>", "b"),
        ("<answer></answer> [a]", ""),
        # In upper or lower case.
        ("[a] <Answer>b</Answer> [c]", "b"),
        ("<ANSWER>b</ANSWER> [a]", "b"),
        ("<Answer>b</answer> [a]", "b"),
        ("<ACTION>[b]</ACTION> [a]", "b"),
        ("<Answer>a</Action> [b]", UNMATCHED),
        # The one that closes last decides.
        ("<answer>a</answer><answer>b</answer>", "b"),
        (r"<answer>a</answer>\boxed{b}", "b"),
        (r"\boxed{a}<answer>b</answer>", "b"),
        ("<answer>a</answer><answer>b", "a"),
        (r"<answer>a</answer>\boxed{b", "a"),
        ("<answer>a<answer>b</answer>", "b"),
        # One answer names one move.
        ("<answer>[a] or [b]</answer>", AMBIGUOUS),
        ("<answer>[a], so [ a ]</answer>", "a"),
        ("<answer>5 [6]</answer>", AMBIGUOUS),
        ("<answer>[e4] or e5</answer>", AMBIGUOUS),
        (r"\boxed{5 [6]}", AMBIGUOUS),
        ("<answer>[a 5]</answer>", "a 5"),
        (r"<answer>\boxed{a} \boxed{b}</answer>", AMBIGUOUS),
        ("<answer>a or b</answer>", "a or b"),
        # Tags that do not match leave no answer, whatever else is written.
        ("<answer>a</action> [b]", UNMATCHED),
        ("<action>a</answer> [b]", UNMATCHED),
        ("<answer>[a]", UNMATCHED),
        ("[a]</answer>", UNMATCHED),
        (r"[a] \boxed{b", UNMATCHED),
        ("<answer>a</answer>b</answer>", UNMATCHED),
        ("<answer><action>a</action></answer>", UNMATCHED),
        # Reasoning does not count.
        ("<think>[a]</think>[b]", "b"),
        ("<thinking><answer>a</answer></thinking>[b]", "b"),
        (r"<reasoning>\boxed{a}</reasoning>[b]", "b"),
        ("<thought>[a]</thought>[b]", "b"),
        ("[a]<think>[b]", "a"),
        ("[a]</think>[b]", "b"),
        ("[a]</think> so it is", MISSING),
        ("<think>one</think>[a]<think>[b]</think>", "a"),
        ("<think>a<think>b</think>[c]</think>[d]", "d"),
        ("<think><reasoning>[a]</reasoning>[b]</think>[c]", "c"),
        ("<think>[a]</thinking>[b]", MISSING),
        ("<answer>a</answer><think>[b]</think>", "a"),
        ("<answer><think>[a]</think>[b]</answer>", "b"),
        ("<THINK>[a]</THINK>[b]", "b"),
        ("<Reasoning><answer>a</answer></Reasoning><answer>b</answer>", "b"),
        ("[b]<Thinking>[a]", "b"),
        ("<think>[a]</THINK>[b]", MISSING),
        ("[THINK][a]<answer>a</answer>[/THINK][b]", "b"),
        ("[THINK]one</think>[/THINK]<answer>[b]</answer>", "b"),
        ("[THINK]<answer>a</answer>[/THINK][b]", "b"),
        ("[b][THINK]<answer>a</answer>", "b"),
        ("[b][THINK][a]", "b"),
        ("[a][/THINK]b", MISSING),
        ("<think>a<b</think> 1 < 2 <answer>[b]</answer>", "b"),
        # What only looks like a tag is text.
        ("<b>[a]</b>", "a"),
        ("3 < 4 [a]", "a"),
        (r"\frac{1}{2} [a]", "a"),
        ("<answers>b</answers> [a]", "a"),
    ],
)
def test_answer_of_a_reply(reply, answer):
    assert find_answer(reply) == answer
    assert find_answer("prose " * 12 + reply) == answer


@pytest.mark.parametrize(
    ("reply", "answer"),
    [
        ("[a]", "a"),
        ("so [a] \n", "a"),
        ("I could take [a] or maybe", MISSING),
        ("[a] is taken, so", MISSING),
        ("[a].", MISSING),
        ("[a] [b", MISSING),
        ("[b]<think>[a]", MISSING),
        ("<think>[a]</think>[b]", "b"),
        ("<think>[a]", MISSING),
        ("<answer>[a]</answer> since", "a"),
        (r"\boxed{a} since [b", "a"),
        ("<answer>[a]", UNMATCHED),
    ],
)
def test_answer_of_a_cut_reply_is_structured_or_at_its_end(reply, answer):
    assert find_answer(reply, cut=True) == answer
    assert find_answer("prose " * 12 + reply, cut=True) == answer


def test_a_reply_is_read_as_cut_whatever_it_meant_before():
    assert find_answer("[a] or") == "a"
    assert find_answer("[a] or", cut=True) == MISSING
    assert find_answer("[a] or") == "a"


@given(st.lists(st.sampled_from(["[", "]", "{", "}", r"\boxed{", "a", "\x00", "é", "\ud800"])))
def test_any_text_has_an_answer_or_a_fault(pieces):
    answer = find_answer("".join(pieces))
    assert isinstance(answer, AnswerFault) or answer == answer.strip()


SOUP = st.lists(
    st.sampled_from([
        *("<think>", "</think>", "<thinking>", "</thinking>", "<answer>", "</answer>"),
        *(
            "<THINK>",
            "</THINK>",
            "[THINK]",
            "[/THINK]",
            "<action>",
            "</action>",
            "<Answer>",
            "</ANSWER>",
            r"\boxed{",
            "}",
            "[a]",
            "[b]",
            "b",
            " ",
            "<",
        ),
    ]),
    max_size=12,
).map("".join)


@settings(max_examples=200)
@given(SOUP)
def test_shortcuts_for_usual_replies_change_no_answer(reply):
    # The additions mean nothing, but a reply that begins so and is so long is never a usual one.
    assert find_answer(f"<b>{reply}{'.' * 64}") == find_answer(reply)


@given(
    prose=st.text(st.characters(exclude_characters="[<\\"), min_size=65),
    reply=SOUP,
    block=st.sampled_from(["", "<think>1 < 2</think>", "1, 2</think>"]),
)
def test_prose_in_front_of_a_reply_changes_no_answer(prose, reply, block):
    assert find_answer(block + prose + reply) == find_answer(reply)


@given(
    before=st.text(st.characters(exclude_characters="<\\")),
    name=st.text("abc123", min_size=1),
    after=st.text(st.characters(exclude_characters="<\\")),
)
def test_prose_around_an_answer_tag_changes_nothing(before, name, after):
    assert find_answer(f"{before}<answer>{name}</answer>{after}") == name


def _least_time_s(reply: str) -> float:
    times = []
    for _ in range(3):
        start_s = time.perf_counter()
        find_answer(reply)
        times.append(time.perf_counter() - start_s)
    return min(times)


@pytest.mark.parametrize(
    "unit",
    [
        *(
            "[",
            "]",
            "[]",
            "[a",
            "<",
            "<think>",
            "</think>",
            "<think></think>",
            "<think>[a]</think>",
        ),
        *("<answer>", "</answer>", "<answer>[a]</answer>", "<answer>[a</action>"),
        *(r"\boxed{", r"\boxed{a}", "{", "}", "\\", "words of no meaning ", "\x00", "é"),
    ],
)
def test_a_million_characters_are_read_in_linear_time(unit):
    half_s, whole_s = (
        _least_time_s(unit * (size // len(unit)) + r"\boxed{<answer>a</answer>")
        for size in (500_000, 1_000_000)
    )
    # A quadratic reader needs minutes; the bounds leave room for a busy machine.
    assert whole_s < 0.5
    assert whole_s < 4 * half_s + 0.01


@pytest.mark.parametrize("opening", ["<answer>", r"\boxed{"])
def test_a_long_structured_answer_is_read_in_linear_time(opening):
    closing = "</answer>" if opening == "<answer>" else "}"
    reply = opening + "[a" * 500_000 + closing
    assert _least_time_s(reply) < 0.5


def test_names_are_bared_of_one_pair_of_brackets_and_outer_blanks():
    assert [bare_name(name) for name in ("[a]", " [ a ] ", "a", "[[a]]", "[a", "")] == [
        *("a", "a", "a", "[a]", "[a", "")
    ]


PARTS = (
    *("<think>", "</think>", "<reasoning>", "[THINK]", "[/THINK]", "<answer>", "</answer>"),
    *("[3]", "4", " so "),
)


@given(parts=st.lists(st.sampled_from(PARTS), max_size=8))
def test_a_block_in_front_is_read_as_one_that_follows_a_blank(parts):
    reply = "<think>" + "".join(parts)
    assert find_answer(reply) == find_answer(" " + reply)
