"""What `earl plan tp` reads, works out and refuses."""

import argparse
import json
import subprocess
import sys

import pytest
from earl_trainer.cli.plan_tp import read_contexts, read_plan_tp, read_tokens

QWEN = ("--model", "Qwen/Qwen2.5-72B-Instruct")


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path, monkeypatch):
    """The picture is drawn in the folder where it is asked for."""
    monkeypatch.chdir(tmp_path)


def refusal(*arguments):
    with pytest.raises(ValueError, match=r".") as caught:
        read_plan_tp(arguments)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def printed(capsys, *arguments):
    assert read_plan_tp(arguments)() == 0
    return capsys.readouterr().out


def test_the_papers_setting_crosses_between_8k_and_16k_and_names_both_bounds(capsys):
    text = printed(
        capsys, *QWEN, "--device", "h100-80gb", "--num-devices", "8", "--responses", "32",
        "--context", "1k:64k",
    )  # fmt: skip

    rows = {line.split()[0]: line.split() for line in text.splitlines() if line}
    assert rows["8k"][-2:] == ["tp", "4"]
    assert rows["16k"][-2:] == ["tp", "8"]
    assert "1   weights of 145.4 GB leave no room for cache" in text
    # 0.9 x 84.94 GB less 36.36 GB of weights, 1 GB, and one layer over 8,192 tokens: 2 values of
    # 8,192 and 3 of 29,568, 2 bytes each; over 81,920 bytes a token.
    assert "456,199" in text
    assert (
        "crossover: from a context of 14,257 tokens on (456,224 resident), tp 8 is faster" in text
    )
    assert "out-of-memory wall: a context of 1,356,155 tokens (tp 8)" in text


def test_the_help_names_every_option_and_device(capsys):
    text = printed(capsys, "--help")
    for word in ("--responses", "--memory-gb", "--plot", "rtx4090-24gb", "(default: h100-80gb)"):
        assert word in text


def test_any_config_and_any_memory_can_be_planned(capsys, tmp_path):
    config = {
        "model_type": "llama",
        "num_hidden_layers": 2,
        "hidden_size": 16,
        "intermediate_size": 32,
        "num_attention_heads": 2,
        "vocab_size": 10,
    }
    (tmp_path / "config.json").write_text(json.dumps(config))
    text = printed(
        capsys, "--model", str(tmp_path), "--device", "cpu", "--num-devices", "2", "--tp", "2,1",
        "--memory-gb", "0.001", "--reserve-gb", "0.0001", "--utilisation", "1",
        "--dtype", "float32", "--responses", "1", "--context", "1k",
    )  # fmt: skip

    # By hand: 2 x (4 x 16 x 16 + 3 x 16 x 32 + 32) + 2 x 160 + 16 = 5,520 weights of 4 bytes and 2
    # x 2 x 16 x 4 = 256 bytes a token: (1,000,000 - 100,000 - 22,080) / 256 = 3,429 tokens.
    (row,) = (line for line in text.splitlines() if line.startswith("1   "))
    assert row.split()[4] == "3,429"
    assert "tp 2: tok/s" in text


@pytest.mark.parametrize(
    ("options", "name"), [((), "plan_tp.png"), (("--plot", "mine.png"), "mine.png")]
)
def test_a_picture_is_drawn_and_said_to_be_where(capsys, tmp_path, options, name):
    text = printed(capsys, *QWEN, *options)
    assert "crossover" in text
    assert text.splitlines()[-1] == f"drawn in {name}"
    assert (tmp_path / name).read_bytes().startswith(b"\x89PNG")


def test_no_picture_is_drawn_if_none_is_wanted(capsys, tmp_path):
    assert "drawn" not in printed(capsys, *QWEN, "--plot", "none")
    assert list(tmp_path.iterdir()) == []


def test_the_crossover_is_named_also_where_the_longest_context_fits_nothing(capsys):
    text = printed(capsys, *QWEN, "--context", "8k,2m", "--plot", "none")
    assert "crossover: from a context of 14,257 tokens on" in text


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "the following arguments are required: --model"),
        (("--model", "qwen2.5-72c"), "'qwen2.5-72c' is no folder"),
        ((*QWEN, "--device", "h100"), "unknown device 'h100'; did you mean 'h100-80gb'?"),
        ((*QWEN, "--respones", "3"), "unknown option '--respones'; did you mean '--responses'?"),
        ((*QWEN, "--responses", "0"), "--responses: must be a whole number >= 1, got '0'"),
        ((*QWEN, "--utilisation", "1.5"), "--utilisation: must be in (0, 1], got '1.5'"),
        ((*QWEN, "--context", "64k:1k"), "--context: a range of contexts must rise, got '64k:1k'"),
        ((*QWEN, "--context", "1kb"), "--context: tokens are a number such as 1000 or 8k"),
        ((*QWEN, "--dtype", "int3"), "--dtype: invalid choice: 'int3'"),
        ((*QWEN, "--tp", "3"), "tp 3 does not divide the model's 64 attention heads (valid: 1, 2"),
        ((*QWEN, "--tp", "16"), "tp 16 needs 16 devices, more than the 8 there are"),
        ((*QWEN, "--tp", "4,4"), "degrees must be distinct and at least one, got (4, 4)"),
        ((*QWEN, "--plot", "/no/such/plan.png"), "cannot write the picture '/no/such/plan.png'"),
        ((*QWEN, "--plot", "plan.what"), "Format 'what' is not supported"),
    ],
)
def test_what_means_nothing_is_refused_in_one_line(arguments, message):
    assert refusal(*arguments).startswith(message)


def test_where_nothing_fits_the_least_device_and_the_longest_context_are_named():
    text = refusal(*QWEN, "--device", "rtx4090-24gb", "--num-devices", "4")
    assert text.startswith("no tp of (1, 2, 4) holds one context of 1,024 tokens on rtx4090-24gb")
    assert "at tp 4, and the longest context that fits these devices is 0 tokens" in text
    # 36.4 GB of weights, 2.7 besides and 0.1 of cache, over 0.9: 43.5 GB, and an A100 shows 42.3.
    assert "the least that does is 43,5" in text
    assert text.endswith("smallest of the catalogue that does: l40s")
    hopeless = refusal(*QWEN, "--tp", "1", "--dtype", "float32")
    assert hopeless.endswith("smallest of the catalogue that does: no device of the catalogue")


@pytest.mark.parametrize(
    ("text", "tokens"), [("1000", 1000), ("8k", 8192), ("64K", 65_536), ("1m", 2**20)]
)
def test_tokens_may_have_a_binary_unit(text, tokens):
    assert read_tokens(text) == tokens


@pytest.mark.parametrize("text", ["0", "-1", "", "k", "1.5k", "8g"])
def test_what_is_no_number_of_tokens_is_refused(text):
    with pytest.raises(argparse.ArgumentTypeError, match="tokens are a number such as 1000 or 8k"):
        read_tokens(text)


@pytest.mark.parametrize(
    ("text", "contexts"),
    [("1k:4k", (1024, 2048, 4096)), ("8k", (8192,)), ("3k,1k,3k", (1024, 3072))],
)
def test_contexts_are_a_range_or_a_list(text, contexts):
    assert read_contexts(text) == contexts


def test_a_table_needs_neither_torch_nor_matplotlib():
    script = (
        "import sys; from earl_trainer.cli.plan_tp import read_plan_tp;"
        "read_plan_tp(['--model', 'qwen2.5-72b', '--plot', 'none']);"
        "assert not {'torch', 'matplotlib', 'transformers'} & set(sys.modules)"
    )
    result = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=60
    )
    assert result.returncode == 0, result.stderr
