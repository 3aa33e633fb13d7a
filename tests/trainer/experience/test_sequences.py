import torch
from earl_dispatch import Columns
from earl_trainer.experience.sequences import CHOSEN_TOKENS, sequence_lengths


def columns(lengths, chosen=None):
    return Columns(
        lengths=torch.tensor(lengths),
        per_token={"token_ids": torch.zeros(sum(lengths))},
        per_row={} if chosen is None else {CHOSEN_TOKENS: torch.tensor(chosen)},
    )


def test_a_row_is_one_sequence():
    assert sequence_lengths(columns([3, 2])).tolist() == [3, 2]


def test_a_row_of_a_pair_is_two_sequences():
    assert sequence_lengths(columns([5, 4], [3, 1])).tolist() == [3, 2, 1, 3]


def test_an_idle_token_is_one_sequence_where_others_are_pairs():
    assert sequence_lengths(columns([1], [0])).tolist() == [1]
