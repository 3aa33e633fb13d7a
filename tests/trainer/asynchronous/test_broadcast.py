"""The learner's side of a broadcast, to workers that are threads with real connections."""

import copy
import time

import pytest
import torch
from earl_trainer.asynchronous.broadcast import BroadcastPublication, BroadcastRules
from earl_trainer.asynchronous.publication import Publication
from earl_trainer.asynchronous.weights import checksums, pack_weights, unpack_weights
from earl_trainer.asynchronous.workers import LostRolloutWorkerError
from earl_trainer.types import RunFailedError


@pytest.fixture
def model(tiny_model):
    return copy.deepcopy(tiny_model)


def make_publication(workers, *, timeout_s=10.0, check=False, bucket_bytes=4096):
    return BroadcastPublication(
        workers,
        workers,
        BroadcastRules(
            host="127.0.0.1", bucket_bytes=bucket_bytes, timeout_s=timeout_s, check=check
        ),
    )


def test_the_logits_are_equal_on_both_sides_with_tied_embeddings_sent_once(
    make_fake_workers, model
):
    workers = make_fake_workers(3)
    publication = make_publication(workers, check=True)
    assert isinstance(publication, Publication)
    other, ids = copy.deepcopy(model), torch.tensor([[5, 6, 7]])
    embedding = model.get_input_embeddings().weight
    for version in range(2):
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.mul_(1.25)
        publication.publish(model, version, [0, 1, 2])
        told, workers.published = workers.published, []
        assert [(worker, told_version) for worker, told_version, _, _ in told] == [
            (worker, version) for worker in range(3)
        ]
        for _, _, packed, sums in told:
            assert sum(part.nbytes == embedding.nbytes for part in packed) == 1
            assert sums == checksums(pack_weights(model))
            assert not torch.equal(model(ids).logits, other(ids).logits)
            unpack_weights(packed, other)
            assert torch.equal(model(ids).logits, other(ids).logits)
            with torch.no_grad():
                other.get_input_embeddings().weight.zero_()
    # They met once.
    assert workers.joined == [(0, 1, 4), (1, 2, 4), (2, 3, 4)]


def test_nobody_is_told_of_weights_that_one_does_not_get_and_all_get_those_sent_again(
    make_fake_workers, model
):
    workers = make_fake_workers(3)
    publication = make_publication(workers)
    publication.publish(model, 0, [0, 1, 2])
    workers.published.clear()
    workers.fails[1] = "dead"
    start_s = time.monotonic()
    with pytest.raises(LostRolloutWorkerError, match="rollout worker 1 is gone"):
        publication.publish(model, 1, [0, 1, 2])
    assert workers.published == []
    publication.forget(1)
    publication.publish(model, 1, [0, 2])
    assert [(worker, version) for worker, version, _, _ in workers.published] == [(0, 1), (2, 1)]
    # One that was started anew gets them alone; then all meet again.
    workers.restart(1)
    publication.publish(model, 1, [1])
    publication.publish(model, 2, [0, 1, 2])
    assert time.monotonic() - start_s < 20.0
    assert [(worker, version) for worker, version, _, _ in workers.published[2:]] == [
        (1, 1), (0, 2), (1, 2), (2, 2),
    ]  # fmt: skip
    assert workers.joined[3:] == [(0, 1, 3), (2, 2, 3), (1, 1, 2), (0, 1, 4), (1, 2, 4), (2, 3, 4)]


@pytest.mark.parametrize("met", [False, True])
def test_a_worker_that_does_not_answer_is_named_in_time(make_fake_workers, model, met):
    workers = make_fake_workers(2)
    publication = make_publication(workers, timeout_s=1.0)
    if met:
        publication.publish(model, 0, [0, 1])
        workers.published.clear()
    workers.fails[1] = "mute"
    start_s = time.monotonic()
    with pytest.raises(LostRolloutWorkerError, match=r"worker 1 is gone: it took no part"):
        publication.publish(model, 1, [0, 1])
    assert time.monotonic() - start_s < 9.0
    assert workers.published == []


def test_a_worker_that_was_started_anew_is_met_anew(make_fake_workers, model):
    workers = make_fake_workers(1)
    publication = make_publication(workers)
    publication.publish(model, 0, [0])
    workers.restart(0)
    publication.forget(0)
    publication.publish(model, 1, [0])
    assert [version for _, version, _, _ in workers.published] == [0, 1]
    assert len(workers.joined) == 2


def test_a_connection_that_broke_though_nobody_is_gone_is_made_again_once(make_fake_workers, model):
    workers = make_fake_workers(2)
    publication = make_publication(workers, timeout_s=2.0)
    publication.publish(model, 0, [0, 1])
    workers.receivers[1]._group = None
    publication.publish(model, 1, [0, 1])
    assert len(workers.joined) == 4
    assert [version for _, version, _, _ in workers.published] == [0, 0, 1, 1]

    class Deaf:
        def join(self, meeting):
            return "it cannot reach the sender"

    workers.receivers[1] = Deaf()
    publication.forget(1)
    with pytest.raises(RunFailedError, match="did not arrive: it cannot reach the sender"):
        publication.publish(model, 2, [0, 1])
    assert len(workers.published) == 4
