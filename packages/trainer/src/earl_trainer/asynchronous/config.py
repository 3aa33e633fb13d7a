"""The section of the configuration for generating while learning."""

from typing import Annotated, Literal

from annotated_types import Ge, Lt

from earl_trainer.config_fields import NonNegativeInt, PositiveFloat, PositiveInt, section


@section
class AsynchronousConfig:
    """Generating while learning, where `max_staleness` is above 0 or `always` is set."""

    always: bool = False
    """Workers generate even at `max_staleness` 0; they then take turns with the learner."""
    bound: Literal["admission", "strict", "none"] = "admission"
    """When groups may start, so that weights change at most `max_staleness` times until they are
    trained; with `strict` they are also trained in order, slow ones waited for, and no token is
    older. `none` starts `max_running_groups` whatever the age."""
    on_stale: Literal["pace", "discard"] = "pace"
    """Groups with an older token are trained all the same, or dropped and replaced."""
    interrupt: bool = True
    """New weights break replies off, which go on under them; else they wait for the replies."""
    publish_every_steps: PositiveInt = 1
    """Updates from one version that the workers are handed to the next."""
    check_weights: bool = False
    """Compare checksums of every parameter where it arrives."""
    publication: Literal["store", "broadcast"] = "store"
    """New weights come to the workers through Ray's object store, or straight from the process that
    learns, by a process group: NCCL where each has a GPU of its own, else gloo."""
    bucket_bytes: PositiveInt = 64 * 1024**2
    """Of a broadcast: one piece is sent while the next is gathered."""
    vllm_weights: Literal["disk", "transfer"] = "disk"
    """How new weights come to vLLM, where it generates: as files, or by its weight-transfer
    interface. It starts with files."""
    max_running_groups: NonNegativeInt = 0
    """Groups that are played at once; 0 for as many as may start."""
    max_queued_groups: NonNegativeInt = 0
    """With `bound none`: finished groups that may wait while those run; 0 for 8 batches."""
    num_workers: PositiveInt = 1
    """Processes that generate, besides the one that learns."""
    num_threads: PositiveInt = 1
    """That each of them computes with; the process that learns has the other cores."""
    worker_cores: tuple[PositiveInt, ...] = ()
    """Instead of those two: the cores of each worker, which may differ."""
    split: Annotated[float, Ge(0.0), Lt(1.0)] = 0.0
    """Instead of `num_threads`: the share of the cores that generates, in all workers together; 0
    leaves it to that."""
    placement: Literal["spread", "pack", "colocated"] = "pack"
    """Workers go to different machines, to few, or to that of the process that learns, whose cores
    and GPUs they share."""
    max_restarts: NonNegativeInt = 3
    """How often lost ones are started anew; afterwards the others play on alone."""
    timeout_s: PositiveFloat = 1800.0
    """Longest time that a batch may take."""
