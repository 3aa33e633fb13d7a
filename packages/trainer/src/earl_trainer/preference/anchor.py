"""The policy that an iterate of SPIN began with: its opponent and its reference."""

from pathlib import Path
from typing import Final, final

import torch
from transformers import PreTrainedModel

from earl_trainer.rollout.policies import LanguagePolicy
from earl_trainer.rollout.transformers_engine import TransformersEngine

ANCHOR_FILE: Final = "anchor.pt"
"""In a checkpoint: the weights of an anchor."""


@final
class Anchor:
    """A copy of the policy that follows it only from iterate to iterate.

    Between two of them it is the same policy to whatever asks: it replies, and its model scores.

    Lifecycle: made at the start of a phase, or restored inside it; `at` before anything else of a
    step.

    Args:
        model: Frozen, with the weights that the phase, or the present iterate, begins with.
        live: The model that learns.
        first_step: Of the phase.
        iterate_steps: Steps of an iterate.
        temperature: Of the replies.
        stop_ids: Tokens that end a reply.
        capacity_tokens: Context tokens that may be resident at once.
    """

    def __init__(
        self,
        model: PreTrainedModel,
        live: PreTrainedModel,
        *,
        first_step: int,
        iterate_steps: int,
        temperature: float,
        stop_ids: frozenset[int],
        capacity_tokens: int,
    ) -> None:
        self.model = model
        self._live = live
        self._first_step = first_step
        self._iterate_steps = iterate_steps
        self._engine = TransformersEngine(model, stop_ids=stop_ids, capacity_tokens=capacity_tokens)
        self._policy = LanguagePolicy(self._engine, temperature=temperature)

    def at(self, step: int) -> LanguagePolicy:
        """Return the opponent of a step; the first of an iterate takes over the learner's weights.

        Args:
            step: The step that is about to be made.
        """
        steps_since = (step - self._first_step) % self._iterate_steps
        if not steps_since:
            self.model.load_state_dict(self._live.state_dict())
        # Also without new weights: every step asks for other contexts under the same names.
        self._engine.load_weights(step - steps_since)
        return self._policy

    def save(self, folder: Path) -> None:
        """Write the weights into a checkpoint."""
        torch.save(self.model.state_dict(), folder / ANCHOR_FILE)

    def restore(self, folder: Path) -> None:
        """Take over the weights of a checkpoint."""
        device = self.model.device
        self.model.load_state_dict(torch.load(folder / ANCHOR_FILE, map_location=device))
