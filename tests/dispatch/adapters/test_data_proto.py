from dataclasses import dataclass, replace

import numpy as np
import pytest
import torch
import torch.distributed as dist
from earl_dispatch import Layout
from earl_dispatch.adapters.data_proto import (
    columns_from_data_proto,
    data_proto_from_columns,
    dispatch_data_proto,
)
from earl_dispatch.adapters.padding import padding_mask, position_ids
from earl_dispatch.testing import run_ranks

PROMPT, RESPONSE = 4, 6
WIDTH = PROMPT + RESPONSE
PAD = 99
FILL = {"input_ids": PAD}
SOURCE = Layout(owners=(0, 0, 1, 1, 1), groups=((0,), (1,), (2,)))
TARGET = Layout(owners=(2, 1, 0, 2, 0), groups=((0, 3), (1,), (2,)))


@dataclass
class Proto:
    batch: dict
    non_tensor_batch: dict
    meta_info: dict

    def rows(self, rows) -> "Proto":
        picked = list(rows)
        return replace(
            self,
            batch={name: tensor[picked] for name, tensor in self.batch.items()},
            non_tensor_batch={name: array[picked] for name, array in self.non_tensor_batch.items()},
        )


def make_proto() -> Proto:
    """Prompts are padded on the left, responses on the right; one row has no response."""
    generator = torch.Generator().manual_seed(4)
    starts, stops = torch.tensor([0, 3, 1, 4, 2]), torch.tensor([10, 9, 5, 7, 4])
    mask = padding_mask(starts, stops - starts, width=WIDTH)
    ids = torch.randint(50, (5, WIDTH), generator=generator).where(mask, PAD)
    response_mask = mask[:, PROMPT:]
    logprobs = torch.randn(5, RESPONSE, generator=generator)
    values = torch.randn(5, WIDTH, generator=generator, dtype=torch.float64)
    return Proto(
        batch={
            "input_ids": ids,
            "attention_mask": mask.long(),
            "position_ids": position_ids(mask),
            "prompts": ids[:, :PROMPT],
            "responses": ids[:, PROMPT:],
            "response_mask": response_mask.long(),
            "old_log_probs": logprobs.where(response_mask, 0.0),
            "values": values.where(mask, 0.0),
            "reward": torch.arange(5.0),
        },
        non_tensor_batch={
            "uid": np.array(["a", "b", "c", "d", "ä"], dtype=object),
            "turns": np.array([[1], [2, 3], [], None, {"x": 1}], dtype=object),
            "index": np.arange(5),
            "box": np.arange(10.0).reshape(5, 2),
        },
        meta_info={"temperature": 0.7},
    )


def assert_same_proto(actual: Proto, expected: Proto) -> None:
    assert type(actual) is Proto
    assert list(actual.batch) == list(expected.batch)
    for name, tensor in expected.batch.items():
        assert actual.batch[name].dtype == tensor.dtype, name
        assert torch.equal(actual.batch[name], tensor), name
    for name, array in expected.non_tensor_batch.items():
        assert actual.non_tensor_batch[name].dtype == array.dtype
        assert actual.non_tensor_batch[name].tolist() == array.tolist()
    assert actual.meta_info == expected.meta_info


def dispatch_protos() -> list[dict]:
    whole = make_proto()
    held = whole.rows(SOURCE.rows_of(dist.get_rank()))
    bare = replace(held, non_tensor_batch={})
    protos = [
        dispatch_data_proto(held, SOURCE, TARGET, transport="all_to_all", fill=FILL),
        dispatch_data_proto(bare, SOURCE, TARGET, transport="gather_scatter", fill=FILL),
    ]
    assert [type(proto) for proto in protos] == [Proto, Proto]
    return [vars(proto) for proto in protos]


def dispatch_a_bad_proto() -> str:
    held = make_proto().rows(SOURCE.rows_of(dist.get_rank()))
    if dist.get_rank() == 1:
        held.batch["attention_mask"][0, 2] = 0
    with pytest.raises(ValueError, match="nothing was sent") as refused:
        dispatch_data_proto(held, SOURCE, TARGET, transport="all_to_all", timeout_s=20.0)
    return str(refused.value)


def test_every_rank_gets_its_rows_of_everything():
    whole = make_proto()
    for rank, (full, bare) in enumerate(run_ranks(4, dispatch_protos)):
        expected = whole.rows(TARGET.rows_of(rank))
        assert_same_proto(Proto(**full), expected)
        assert_same_proto(Proto(**bare), replace(expected, non_tensor_batch={}))


