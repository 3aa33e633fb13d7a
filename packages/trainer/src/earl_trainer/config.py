"""RunConfig: everything that a run depends on, checked before anything starts.

Bounds of single fields stand in their types; rules between fields stand in `earl_trainer.rules`.
"""

from typing import Annotated, Literal

from annotated_types import Ge, MinLen

from earl_trainer.algorithms.config import AdvantageConfig, AlgorithmConfig, CriticConfig
from earl_trainer.asynchronous.config import AsynchronousConfig
from earl_trainer.config_fields import AUTO, NonNegativeInt, PositiveFloat, PositiveInt, section
from earl_trainer.evaluation.config import EvaluationConfig
from earl_trainer.experience.config import ExperienceConfig
from earl_trainer.guards.config import GuardsConfig
from earl_trainer.learner.config import LearnerConfig, WarmupConfig
from earl_trainer.preference.config import PreferenceConfig
from earl_trainer.rewards.config import JudgeConfig, RewardConfig, RewardModelConfig

SELF_PLAY = "self"
"""The opponent of a run whose learner plays every seat."""
PAST_MODELS = ("pool:recency", "pool:rating")
"""Opponents of a run that meets its own checkpoints."""


@section
class ModelConfig:
    """The language model."""

    name: str = "tiny"
    """`tiny` (from scratch), `smollm2-135m-instruct`, a folder, or owner/name of a model hub."""
    hidden_size: PositiveInt = 128
    """Width of the tiny model."""
    num_layers: PositiveInt = 4
    """Depth of the tiny model."""
    num_heads: PositiveInt = 4
    """Attention heads of the tiny model."""
    max_positions: PositiveInt = 1024
    """Positions the tiny model is made for."""
    dtype: Literal["float32", "bfloat16"] = "float32"
    """Precision of weights and activations; the optimizer's copy is always float32."""
    reference_dtype: Literal["same", "int8"] = "same"
    """Precision of the reference policy: that of the model, or linear layers in 8 bits."""
    device: str = "auto"
    """`auto` takes a GPU where there is one; else a torch device such as `cpu` or `cuda:0`."""


@section
class RolloutConfig:
    """Playing episodes for a training step."""

    engine: Literal["transformers", "vllm", "openai"] = "transformers"
    """What generates: the library that also trains, vLLM, which is an extra of the package, or
    `servers` behind HTTP."""
    servers: tuple[str, ...] = ()
    """Addresses such as `http://host:8000`, with commas between, for the engine `openai`."""
    server_kind: Literal["vllm", "sglang", "openai"] = "vllm"
    """What they are: `vllm serve`, SGLang, or others that return token ids and take no weights."""
    weights_dir: str = ""
    """A folder that the run and its servers see under one path, through which they get new weights;
    empty for a temporary one of this machine."""
    num_episodes: PositiveInt = 256
    """Episodes of one step; a multiple of `group_size`."""
    group_size: PositiveInt = 16
    """Episodes of a seat that share the game and the opponent's random stream."""
    temperature: PositiveFloat = 1.0
    """Of the sampler, and of every log-prob that is compared with it."""
    max_reply_tokens: PositiveInt = 4
    """A longer reply is cut and counted as truncated."""
    max_context_tokens: PositiveInt = 256
    """An episode whose next turn does not fit is cut and counted as truncated."""
    games_per_episode: PositiveInt = 1
    """Games in one context against one opponent, rewarded by their mean; matches play one."""
    games_ramp_steps: NonNegativeInt = 0
    """Steps of reinforcement learning over which the games grow from one to `games_per_episode`,
    and contexts with them; the phase before then plays one. 0 plays all from the beginning."""
    overflow: Literal["queue", "cut"] = "queue"
    """Contexts that do not fit the memory wait for one another, or each is cut at an equal share
    of it, as where memory is set aside beforehand."""


@section
class DispatchConfig:
    """Bringing samples from the workers that prepared them to those that learn from them."""

    transport: Literal["auto", "all_to_all", "shared_memory", "gather_scatter", "pipelined"] = (
        "auto"
    )
    """`auto` is `shared_memory`, or nothing at all for one worker; the samples do not depend on it,
    the time does."""
    max_buffer_bytes: NonNegativeInt = 0
    """Most bytes that a worker sends, and receives, at a time; 0 for no limit. `shared_memory` uses
    no buffers."""
    timeout_s: PositiveFloat = 1800.0
    """Longest time that workers wait for the slowest of them, a rollout or a match included."""

    def transport_of(self, num_workers: int) -> str:
        """Return the transport of a team of this size."""
        if num_workers == 1:
            return "local"
        return "shared_memory" if self.transport == "auto" else self.transport


