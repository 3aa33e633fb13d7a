import torch
from earl_trainer.asynchronous.publication import Publication, StorePublication
from earl_trainer.asynchronous.weights import checksums, pack_weights
from torch import nn


def test_weights_are_shared_once_and_told_to_the_workers_that_are_meant(make_fake_workers):
    workers, model, shared = make_fake_workers(3), nn.Linear(2, 3), []
    workers.share = lambda value: shared.append(value) or len(shared)
    publication = StorePublication(workers)
    assert isinstance(publication, Publication)
    publication.publish(model, 4, [0, 2])
    publication.forget(0)
    publication.publish(model, 5, [1])
    assert workers.published == [(0, 4, 1, None), (2, 4, 1, None), (1, 5, 2, None)]
    assert torch.equal(
        torch.from_numpy(shared[0][0]).view(torch.float32), model.weight.detach().view(-1)
    )


def test_checksums_travel_along_on_request(make_fake_workers):
    workers, model = make_fake_workers(1), nn.Linear(2, 3)
    StorePublication(workers, check=True).publish(model, 0, [0])
    assert workers.published[0][3] == checksums(pack_weights(model))
