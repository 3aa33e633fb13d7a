"""Rollbacks are remembered by a file of their own."""

from dataclasses import replace

from earl_trainer.guards.rollbacks import Rollback, RollbackLog

ROLLBACK = Rollback(from_step=30, to_step=20, guard="kl", reason="kl 0.3 is above 0.1")


def test_what_was_appended_is_read_in_its_order(tmp_path):
    log = RollbackLog(tmp_path / "rollbacks.jsonl")
    assert log.read() == []
    log.append(ROLLBACK)
    log.append(replace(ROLLBACK, from_step=50))
    assert RollbackLog(tmp_path / "rollbacks.jsonl").read() == [
        ROLLBACK,
        replace(ROLLBACK, from_step=50),
    ]


def test_a_half_written_file_is_not_the_log(tmp_path):
    log = RollbackLog(tmp_path / "rollbacks.jsonl")
    log.append(ROLLBACK)
    (tmp_path / "rollbacks.partial").write_text('{"from_st')
    assert log.read() == [ROLLBACK]
    log.append(ROLLBACK)
    assert log.read() == [ROLLBACK] * 2
