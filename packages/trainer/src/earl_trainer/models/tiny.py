"""A small language model from scratch, with a vocabulary made of one game's own words."""

from collections.abc import Iterable

import numpy as np
import torch
from earl_envs import Failure, Game, GameBatch, TextProtocol, attempt
from tokenizers import Regex, Tokenizer
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import Sequence, Split, WhitespaceSplit
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

from earl_trainer.seeding import derive_seed

_PAD, _UNKNOWN, _USER, _ASSISTANT, _END = (
    "<|pad|>",
    "<|unk|>",
    "<|user|>",
    "<|assistant|>",
    "<|end|>",
)
# A word is a move in brackets, a run of lower-case letters, or any single character, so that each
# cell of a board is one token.
_WORD = r"\[[^\[\]\s]*\]|[A-Z]?[a-z]+|\S"
# No system role: the rules are prose, which a model this small cannot read; it learns them by play.
_CHAT_TEMPLATE = (
    "{% for message in messages %}"
    "{% if message['role'] == 'user' %}" + _USER + "{{ message['content'] }}"
    "{% elif message['role'] == 'assistant' %}"
    + _ASSISTANT
    + "{{ message['content'] }}"
    + _END
    + "{% endif %}"
    "{% endfor %}"
    "{% if add_generation_prompt %}" + _ASSISTANT + "{% endif %}"
)
_NUM_VOCABULARY_GAMES = 200
_MAX_NAMED_MOVES = 64


def build_tokenizer(game: Game, *, seed: int) -> PreTrainedTokenizerFast:
    """Make a word-level tokenizer of everything that random play says in this game.

    Args:
        game: The rules.
        seed: Of the games that are played to find the words.
    """
    splitter = Sequence([WhitespaceSplit(), Split(Regex(_WORD), behavior="isolated")])
    words = {
        word for text in _texts(game, seed=seed) for word, _ in splitter.pre_tokenize_str(text)
    }
    specials = [_PAD, _UNKNOWN, _USER, _ASSISTANT, _END]
    vocabulary = {word: index for index, word in enumerate([*specials, *sorted(words)])}
    tokenizer = Tokenizer(WordLevel(vocabulary, unk_token=_UNKNOWN))
    tokenizer.pre_tokenizer = splitter
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        pad_token=_PAD,
        unk_token=_UNKNOWN,
        eos_token=_END,
        additional_special_tokens=[_USER, _ASSISTANT],
        chat_template=_CHAT_TEMPLATE,
    )


def build_model(
    tokenizer: PreTrainedTokenizerFast,
    *,
    hidden_size: int,
    num_layers: int,
    num_heads: int,
    max_context_tokens: int,
    seed: int,
) -> LlamaForCausalLM:
    """Make a Llama with random float32 weights, its gated MLP three times as wide as the model."""
    config = LlamaConfig(
        vocab_size=len(tokenizer),
        hidden_size=hidden_size,
        intermediate_size=3 * hidden_size,
        num_hidden_layers=num_layers,
        num_attention_heads=num_heads,
        num_key_value_heads=num_heads,
        max_position_embeddings=max_context_tokens,
        tie_word_embeddings=True,
        bos_token_id=None,
        eos_token_id=tokenizer.vocab[_END],
        pad_token_id=tokenizer.vocab[_PAD],
    )
    # The library initialises from the process-wide generator; it is put back as it was.
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seed)
        return LlamaForCausalLM(config)


def _texts(game: Game, *, seed: int) -> Iterable[str]:
    """Everything that seats see and may reply in some randomly played games."""
    protocol = TextProtocol(game)
    rng = np.random.default_rng(seed)
    batch = GameBatch(game, seeds=[derive_seed(seed, i) for i in range(_NUM_VOCABULARY_GAMES)])
    while not batch.done.all():
        running = [int(index) for index in np.flatnonzero(~batch.done)]
        actions: list[int] = []
        for index in running:
            state, seat, legal = batch.state(index), int(batch.seats[index]), batch.legal(index)
            said = [attempt(protocol.turn_message, state, seat)]
            # Games with a thousand moves have few words: some moves a position are enough.
            named = legal[:: 1 + len(legal) // _MAX_NAMED_MOVES]
            said += [attempt(protocol.format_move, state, action) for action in named]
            # A position that cannot be shown ends its episode later on, with the reason.
            yield from (text for text in said if not isinstance(text, Failure))
            actions.append(legal[rng.integers(len(legal))])
        batch.step(actions, running)