@section
class SelectorConfig:
    """The parallelism selector."""

    tp_degrees: Annotated[tuple[PositiveInt, ...], MinLen(1)] = (1,)
    """Tensor-parallel degrees to choose from, each a divisor of `num_devices`."""
    policy: Literal["selector", "fixed", "earl", "throttle"] = "selector"
    """What decides on the degree: the selector; or, to compare with, one degree kept (`fixed`),
    one degree kept with no more episodes at once than it holds (`throttle`), or the degree that is
    best for the range of the last average context (`earl`, arXiv:2510.05943)."""
    num_devices: PositiveInt = 1
    """Ranks that generate, each a process of its own: 1 generates in the process that learns."""
    deployment: Literal["sharing", "single"] = "sharing"
    """Ranks left over at a degree form further engines that share a step's episodes; or a single
    engine plays them all, and degrees are compared by tokens per second and rank in use."""
    ray_address: str = ""
    """Of the Ray cluster where ranks run; empty starts one on this machine."""
    switch_timeout_s: PositiveFloat = 120.0
    """Longest time that a change of degree, or new weights, may take."""
    max_token_error: Annotated[float, Ge(1.0)] = 1.05
    """Mean of exp(|log-prob difference|) of a probe before and after a switch that is in order."""
    on_drift: Literal["flag", "refuse"] = "flag"
    """A switch that moves log-probs further is remarked on, or taken back."""
    max_restarts: NonNegativeInt = 3
    """How often lost ranks, or vLLM's processes, are started anew before the run ends."""
    prepare_on: Literal["learner", "ranks"] = "learner"
    """Who computes old log-probs: the process that learns, or the ranks, at a degree of their own.
    """
    memory_bytes: PositiveInt = 2 * 1024**3
    """Memory of one rank for weights and the contexts in flight."""
    profile: str = AUTO
    """How fast each degree is: `auto` measures it at the first start of such a run, once for the
    whole machine; `none` takes an order that was not measured; or a file of `earl profile`."""
    profile_s: PositiveFloat = 10.0
    """About how long `auto` may measure; what there is no time for is estimated from the rest."""
    times: Literal["run", "profile"] = "run"
    """Whether the run's own times of rollouts and changes correct the profile's; with `profile`
    runs of one seed that have the same profile choose the same degrees."""


@section
class TrackingConfig:
    """What is written and where it goes."""

    wandb: Literal["auto", "online", "offline", "disabled"] = "auto"
    """`auto` is online with a key and offline without."""
    wandb_project: str = "earl"
    """The W&B project."""
    checkpoint_every_steps: PositiveInt = 100
    """A checkpoint also follows the last step and Ctrl-C."""
    keep_checkpoints: PositiveInt = 2
    """Older ones are deleted once a newer one is complete, and leave `pool:recency|rating` too."""


@section
class RunConfig:
    """One run."""

    recipe: str = "tictactoe-tiny"
    """The recipe that the other values started from."""
    seed: NonNegativeInt = 0
    """Every random number of the run derives from it."""
    env: str = "earl/TicTacToe-v0"
    """The game, by its id."""
    opponent: str = "random"
    """Plays the other seats: `random`, ..., `self`, or checkpoints by `pool:recency|rating`."""
    rollout_workers: PositiveInt = 1
    """Processes that play and prepare, each a part of a step's episodes."""
    learner_workers: PositiveInt = 1
    """Processes that learn, each from a part of every mini-batch; they may be the same ones."""
    max_staleness: NonNegativeInt = 0
    """Updates that generation may be ahead of learning; at 0 they take turns."""
    model: ModelConfig = ModelConfig()
    """The language model."""
    warmup: WarmupConfig = WarmupConfig()
    """The supervised phase."""
    rollout: RolloutConfig = RolloutConfig()
    """Playing episodes."""
    reward: RewardConfig = RewardConfig()
    """Rewarding episodes."""
    reward_model: RewardModelConfig = RewardModelConfig()
    """Learning a reward model."""
    judge: JudgeConfig = JudgeConfig()
    """A language model that marks episodes."""
    experience: ExperienceConfig = ExperienceConfig()
    """Filters, replay and curriculum."""
    algorithm: AlgorithmConfig = AlgorithmConfig()
    """The algorithm."""
    advantage: AdvantageConfig = AdvantageConfig()
    """From rewards to advantages."""
    critic: CriticConfig = CriticConfig()
    """The critic, where the algorithm has one."""
    preference: PreferenceConfig = PreferenceConfig()
    """Learning from data instead."""
    learner: LearnerConfig = LearnerConfig()
    """The model update."""
    dispatch: DispatchConfig = DispatchConfig()
    """The data dispatcher."""
    asynchronous: AsynchronousConfig = AsynchronousConfig()
    """Generating while learning."""
    selector: SelectorConfig = SelectorConfig()
    """The parallelism selector."""
    evaluation: EvaluationConfig = EvaluationConfig()
    """Matches."""
    guards: GuardsConfig = GuardsConfig()
    """What watches the run."""
    tracking: TrackingConfig = TrackingConfig()
    """Records."""

    @property
    def num_workers(self) -> int:
        """Processes of the run."""
        return max(self.rollout_workers, self.learner_workers)

    @property
    def is_asynchronous(self) -> bool:
        """Whether processes of their own generate."""
        return self.may_be_ahead or self.asynchronous.always

    @property
    def may_be_ahead(self) -> bool:
        """Whether what is trained may come from older weights."""
        return self.max_staleness > 0 or self.asynchronous.bound == "none"

    @property
    def correction(self) -> str:
        """The name of the correction for tokens of older weights."""
        if self.algorithm.correction != AUTO:
            return self.algorithm.correction
        return "decoupled" if self.may_be_ahead or self.experience.reuses else "none"

    @property
    def self_play(self) -> bool:
        """Whether the learner plays every seat."""
        return self.opponent == SELF_PLAY

    @property
    def match_opponent(self) -> str:
        """The opponent of matches."""
        if self.evaluation.opponent != AUTO:
            return self.evaluation.opponent
        return "random" if self.opponent in (SELF_PLAY, *PAST_MODELS) else self.opponent
