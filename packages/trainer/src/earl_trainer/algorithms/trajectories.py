"""From rewards of tokens to advantages of tokens, along the trained tokens of an episode.

What an episode's prompts say lies between its trained tokens and is no step of a trajectory: it has
no value, takes no reward and discounts nothing.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
from jaxtyping import Bool, Float, Int64
from torch import Tensor


@dataclass(frozen=True, slots=True, kw_only=True)
class Trajectories:
    """The trained tokens of episodes, each row padded at its end; 0 there. At least one step."""

    rewards: Float[Tensor, "episodes steps"]
    values: Float[Tensor, "episodes steps"]
    """What the critic expected in front of each token; 0 without a critic."""
    last_values: Float[Tensor, " episodes"]
    """What it expects behind the last token of an episode that was cut; 0 where it terminated."""
    log_ratios: Float[Tensor, "episodes steps"]
    """log(policy / behaviour policy) of each token; 0 on policy."""
    turns: Int64[Tensor, "episodes steps"]
    """Number of each token's reply, from 0."""
    mask: Bool[Tensor, "episodes steps"]
    """False at padding."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Discounts:
    """How far a trajectory looks ahead."""

    gamma: float = 1.0
    """Discount per step."""
    trace_decay: float = 1.0
    """lambda of GAE and of V-trace."""
    max_trace: float = 1.0
    """Bound of the ratios of V-trace: rho-bar, for its advantages too."""
    by_turn: bool = False
    """Steps of GAE are replies and not tokens."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimates:
    """Per step; void at padding."""

    advantages: Float[Tensor, "episodes steps"]
    returns: Float[Tensor, "episodes steps"]
    """What the critic should have expected."""


TrajectoryFunction = Callable[[Trajectories, Discounts], Estimates]


def reward_to_go(steps: Trajectories, discounts: Discounts) -> Estimates:
    """Sum what comes: A_t = G_t = r_t + gamma G_{t+1} (Sutton and Barto, 2nd ed., eq. 3.9).

    With all reward on the last token and gamma = 1 every token gets it, which is how algorithms
    with one number per episode spread it. With a KL penalty per token it is the return of
    REINFORCE++ (Hu et al., arXiv:2501.03262).
    """
    returns = _backwards(steps.rewards, torch.full_like(steps.rewards, discounts.gamma), steps)
    return Estimates(advantages=returns, returns=returns)


def gae(steps: Trajectories, discounts: Discounts) -> Estimates:
    """Generalised advantage estimation (Schulman et al., arXiv:1506.02438, eq. 16).

    delta_t = r_t + gamma V_{t+1} - V_t and A_t = delta_t + gamma lambda A_{t+1}, returns A + V.
    V behind the last step is 0 where the episode terminated, and the critic's where it was cut.

    By turn, a step is a whole reply: its V is that in front of its first token, its reward that of
    all its tokens, and all its tokens get its advantage and its return (AReaL's
    `gae_timestep_unit: turn`).
    """
    if not discounts.by_turn:
        return _gae(steps, discounts)
    of_turns = _gae(_join_turns(steps), discounts)
    return Estimates(
        advantages=of_turns.advantages.gather(1, steps.turns),
        returns=of_turns.returns.gather(1, steps.turns),
    )


def _gae(steps: Trajectories, discounts: Discounts) -> Estimates:
    deltas = steps.rewards + discounts.gamma * _next(steps.values, steps) - steps.values
    decay = discounts.gamma * discounts.trace_decay
    advantages = _backwards(deltas, torch.full_like(deltas, decay), steps)
    return Estimates(advantages=advantages, returns=advantages + steps.values)


def vtrace(steps: Trajectories, discounts: Discounts) -> Estimates:
    """V-trace (IMPALA, Espeholt et al., arXiv:1802.01561, eq. 1 and section 4.2).

    With rho_t = min(rho-bar, pi / mu) and c_t = lambda min(1, pi / mu):
    delta_t = rho_t (r_t + gamma V_{t+1} - V_t), v_t = V_t + delta_t + gamma c_t (v_{t+1} - V_{t+1})
    and A_t = rho_t (r_t + gamma (lambda v_{t+1} + (1 - lambda) V_{t+1}) - V_t); the paper's
    policy gradient for lambda = 1, rlax's `vtrace_td_error_and_advantage` for others.
    """
    ratios = steps.log_ratios.exp()
    weights = ratios.clamp(max=discounts.max_trace)
    gamma, decay = discounts.gamma, discounts.trace_decay
    next_values = _next(steps.values, steps)
    deltas = weights * (steps.rewards + gamma * next_values - steps.values)
    errors = _backwards(deltas, gamma * decay * ratios.clamp(max=1.0), steps)
    targets = steps.values + errors
    ahead = decay * _next(targets, steps) + (1.0 - decay) * next_values
    return Estimates(
        advantages=weights * (steps.rewards + gamma * ahead - steps.values), returns=targets
    )


def _next(
    values: Float[Tensor, "episodes steps"], steps: Trajectories
) -> Float[Tensor, "episodes steps"]:
    """What stands one step further; behind an episode's last step, its `last_values`."""
    shifted = torch.cat([values[:, 1:], torch.zeros_like(values[:, :1])], dim=1)
    return torch.where(_is_last(steps.mask), steps.last_values[:, None], shifted)


def _is_last(mask: Bool[Tensor, "episodes steps"]) -> Bool[Tensor, "episodes steps"]:
    follows = torch.cat([mask[:, 1:], torch.zeros_like(mask[:, :1])], dim=1)
    return mask & ~follows


def _backwards(
    deltas: Float[Tensor, "episodes steps"],
    decays: Float[Tensor, "episodes steps"],
    steps: Trajectories,
) -> Float[Tensor, "episodes steps"]:
    """x_t = delta_t + decay_t x_{t+1}, 0 behind the end."""
    ahead = torch.zeros_like(steps.last_values)
    sums: list[Tensor] = []
    for t in reversed(range(deltas.shape[1])):
        ahead = torch.where(steps.mask[:, t], deltas[:, t] + decays[:, t] * ahead, 0.0)
        sums.append(ahead)
    return torch.stack(sums[::-1], dim=1)


def _join_turns(steps: Trajectories) -> Trajectories:
    """Make every reply one step; `turns` stay as they were and mean nothing."""
    earlier = torch.cat([torch.full_like(steps.turns[:, :1], -1), steps.turns[:, :-1]], dim=1)
    begins = steps.mask & (steps.turns != earlier)
    zeros = torch.zeros_like(steps.rewards)  # There are no more replies than tokens.

    def add_up(values: Tensor) -> Tensor:
        return zeros.scatter_add(1, steps.turns, values)

    return replace(
        steps,
        rewards=add_up(torch.where(steps.mask, steps.rewards, 0.0)),
        values=add_up(torch.where(begins, steps.values, 0.0)),
        log_ratios=add_up(torch.where(steps.mask, steps.log_ratios, 0.0)),
        mask=add_up(begins.float()) > 0,
    )
