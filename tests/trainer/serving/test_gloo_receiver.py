"""vLLM's end alone, made by vLLM's own factory, for a model that only keeps what it is given."""

from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

import pytest
import torch
from earl_trainer.rollout import vllm_library
from earl_trainer.serving.gloo_group import broadcast, find_store, join_group, open_store

pytestmark = pytest.mark.slow

TIMEOUT_S = 20.0
SENT = {
    "a.weight": torch.arange(6, dtype=torch.float32).view(2, 3),
    "b.weight": torch.arange(4, dtype=torch.bfloat16),
}
CONTENT = {
    "names": list(SENT),
    "dtypes": ["float32", "bfloat16"],
    "shapes": [[2, 3], [4]],
}


class KeepingModel(torch.nn.Module):
    def load_weights(self, weights):
        self.kept = dict(weights)


@pytest.fixture(scope="module")
def gloo_receiver():
    vllm_library.import_vllm()
    with vllm_library.environment({}):
        from earl_trainer.serving import gloo_receiver
    return gloo_receiver


@pytest.fixture
def make_receiver(gloo_receiver):
    """Make that of rank 1 of 2 of the second of two replicas: there are four receivers."""

    def make(model):
        return gloo_receiver.WeightTransferEngineFactory.create_engine(
            SimpleNamespace(backend=gloo_receiver.BACKEND),
            SimpleNamespace(
                parallel_config=SimpleNamespace(data_parallel_index=1, world_size=2, rank=1),
                model_config=None,
            ),
            torch.device("cpu"),
            model,
        )

    return make


def test_a_rank_of_a_replica_has_its_place_and_loads_what_is_sent(make_receiver):
    model = KeepingModel()
    receiver = make_receiver(model)
    store = open_store(5, timeout_s=TIMEOUT_S)
    place = {"port": store.port, "num_processes": 5, "timeout_s": TIMEOUT_S}

    def join(rank):
        # Whoever waits at a store keeps it to itself.
        own = find_store(store.port, 5, timeout_s=TIMEOUT_S) if rank else store
        return join_group(own, rank=rank, num_processes=5, timeout_s=TIMEOUT_S)

    def take(group):
        for tensor in SENT.values():
            broadcast(group, torch.empty_like(tensor))

    with ThreadPoolExecutor(5) as pool:
        groups = [pool.submit(join, rank) for rank in range(4)]
        receiver.init_transfer_engine(receiver.parse_init_info(place))
        groups = [each.result(timeout=TIMEOUT_S) for each in groups]
        others = [pool.submit(take, group) for group in groups[1:]]
        sender = pool.submit(lambda: [broadcast(groups[0], each) for each in SENT.values()])
        receiver.update_weights(CONTENT)
        for each in (sender, *others):
            each.result(timeout=TIMEOUT_S)
    assert model.kept.keys() == SENT.keys()
    for name, tensor in SENT.items():
        assert model.kept[name].dtype == tensor.dtype
        assert torch.equal(model.kept[name], tensor)


def test_an_update_lays_the_model_aside_and_puts_it_back(make_receiver, gloo_receiver, monkeypatch):
    model, calls = KeepingModel(), []
    receiver = make_receiver(model)
    for name in ("initialize_layerwise_reload", "finalize_layerwise_reload"):
        monkeypatch.setattr(
            gloo_receiver, name, lambda *args, name=name: calls.append((name, args[0]))
        )
    receiver.start_weight_update()
    receiver.finish_weight_update()
    assert calls == [
        ("initialize_layerwise_reload", model), ("finalize_layerwise_reload", model),
    ]  # fmt: skip


def test_an_announcement_that_it_does_not_understand_is_refused(make_receiver):
    with pytest.raises(ValueError, match="GlooReceiver"):
        make_receiver(KeepingModel()).update_weights({"names": []})
