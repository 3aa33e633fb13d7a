"""What makes a profile that of something else."""

import copy

import pytest
import torch
from earl_trainer.profiling import subject
from earl_trainer.profiling.subject import describe_device, digest, subject_of


def describe(model, **fields):
    return subject_of(model, **{"memory_bytes": 1000, "engine": "embedded", **fields})


def test_weights_and_folder_do_not_matter_shape_and_precision_do(make_llama, tiny_model):
    first = describe(make_llama(seed=0))
    assert first.model.startswith("llama 0.00")
    assert " float32 " in first.model
    loaded = copy.deepcopy(make_llama(seed=1))
    loaded.config._name_or_path = "runs/mine/checkpoints/4/model"
    assert describe(loaded) == first
    half = describe(make_llama(dtype=torch.bfloat16)).model
    assert half == first.model.replace("float32", "bfloat16")
    assert describe(tiny_model).model.split()[-1] != first.model.split()[-1]


def test_memory_engine_and_library_versions_matter(make_llama, monkeypatch):
    model = make_llama()
    first = describe(model)
    assert first.device.endswith(", 1,000 bytes a rank")
    assert describe(model, memory_bytes=2000).device != first.device
    assert describe(model, engine="vllm 1").engine.startswith("vllm 1, earl-trainer ")
    assert f"torch {torch.__version__.partition('+')[0]}" in first.engine
    monkeypatch.setattr(subject, "version", lambda package: f"of {package}")
    assert describe(model).engine == (
        "embedded, earl-trainer of earl-trainer, torch of torch, transformers of transformers"
    )


def test_a_processor_is_told_by_its_name_cores_and_threads(monkeypatch, tmp_path):
    monkeypatch.setattr(subject.os, "sched_getaffinity", lambda pid: {0, 1, 5})
    facts = tmp_path / "cpuinfo"
    facts.write_text("processor\t: 0\nmodel name\t: Fast 9000: X\nprocessor\t: 1\nmodel name\t: b")
    monkeypatch.setattr(subject, "_CPU_FACTS", facts)
    cpu, threads = torch.device("cpu"), torch.get_num_threads()
    assert describe_device(cpu) == f"Fast 9000: X, 3 cores, {threads} threads"
    facts.unlink()
    monkeypatch.setattr(subject.platform, "machine", lambda: "x86_64")
    assert describe_device(cpu) == f"x86_64, 3 cores, {threads} threads"


def test_a_gpu_is_told_by_its_name_and_number(monkeypatch):
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 8)
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda device: f"Big {device.index}")
    assert describe_device(torch.device("cuda:2")) == "8 x Big 2"


@pytest.mark.parametrize("text", ["", "a" * 1000])
def test_a_digest_is_short_and_repeatable(text):
    assert digest(text) == digest(text) != digest(f"{text}.")
    assert len(digest(text)) == 8
