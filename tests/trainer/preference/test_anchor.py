import torch
from earl_trainer.phase_stages import freeze_copy
from earl_trainer.preference.anchor import Anchor
from earl_trainer.rollout.policies import Query
from earl_trainer.types import EpisodeStart


def anchored(live):
    return Anchor(
        freeze_copy(live),
        live,
        first_step=10,
        iterate_steps=3,
        temperature=1.0,
        stop_ids=frozenset({2}),
        capacity_tokens=1024,
    )


def move(model):
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.linspace(-0.5, 0.5, parameter.numel()).view(parameter.shape))


def same(one, other):
    return all(map(torch.equal, one.state_dict().values(), other.state_dict().values()))


def replies(policy):
    start = EpisodeStart(episode=0, table=0, group=0, seat=0, game_seed=0, reply_seed=7)
    query = Query(start=start, turn=0, state=None, prompt_ids=(1, 5), max_new_tokens=12)
    return policy.reply([query])[0].ids


def test_the_opponent_stays_as_it_was_until_the_next_iterate(make_llama):
    live = make_llama()
    anchor = anchored(live)
    first = freeze_copy(live)
    begun = replies(anchor.at(10))
    move(live)
    for step in (11, 12):
        assert replies(anchor.at(step)) == begun
        assert same(anchor.model, first)
    assert replies(anchor.at(13)) != begun
    assert same(anchor.model, live)


def test_an_iterate_goes_on_with_the_weights_that_it_began_with(tmp_path, make_llama):
    live = make_llama()
    anchor = anchored(live)
    anchor.at(10)
    move(live)
    anchor.save(tmp_path)
    again = anchored(live)
    assert not same(again.model, anchor.model)
    again.restore(tmp_path)
    again.at(11)
    assert same(again.model, anchor.model)
