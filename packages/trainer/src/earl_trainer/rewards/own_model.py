"""The reward model that a run learns itself."""

from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import final

from transformers import PreTrainedModel, PreTrainedTokenizerBase

from earl_trainer.phases import Phase
from earl_trainer.rewards.learning import REWARD_MODEL
from earl_trainer.rewards.model import load_reward_model, make_reward_model


@final
class OwnRewardModel:
    """A run's reward model: where it comes from, when it is learned, and where it is kept.

    Args:
        phases: Of the run.
        policy: Its model, from whose body this one begins when it is first asked for.
        tokenizer: Saved with it.
        resumed_from: The checkpoint that the run goes on from, if it does.
    """

    def __init__(
        self,
        phases: Sequence[Phase],
        policy: PreTrainedModel,
        tokenizer: PreTrainedTokenizerBase,
        resumed_from: Path | None,
    ) -> None:
        self._phases = [phase for phase in phases if phase.name == REWARD_MODEL]
        self._policy = policy
        self._tokenizer = tokenizer
        self._saved = None if resumed_from is None else resumed_from / REWARD_MODEL

    @cached_property
    def model(self) -> PreTrainedModel:
        """The model as it is now: as the checkpoint has it, or begun now."""
        if self._saved is None or not self._saved.exists():
            return make_reward_model(self._policy)
        return load_reward_model(self._saved, device=self._policy.device)

    def is_learned_at(self, step: int) -> bool:
        """Return whether a step updates this model and not the policy."""
        return any(phase.first_step <= step < phase.end_step for phase in self._phases)

    def save(self, folder: Path, step: int) -> None:
        """Write it as a folder of its own, if one step at least has updated it.

        Args:
            folder: In which that is.
            step: The run's next one.
        """
        if any(phase.first_step < step for phase in self._phases):
            self.model.save_pretrained(folder / REWARD_MODEL)
            self._tokenizer.save_pretrained(folder / REWARD_MODEL)
