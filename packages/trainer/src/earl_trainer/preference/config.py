"""The section of the configuration that learns from data instead of rewards."""

from typing import Annotated, Literal

from annotated_types import Ge, Lt

from earl_trainer.config_fields import NonNegativeFloat, PositiveFloat, PositiveInt, section


@section
class PreferenceConfig:
    """Learning from demonstrations and preferences, in place of reinforcement learning."""

    name: Literal["none", "sft", "rft", "dpo", "ipo", "simpo", "orpo", "kto", "spin"] = "none"
    """What learns after warm-up: imitation (`sft`), imitation of the policy's own games that were
    won (`rft`), or a preference loss; `none` is the algorithm of `algorithm.name`."""
    data: str = ""
    """A JSONL file, or a folder of JSONL, of Parquet, or of a Hugging Face data set that was saved;
    empty plays games, to learn from these."""
    player: str = "perfect"
    """The opponent of the suite whose games are shown, of `sft` and `spin` without `data`."""
    threshold: float = 0.0
    """Episodes with a larger reward are good, those with a smaller one bad: of `rft` and `kto`."""
    beta: PositiveFloat = 0.1
    """How strongly log-probs count; of `orpo` the weight of the odds ratio."""
    margin: NonNegativeFloat = 0.0
    """By how much `simpo` wants the better answer ahead."""
    label_smoothing: Annotated[float, Ge(0.0), Lt(0.5)] = 0.0
    """The share of pairs that `dpo` and `spin` take to be labelled the wrong way round."""
    iterate_steps: PositiveInt = 5
    """Steps of an iterate of `spin`: in its course the opponent, who is the reference too, stays as
    it was before."""
    desirable_weight: PositiveFloat = 1.0
    """Of good answers, of `kto`; its authors keep the ratio of both weights, times that of both
    numbers of answers, between 1 and 4/3."""
    undesirable_weight: PositiveFloat = 1.0
    """Of bad ones."""
