import pytest
import torch
from earl_trainer.models.attention import packed_logits, use_attention


class Remembering:
    """Attends as usual to one sequence, and remembers what it was given."""

    def __init__(self):
        self.layers, self.shapes = [], []

    def attend(self, layer, query, key, value, *, scaling):
        self.layers.append(layer)
        self.shapes.append((tuple(query.shape), tuple(key.shape)))
        return torch.nn.functional.scaled_dot_product_attention(
            query, key, value, is_causal=True, scale=scaling
        )


@pytest.fixture
def model(make_llama):
    made = make_llama()
    use_attention(made)
    return made


@torch.no_grad()
def test_a_packing_is_asked_in_every_layer_and_its_answer_is_used(model):
    ids, packing = torch.tensor([3, 1, 4, 1, 5]), Remembering()
    logits = packed_logits(model, ids, torch.arange(5), packing, keep=torch.tensor([1, 4]))
    expected = model(ids[None]).logits[0, [1, 4]]
    torch.testing.assert_close(logits, expected, atol=1e-5, rtol=1e-5)
    assert packing.layers == list(range(model.config.num_hidden_layers))


@torch.no_grad()
def test_positions_that_begin_anew_make_no_mask_of_the_librarys_own(model):
    # The library would take them for packed sequences and hide one from the other.
    ids, positions = torch.tensor([3, 1, 4, 1]), torch.tensor([0, 1, 0, 1])
    logits = packed_logits(model, ids, positions, Remembering(), keep=torch.tensor([3]))
    hidden = model(ids[None], position_ids=positions[None], use_cache=False).logits[0, 3:]
    assert not torch.allclose(logits, hidden, atol=1e-3)


@torch.no_grad()
def test_padded_rows_are_attended_to_as_by_the_library(make_llama, model):
    plain, ids = make_llama(), torch.tensor([[3, 1, 4, 1], [5, 9, 0, 0]])
    mask = torch.tensor([[1, 1, 1, 1], [1, 1, 0, 0]])
    for options in ({}, {"attention_mask": mask}):
        assert torch.equal(model(ids, **options).logits, plain(ids, **options).logits)