def test_a_batch_that_one_rank_cannot_carry_is_refused_by_all():
    messages = run_ranks(4, dispatch_a_bad_proto)
    assert len(set(messages)) == 1
    assert "; rank 1: the attention mask of a row is one run of ones" in messages[0]
    assert messages[0].endswith("that of row 0 has gaps")


def dispatch_uneven_protos() -> list[str]:
    messages = []
    for name in ("reward", "values", "uid"):
        held = make_proto().rows(SOURCE.rows_of(dist.get_rank()))
        if dist.get_rank() == 1:
            mapping = held.non_tensor_batch if name == "uid" else held.batch
            mapping[name] = mapping[name][1:]
        with pytest.raises(ValueError, match="nothing was sent") as refused:
            dispatch_data_proto(held, SOURCE, TARGET, transport="all_to_all", timeout_s=20.0)
        messages.append(str(refused.value))
    return messages


def test_a_tensor_or_array_of_too_few_rows_on_one_rank_is_refused_by_all():
    results = run_ranks(4, dispatch_uneven_protos)
    assert all(messages == results[0] for messages in results)
    rule = "; rank 1: everything has as many rows as the attention_mask, 3, "
    assert [message.split(", 3, ")[1] for message in results[0]] == [
        "'reward' is [2]", f"'values' is [2, {WIDTH}]", "'uid' is [2]",
    ]  # fmt: skip
    assert all(rule in message for message in results[0])


def test_padding_and_what_follows_from_the_rest_do_not_travel():
    tokens = columns_from_data_proto(make_proto()).tokens
    assert tokens.lengths.tolist() == [10, 6, 4, 3, 2]
    assert tokens.turn_counts().tolist() == [6, 5, 1, 3, 0]
    assert {n: c.dtype for n, c in tokens.per_token.items()} == {
        "input_ids": torch.int32,
        "values": torch.float64,
    }
    assert {n: c.dtype for n, c in tokens.per_turn.items()} == {
        "response_mask": torch.bool,
        "old_log_probs": torch.float32,
    }


def test_a_batch_without_narrow_tensors_or_rows_comes_back():
    whole = make_proto()
    for name in ("prompts", "responses", "response_mask", "old_log_probs"):
        del whole.batch[name]
    for proto in (whole, whole.rows([])):
        again = data_proto_from_columns(proto, columns_from_data_proto(proto), fill=FILL)
        assert_same_proto(again, proto)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_tensordict_comes_back_as_one():
    tensordict = pytest.importorskip("tensordict")
    proto = make_proto()
    inside = replace(proto, batch=tensordict.TensorDict(proto.batch, batch_size=[5]))
    again = data_proto_from_columns(inside, columns_from_data_proto(inside), fill=FILL)
    assert isinstance(again.batch, tensordict.TensorDict)
    assert again.batch.batch_size == torch.Size([5])
    names = sorted(proto.batch)
    assert_same_proto(
        replace(again, batch={name: again.batch[name] for name in names}),
        replace(proto, batch={name: proto.batch[name] for name in names}),
    )


@pytest.mark.parametrize(
    ("name", "tensor", "part"),
    [
        ("position_ids", torch.ones(5, WIDTH), "'position_ids' has to follow from"),
        ("responses", torch.zeros(5, RESPONSE), "'responses' has to follow from"),
        (
            "response_mask",
            2 * make_proto().batch["response_mask"],
            "'response_mask' has values that",
        ),
        ("response_mask", torch.ones(5, RESPONSE), "'response_mask' has ones where the"),
        ("input_ids", torch.full((5, WIDTH), 2**40), "has to follow from"),
        ("pixels", torch.zeros(5, 2, 2), "'pixels' is [5, 2, 2]"),
        ("scores", torch.zeros(5, 3), "or share one smaller width"),
        ("scores", torch.zeros(5, 30), "or share one smaller width"),
        ("attention_mask", torch.zeros(5), "needs an attention_mask of shape"),
    ],
)
def test_what_could_not_be_the_same_afterwards_is_refused(name, tensor, part):
    proto = make_proto()
    proto.batch[name] = tensor
    with pytest.raises(ValueError) as refused:  # noqa: PT011 - the text is compared below
        columns_from_data_proto(proto)
    assert part in str(refused.value)
