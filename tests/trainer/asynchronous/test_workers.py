from earl_trainer.asynchronous.workers import LostRolloutWorkerError
from earl_trainer.types import RunFailedError


def test_a_lost_worker_is_named_and_ends_a_run_in_one_line():
    error = LostRolloutWorkerError(3, "its process has ended")
    assert isinstance(error, RunFailedError)
    assert (error.worker, str(error)) == (3, "rollout worker 3 is gone: its process has ended")
