import numpy as np
import torch
from earl_dispatch.adapters.pickled_rows import pickle_rows, unpickle_rows

ARRAYS = {
    "uid": np.array(["a", "ä", ""], dtype=object),
    "turns": np.array([[1], [2, 3], None], dtype=object),
    "box": np.arange(6.0).reshape(3, 2),
    "flag": np.array([True, False, True]),
}
THREE = torch.zeros(3, dtype=torch.int64)


def as_plain(arrays: dict) -> dict:
    return {name: (array.dtype, array.tolist()) for name, array in arrays.items()}


def test_rows_come_back_in_the_order_they_are_selected_in():
    columns = pickle_rows(ARRAYS, THREE)
    assert as_plain(unpickle_rows(columns, like=ARRAYS)) == as_plain(ARRAYS)
    picked = {name: array[[2, 0]] for name, array in ARRAYS.items()}
    assert as_plain(unpickle_rows(columns.select([2, 0]), like=ARRAYS)) == as_plain(picked)


def test_no_rows_keep_dtypes_and_shapes():
    none = unpickle_rows(pickle_rows(ARRAYS, THREE).select([]), like=ARRAYS)
    assert none["box"].shape == (0, 2)
    assert as_plain(none) == as_plain({name: array[:0] for name, array in ARRAYS.items()})


def test_rows_without_arrays_take_no_bytes():
    columns = pickle_rows({}, THREE)
    assert columns.lengths.tolist() == [0, 0, 0]
    assert unpickle_rows(columns, like={}) == {}
