from dataclasses import replace

import pytest
import torch
from earl_dispatch import Columns
from earl_dispatch.adapters.tensordict import from_tensordict, to_tensordict
from earl_dispatch.testing import assert_same_bits, random_columns

LENGTHS = (3, 0, 5, 1)


def make_batch(lengths=LENGTHS) -> Columns:
    return random_columns(lengths, torch.Generator().manual_seed(3))


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("jagged", [False, True])
@pytest.mark.parametrize("lengths", [LENGTHS, ()])
def test_columns_come_back_bit_for_bit(jagged, lengths):
    pytest.importorskip("tensordict")
    batch = make_batch(lengths)
    tensordict = to_tensordict(batch, jagged=jagged)
    assert tensordict.batch_size == torch.Size([len(lengths)])
    assert_same_bits(from_tensordict(tensordict, per_turn=list(batch.per_turn)), batch)
    plain = replace(batch, turns=None, per_turn={})
    assert_same_bits(from_tensordict(to_tensordict(plain, jagged=jagged)), plain)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_what_can_be_derived_is_added():
    pytest.importorskip("tensordict")
    tensordict = to_tensordict(make_batch())
    assert tensordict["lengths"].tolist() == list(LENGTHS)
    assert tensordict["attention_mask"].sum(1).tolist() == list(LENGTHS)
    assert tensordict["position_ids"][2].tolist() == [0, 1, 2, 3, 4]
    assert tensordict["token_torch.int32"].shape == (4, 5)
    assert to_tensordict(make_batch(), jagged=True)["token_torch.int32"].is_nested


def test_any_mapping_with_a_mask_that_is_padded_on_the_left_is_read():
    columns = from_tensordict({
        "input_ids": torch.tensor([[9, 5, 6], [7, 8, 9]]),
        "attention_mask": torch.tensor([[0, 1, 1], [1, 0, 0]]),
        "position_ids": torch.tensor([[0, 0, 1], [0, 0, 0]]),
        "reward": torch.tensor([1.0, 2.0]),
    })
    assert columns.lengths.tolist() == [2, 1]
    assert columns.per_token["input_ids"].tolist() == [5, 6, 7]
    assert columns.per_row["reward"].tolist() == [1.0, 2.0]
    assert set(columns.per_token) == {"input_ids"}
    assert columns.turns is None


def test_jagged_columns_tell_their_own_lengths():
    ids = torch.nested.nested_tensor_from_jagged(torch.arange(3), torch.tensor([0, 1, 3]))
    columns = from_tensordict({"ids": ids, "score": ids.clone()}, per_turn=["score"])
    assert columns.lengths.tolist() == [1, 2]
    assert columns.turn_counts().tolist() == [1, 2]


def test_what_has_no_lengths_or_too_many_dimensions_is_refused():
    ids = torch.zeros(2, 3)
    with pytest.raises(ValueError, match="padded columns need 'lengths' to tell"):
        from_tensordict({"ids": ids})
    with pytest.raises(ValueError, match="padded columns need 'turns' to tell"):
        from_tensordict({"score": ids, "lengths": torch.tensor([1, 2])}, per_turn=["score"])
    with pytest.raises(ValueError, match="1 or 2 dimensions, 'ids' has 3"):
        from_tensordict({"ids": ids[None]})


def test_a_name_that_is_derived_is_refused():
    batch = replace(make_batch(), per_row={"position_ids": torch.zeros(4)})
    with pytest.raises(ValueError, match="'position_ids' is derived, rename the column"):
        to_tensordict(batch)
