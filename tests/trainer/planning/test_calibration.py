"""Speeds from throughputs."""

from dataclasses import replace
from math import inf

import pytest
from earl_trainer.planning.areal import TABLE_2_TOKENS_PER_S, areal_model
from earl_trainer.planning.calibration import FITTED_ETAS, fit_speeds
from earl_trainer.planning.lengths import LogNormalLengths
from earl_trainer.planning.model import PipelineModel
from earl_trainer.planning.pipeline import simulate

MODEL = PipelineModel(
    lengths=LogNormalLengths(median_tokens=100, tail_ratio=8, max_tokens=400),
    batch_groups=32,
    group_size=4,
    num_rollout_devices=4,
    num_training_devices=2,
    slots_per_device=120,
    decode_s=0.010,
    decode_s_per_sequence=0.0003,
    training_s_per_token=0.0005,
    publication_s=0.3,
)
UNKNOWN = replace(MODEL, decode_s=1.0, decode_s_per_sequence=1.0, training_s_per_token=1.0)


RUN = {"num_steps": 16, "seed": 0}


def rates(model):
    return {eta: simulate(model, eta, **RUN).trained_tokens_per_s for eta in FITTED_ETAS}


def test_speeds_are_found_again_from_three_rates():
    measured = rates(MODEL)
    fitted = fit_speeds(UNKNOWN, measured, **RUN)
    # Lengths of the drawn batches are not quite the mean that the fit reckons with.
    assert fitted.training_s_per_token == pytest.approx(MODEL.training_s_per_token, rel=0.1)
    assert fitted.decode_s == pytest.approx(MODEL.decode_s, rel=0.2)
    assert fitted.decode_s_per_sequence == pytest.approx(MODEL.decode_s_per_sequence, rel=0.4)
    for eta, rate in rates(fitted).items():
        assert rate == pytest.approx(measured[eta], rel=0.03)


def test_other_rates_are_not_looked_at():
    three = rates(MODEL)
    assert fit_speeds(UNKNOWN, {**three, 2: 1.0, 16: 1e9}, **RUN) == (
        fit_speeds(UNKNOWN, three, **RUN)
    )


@pytest.mark.parametrize(("eta", "factor"), [(1, 0.5), (1, 2.0), (inf, 4.0)])
def test_rates_that_no_speeds_give_are_refused(eta, factor):
    measured = rates(MODEL)
    measured[eta] *= factor
    with pytest.raises(ValueError, match=f"no speeds give .* {measured[eta]:g} at {eta:g}"):
        fit_speeds(UNKNOWN, measured, **RUN)


def test_generation_with_all_slots_in_use_keeps_up_with_training():
    # Eta = 1 alone would ask for sequences that slow each other down more than that allows.
    measured = rates(replace(MODEL, decode_s_per_sequence=0.00092))
    fitted = fit_speeds(UNKNOWN, {**measured, 1: 0.99 * measured[1]}, **RUN)
    trained_tokens_per_s = fitted.batch_tokens / fitted.training_s
    assert fitted.max_generated_tokens_per_s == pytest.approx(trained_tokens_per_s)


@pytest.mark.slow
def test_the_stored_speeds_are_the_fit_to_three_rates_of_table_2():
    model = areal_model()
    unknown = replace(model, decode_s=1.0, decode_s_per_sequence=1.0, training_s_per_token=1.0)
    three = {eta: TABLE_2_TOKENS_PER_S[eta] for eta in (0, 1, inf)}
    fitted = fit_speeds(unknown, three, num_steps=80, seed=0)
    for name in ("decode_s", "decode_s_per_sequence", "training_s_per_token"):
        assert getattr(fitted, name) == pytest.approx(getattr(model, name), rel=0.01)
