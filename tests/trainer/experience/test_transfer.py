import torch
from earl_trainer.experience.transfer import send_to_learner


def test_on_one_rank_every_row_arrives_as_it_was_and_nothing_moves(make_rows):
    rows = make_rows([5, 9, 2, 7])
    plan, received = send_to_learner(rows)
    assert plan.bytes_moved == plan.messages == 0
    assert torch.equal(received.lengths, rows.lengths)
    for sent, arrived in (
        (rows.per_token, received.per_token),
        (rows.per_row, received.per_row),
    ):
        assert sent.keys() == arrived.keys()
        assert all(torch.equal(sent[name], arrived[name]) for name in sent)
