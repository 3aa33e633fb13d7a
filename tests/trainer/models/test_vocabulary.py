"""Vocabularies told apart."""

from earl_envs import make_game
from earl_trainer.models.tiny import build_tokenizer
from earl_trainer.models.vocabulary import vocabulary_digest


def test_vocabularies_that_read_ids_alike_have_one_digest(tiny_tokenizer, tic_tac_toe):
    assert vocabulary_digest(build_tokenizer(tic_tac_toe, seed=0)) == vocabulary_digest(
        tiny_tokenizer
    )
    other = build_tokenizer(make_game("earl/Nim-v0"), seed=0)
    assert vocabulary_digest(other) != vocabulary_digest(tiny_tokenizer)


def test_a_further_word_makes_another_vocabulary(tic_tac_toe):
    tokenizer = build_tokenizer(tic_tac_toe, seed=0)
    before = vocabulary_digest(tokenizer)
    tokenizer.add_tokens(["further"])
    assert vocabulary_digest(tokenizer) != before
