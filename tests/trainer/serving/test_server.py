import pytest
from earl_trainer.serving.server import LostServerError, ReplyServer
from earl_trainer.types import RunFailedError


@pytest.mark.parametrize("missing", ["pause", "update_weights", "needs_folder"])
def test_what_lacks_a_part_is_no_server(fake_server, missing):
    assert isinstance(fake_server(), ReplyServer)
    methods = {
        name: getattr(fake_server, name)
        for name in (
            "capacity_tokens", "needs_folder", "generate", "pause", "update_weights", "resume",
            "close",
        )
        if name != missing
    }  # fmt: skip
    assert not isinstance(type("Less", (), methods | {"name": "x"})(), ReplyServer)


def test_a_loss_that_nobody_can_make_up_for_ends_the_run():
    assert issubclass(LostServerError, RunFailedError)
