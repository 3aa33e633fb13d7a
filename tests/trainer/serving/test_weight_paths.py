"""What vLLM is asked for and what comes to it, with ranks that are threads of this process."""

import asyncio
import copy
from pathlib import Path

import pytest
import torch
from earl_trainer.rollout import vllm_library
from earl_trainer.serving.gloo_group import broadcast, find_store, join_group
from earl_trainer.serving.weight_paths import FolderPath, TensorPath, WeightPath

TP = 2
TIMEOUT_S = 20.0


class FakeRanks:
    """Receive what is announced."""

    def __init__(self):
        self.calls, self.groups, self.received = [], [], []
        self.failure = None

    def _join(self, rank, place):
        size, timeout_s = place["num_processes"], place["timeout_s"]
        store = find_store(place["port"], size, timeout_s=timeout_s)
        return join_group(store, rank=rank, num_processes=size, timeout_s=timeout_s)

    def _receive(self, group, content):
        state = {}
        for name, dtype, shape in zip(*content.values(), strict=True):
            state[name] = torch.empty(shape, dtype=getattr(torch, dtype))
            broadcast(group, state[name])
        return state

    async def join(self, place):
        self.groups = await asyncio.gather(
            *(asyncio.to_thread(self._join, rank, place) for rank in (1, 2))
        )

    async def receive(self, content):
        self.calls.append("receive")
        if self.failure is not None:
            raise self.failure
        assert list(content) == ["names", "dtypes", "shapes"]
        self.received = await asyncio.gather(
            *(asyncio.to_thread(self._receive, group, content) for group in self.groups)
        )

    async def start_weight_update(self):
        self.calls.append("start")

    async def finish_weight_update(self):
        self.calls.append("finish")

    async def collective_rpc(self, method, kwargs):
        self.calls.append((method, kwargs))


@pytest.fixture
def ranks(monkeypatch):
    ranks = FakeRanks()
    monkeypatch.setattr(vllm_library, "connect_transfer", lambda engine, place: engine.join(place))
    monkeypatch.setattr(
        vllm_library, "receive_weights", lambda engine, content: engine.receive(content)
    )
    return ranks


def test_both_are_paths_and_only_one_reads_files(make_llama):
    tensors = TensorPath(make_llama(), timeout_s=1)
    assert isinstance(tensors, WeightPath)
    assert isinstance(FolderPath(), WeightPath)
    assert (tensors.needs_folder, FolderPath().needs_folder) == (False, True)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_all_ranks_get_every_weight_and_a_shared_matrix_under_both_names(ranks, make_llama, dtype):
    model = make_llama(dtype=dtype)
    path = TensorPath(model, timeout_s=TIMEOUT_S)

    async def play():
        await path.open(ranks, tp=TP)
        for factor in (2.0, 3.0):
            with torch.no_grad():
                for parameter in model.parameters():
                    parameter.mul_(factor)
            expected = copy.deepcopy(model.state_dict())
            await path.send(ranks, Path("none"))
            assert len(ranks.received) == TP
            for state in ranks.received:
                assert state.keys() == expected.keys()
                assert all(torch.equal(state[name], expected[name]) for name in expected)
                assert torch.equal(state["lm_head.weight"], state["model.embed_tokens.weight"])

    asyncio.run(play())
    assert ranks.calls == ["start", "receive", "finish"] * 2


def test_ranks_that_fail_are_not_told_to_finish(ranks, make_llama):
    path = TensorPath(make_llama(), timeout_s=0.5)

    async def play():
        await path.open(ranks, tp=TP)
        ranks.failure = OSError("lost")
        with pytest.raises(OSError, match="lost"):
            await path.send(ranks, Path("none"))

    asyncio.run(play())
    assert ranks.calls == ["start", "receive"]


def test_files_are_read_by_all_ranks(ranks):
    path = FolderPath()

    async def play():
        await path.open(ranks, tp=TP)
        await path.send(ranks, Path("folder"))

    asyncio.run(play())
    assert path.arguments() == {}
    assert ranks.calls == [("reload_weights", {"weights_path": "folder"})]


@pytest.mark.slow
def test_vllm_finds_the_receiver_by_the_names_it_is_given(make_llama):
    vllm_library.import_vllm()
    with vllm_library.environment({}):
        from earl_trainer.serving import gloo_receiver
        from vllm.engine.arg_utils import AsyncEngineArgs
        from vllm.utils.import_utils import resolve_obj_by_qualname

        arguments = AsyncEngineArgs(model="x", **TensorPath(make_llama(), timeout_s=1).arguments())
    assert arguments.weight_transfer_config.backend == gloo_receiver.BACKEND
    found = resolve_obj_by_qualname(arguments.worker_extension_cls)
    assert found is gloo_receiver.GlooExtension
