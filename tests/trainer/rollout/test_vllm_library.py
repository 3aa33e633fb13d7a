"""The real vLLM is imported once; nothing is started."""

import asyncio
import os
import subprocess
import sys
import warnings
from dataclasses import replace

import pytest
from earl_trainer.rollout import vllm_library
from earl_trainer.rollout.engine import Request

IMPORTS = pytest.mark.slow


def test_without_vllm_the_message_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "vllm", None)
    with pytest.raises(ValueError, match=r"not installed: pip install 'earl-trainer\[vllm\]'"):
        vllm_library.import_vllm()
    with pytest.raises(ValueError, match=r"not installed: pip install 'earl-trainer\[vllm\]'"):
        vllm_library.require_vllm()


def test_asking_for_vllm_does_not_import_it():
    code = (
        "import sys; from earl_trainer.rollout.vllm_library import require_vllm; require_vllm(); "
        "assert 'vllm' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=300)


def test_the_module_itself_imports_no_vllm():
    code = "import sys, earl_trainer.rollout.vllm_engine; assert 'vllm' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True, timeout=300)


def test_the_environment_is_as_before_whatever_was_changed_inside(monkeypatch):
    monkeypatch.setenv("EARL_TEST_KEPT", "before")
    monkeypatch.delenv("EARL_TEST_NEW", raising=False)
    before = dict(os.environ)
    with vllm_library.environment({"EARL_TEST_KEPT": "inside"}):
        assert os.environ["EARL_TEST_KEPT"] == "inside"
        assert os.environ["VLLM_LOGGING_LEVEL"] == "ERROR"
        os.environ["EARL_TEST_NEW"] = "left behind"
        warnings.warn("no error in here", DeprecationWarning, stacklevel=1)
    assert dict(os.environ) == before


def test_the_users_own_logging_level_counts(monkeypatch):
    monkeypatch.setenv("VLLM_LOGGING_LEVEL", "INFO")
    with vllm_library.environment({}):
        assert os.environ["VLLM_LOGGING_LEVEL"] == "INFO"


@IMPORTS
def test_the_import_leaves_no_trace_in_the_environment():
    before = dict(os.environ)
    assert vllm_library.import_vllm().__version__.startswith("0.32")
    assert dict(os.environ) == before


@IMPORTS
def test_a_reply_is_drawn_from_the_whole_vocabulary():
    vllm_library.import_vllm()
    request = Request(
        sequence_id=0, prompt_ids=[1, 2], max_new_tokens=7, temperature=0.5, seed=2**63 + 1
    )
    parameters = vllm_library.reply_parameters(request, frozenset({9, 4}))
    assert (parameters.top_p, parameters.top_k, parameters.min_p) == (1.0, 0, 0.0)
    assert (parameters.temperature, parameters.max_tokens, parameters.seed) == (0.5, 7, 2**63 + 1)
    assert parameters.stop_token_ids == [4, 9]
    assert parameters.ignore_eos
    own = replace(request, stop_ids=frozenset({8, 5}))
    assert vllm_library.reply_parameters(own, frozenset({9})).stop_token_ids == [5, 8]
    assert vllm_library.prompt((1, 2))["prompt_token_ids"] == [1, 2]


@IMPORTS
def test_scoring_asks_for_the_log_probs_of_the_prompt():
    vllm_library.import_vllm()
    parameters = vllm_library.scoring_parameters()
    assert (parameters.prompt_logprobs, parameters.max_tokens) == (0, 1)


class RecordingEngine:
    """Remembers requests of its weight-transfer interface."""

    def __init__(self):
        self.requests = []

    async def init_weight_transfer_engine(self, request):
        self.requests.append(("connect", request.init_info))

    async def update_weights(self, request):
        self.requests.append(("receive", request.update_info))


@IMPORTS
def test_what_is_transferred_is_announced_in_vllms_own_requests():
    vllm_library.import_vllm()
    engine = RecordingEngine()
    asyncio.run(vllm_library.connect_transfer(engine, {"port": 1}))
    asyncio.run(vllm_library.receive_weights(engine, {"names": ["a"]}))
    assert engine.requests == [("connect", {"port": 1}), ("receive", {"names": ["a"]})]
