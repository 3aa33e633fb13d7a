"""Weights & Biases: the only module that imports it."""

import netrc
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, final
from urllib.parse import urlparse

import wandb

from earl_trainer.evaluation.checkup import Checkup
from earl_trainer.evaluation.match import MatchResult
from earl_trainer.tracking.metrics import StepRecord

Mode = Literal["online", "offline", "disabled"]
_MODES: tuple[Mode, ...] = ("online", "offline", "disabled")
_DEFAULT_URL = "https://api.wandb.ai"


def choose_mode(setting: Literal["auto"] | Mode) -> tuple[Mode, str]:
    """Decide where a run is logged, and say why.

    `auto` asks for WANDB_MODE, then for a key.
    """
    if setting != "auto":
        return setting, "tracking.wandb"
    wish = os.environ.get("WANDB_MODE")
    for mode in _MODES:
        if mode == wish:
            return mode, "WANDB_MODE"
    return ("online", "a key is set") if _has_key() else ("offline", "no key is set")


def _has_key() -> bool:
    if os.environ.get("WANDB_API_KEY"):
        return True
    host = urlparse(os.environ.get("WANDB_BASE_URL", _DEFAULT_URL)).hostname or ""
    try:
        return netrc.netrc().authenticators(host) is not None
    except (FileNotFoundError, netrc.NetrcParseError):
        return False


@final
class WandbSink:
    """Logs every step and evaluation to one W&B run.

    Steps and evaluations have step axes of their own, so neither drops the other's rows; after a
    resume the run goes on under its old id.

    Raises:
        ValueError: If W&B refuses the run, for example for want of a key.
    """

    def __init__(
        self,
        folder: Path,
        *,
        project: str,
        name: str,
        run_id: str,
        mode: Literal["online", "offline"],
        config: Mapping[str, Any],  # Any: the nested plain values of a config
    ) -> None:
        try:
            self._run = wandb.init(
                project=project,
                name=name,
                id=run_id,
                resume="allow",
                mode=mode,
                dir=folder,
                config=dict(config),
                settings=wandb.Settings(console="off", silent=True),
            )
        except wandb.Error as error:
            raise ValueError(f"cannot log to W&B {mode}: {' '.join(str(error).split())}") from error
        self._groups = set[str]()
        self._run.define_metric("evaluation/*", step_metric="evaluation_step")
        self._run.define_metric("checkup/*", step_metric="checkup/step")

    def log_step(self, record: StepRecord) -> None:
        """Log a step; every group of its figures has the step as its axis."""
        groups = {name.partition("/")[0] for name in record.metrics} | {"selector"}
        for group in sorted(groups - self._groups):
            self._run.define_metric(f"{group}/*", step_metric="train_step")
        self._groups |= groups
        self._run.log({
            "train_step": record.step,
            "phase": record.phase,
            "selector/reason": record.decision,
            "selector/decision": record.decision_json,
            **record.metrics,
        })

    def log_evaluation(self, name: str, step: int, result: MatchResult) -> None:
        """Log a match under `evaluation/`, and under its name in the run's summary."""
        figures = result.to_dict()
        self._run.log({
            "evaluation_step": step,
            **{f"evaluation/{k}": v for k, v in figures.items()},
        })
        self._run.summary.update({f"evaluation_{name}/{k}": v for k, v in figures.items()})

    def log_checkup(self, checkup: Checkup) -> None:
        """Log a checkup; its figures have its step among them."""
        self._run.log(checkup.figures())

    def log_results(self, results: Mapping[str, object], picture: Path) -> None:
        """Put the results into the run's summary, and the picture beside its charts."""
        self._run.summary.update({"results": dict(results)})
        self._run.log({"picture": wandb.Image(str(picture))})

    def close(self) -> None:
        """Finish the run."""
        self._run.finish()
