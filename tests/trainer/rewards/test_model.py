"""A reward model reads one number at the end of a row, wherever the row lies."""

import pytest
import torch
from earl_trainer.rewards.model import (
    last_rewards,
    load_reward_model,
    make_reward_model,
    score_contexts,
)
from transformers import AutoModelForSequenceClassification


@pytest.fixture
def reward_model(make_llama):
    model = make_reward_model(make_llama())
    with torch.no_grad():
        rng = torch.Generator().manual_seed(1)
        model.score.weight.copy_(torch.randn(model.score.weight.shape, generator=rng))
    return model


def test_it_begins_with_the_policys_body_and_no_opinion(make_llama):
    policy = make_llama()
    state = torch.get_rng_state()
    model = make_reward_model(policy)
    assert torch.equal(torch.get_rng_state(), state)
    for name, tensor in policy.base_model.state_dict().items():
        assert torch.equal(model.base_model.state_dict()[name], tensor)
    assert score_contexts(model, [[1, 2], [3]], max_tokens=8) == [0.0, 0.0]
    assert policy.config.to_dict().get("num_labels") != 1


def test_a_row_has_its_own_reward_whatever_it_is_packed_with(reward_model):
    contexts = [[1, 2, 3], [4, 5], [6, 7, 8, 9, 1], [2, 3]]
    together = score_contexts(reward_model, contexts, max_tokens=7)
    apart = [score_contexts(reward_model, [each], max_tokens=7)[0] for each in contexts]
    assert together == pytest.approx(apart, abs=1e-5)
    assert len(set(together)) == 4


def test_the_last_token_is_read_although_it_is_the_padding_token_too(reward_model):
    """A model that looks for the last token by its id reads before a turn that ends with it."""
    end = 10
    reward_model.config.pad_token_id = reward_model.config.eos_token_id = end
    context = [1, 2, 3, end]
    (found,) = score_contexts(reward_model, [context], max_tokens=8)
    with torch.no_grad():
        hidden = reward_model.base_model(input_ids=torch.tensor([context])).last_hidden_state
        expected, before = (reward_model.score(hidden[0, place]).item() for place in (3, 2))
    assert found == pytest.approx(expected, abs=1e-5)
    assert abs(found - before) > 1e-3


def test_rewards_before_the_end_see_nothing_of_what_follows(reward_model):
    ids, ends = torch.tensor([1, 2, 3, 4, 5]), torch.tensor([1, 4])
    with torch.no_grad():
        first = last_rewards(reward_model, ids, torch.tensor([5]), ends)
        second = last_rewards(reward_model, ids[:2], torch.tensor([2]), torch.tensor([1]))
    assert first[0] == pytest.approx(second[0].item(), abs=1e-5)


def test_a_folder_gives_the_same_model_back(reward_model, tmp_path):
    reward_model.save_pretrained(tmp_path)
    loaded = load_reward_model(tmp_path, device=torch.device("cpu"))
    contexts = [[1, 2, 3], [4, 5]]
    assert score_contexts(loaded, contexts, max_tokens=8) == score_contexts(
        reward_model, contexts, max_tokens=8
    )
    elsewhere = AutoModelForSequenceClassification.from_pretrained(tmp_path)
    assert elsewhere.config.num_labels == 1


def test_a_folder_that_is_none_is_refused_in_one_line(make_llama, tmp_path):
    with pytest.raises(ValueError, match="cannot load the reward model") as caught:
        load_reward_model(tmp_path / "nothing", device=torch.device("cpu"))
    assert "\n" not in str(caught.value)
    make_llama().save_pretrained(tmp_path)
    with pytest.raises(ValueError, match="holds no reward model: it lacks score"):
        load_reward_model(tmp_path, device=torch.device("cpu"))
