"""What a step is trained on besides what was just played."""

from dataclasses import replace

import pytest
import torch
from earl_trainer.experience.config import ExperienceConfig
from earl_trainer.experience.mixing import (
    REPLAY_FILE,
    FreshOnly,
    make_experience,
    read_offline,
    replay_rules,
)
from earl_trainer.experience.replay import Replay, read_origin

ORIGIN = {"game": "earl/TicTacToe-v0", "vocabulary": "abc"}


def prepared(columns):
    """Log-probs that tell by which call they were computed."""
    ones = torch.ones(columns.num_tokens)
    return replace(columns, per_token={**columns.per_token, "old_logprobs": -ones})


@pytest.fixture
def fresh(make_rows):
    """Rows of a step, told apart by their episode."""

    def make(step, num_rows=6):
        rows = make_rows([4] * num_rows, seed=step)
        episodes = torch.arange(step * 100, step * 100 + num_rows, dtype=torch.int32)
        versions = torch.full((4 * num_rows,), step, dtype=torch.int32)
        return replace(
            rows,
            per_row={**rows.per_row, "episode": episodes},
            per_token={**rows.per_token, "versions": versions},
        )

    return make


@pytest.fixture
def experience():
    def make(*, resumed_from=None, seed=3, progress=0.0, prepare=prepared, **fields):
        return make_experience(
            ExperienceConfig(**fields),
            prepare,
            seed=seed,
            origin=ORIGIN,
            progress=lambda step: progress,
            resumed_from=resumed_from,
        )

    return make


def episodes_of(columns):
    return columns.per_row["episode"].tolist()


def assert_same(left, right):
    assert left.lengths.tolist() == right.lengths.tolist()
    for kind in ("per_token", "per_row"):
        one, other = getattr(left, kind), getattr(right, kind)
        assert one.keys() == other.keys()
        for name, column in one.items():
            assert torch.equal(column, other[name]), name


def test_without_shares_a_step_trains_on_what_was_played(experience, fresh, tmp_path):
    plain = experience()
    assert isinstance(plain, FreshOnly)
    columns = fresh(0)
    assert plain.mix(columns, 0) is columns
    plain.commit()
    plain.save(tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_rows_of_earlier_steps_join_by_their_share_with_their_own_past(experience, fresh):
    mixed = experience(replay_share=0.4)
    assert_same(mixed.mix(fresh(0), 0), fresh(0))
    mixed.commit()
    batch = mixed.mix(fresh(1), 1)
    # 6 rows are 60 % of 10.
    assert episodes_of(batch)[:6] == episodes_of(fresh(1))
    assert len(set(episodes_of(batch)[6:])) == 4
    assert set(episodes_of(batch)[6:]) <= set(episodes_of(fresh(0)))
    replayed = batch.select([6, 7, 8, 9])
    source = fresh(0).select(episodes_of(replayed))
    for name in ("token_ids", "rollout_logprobs", "versions", "advantages"):
        assert torch.equal(replayed.per_token[name], source.per_token[name])
    # Old log-probs are those of this step's weights, and the fresh rows' are left alone.
    assert (replayed.per_token["old_logprobs"] == -1).all()
    own = batch.select(range(6)).per_token["old_logprobs"]
    assert torch.equal(own, fresh(1).per_token["old_logprobs"])
    assert mixed.figures["replay/rows"] == 4
    assert mixed.figures["replay/held_rows"] == 6
    assert mixed.figures["replay/generated_tokens"] == 16


def test_a_step_that_is_dropped_leaves_no_trace(experience, fresh):
    kept, dropped = (experience(replay_share=0.5, replay="prioritised") for _ in range(2))
    for mixed in (kept, dropped):
        mixed.mix(fresh(0), 0)
        mixed.commit()
    dropped.mix(fresh(7), 1)  # Ctrl-C: never committed
    assert_same(kept.mix(fresh(1), 1), dropped.mix(fresh(1), 1))
    kept.commit()
    dropped.commit()
    assert_same(kept.mix(fresh(2), 2), dropped.mix(fresh(2), 2))


def test_a_run_that_goes_on_draws_as_one_that_was_never_interrupted(experience, fresh, tmp_path):
    fields = {"replay_share": 0.5, "replay": "prioritised", "replay_rows": 10}
    whole = experience(**fields)
    for step in range(3):
        whole.mix(fresh(step), step)
        whole.commit()
    whole.save(tmp_path)
    again = experience(**fields, resumed_from=tmp_path)
    for step in range(3, 6):
        assert_same(again.mix(fresh(step), step), whole.mix(fresh(step), step))
        again.commit()
        whole.commit()


def test_importance_weights_scale_the_advantages_of_drawn_rows(experience, fresh):
    def columns(step):
        rows = fresh(step, 4)
        sizes = torch.tensor([0.1, 1.0, 2.0, 3.0]).repeat_interleave(rows.lengths)
        return replace(rows, per_token={**rows.per_token, "advantages": sizes})

    mixed = experience(
        replay_share=0.5, replay="prioritised", priority_exponent=1.0, importance_exponent=1.0
    )
    for step in range(2):
        mixed.mix(columns(step), step)
        mixed.commit()
    # The rows of the first step have all been drawn, those of the second never: they have the
    # highest priority, and beta 1 makes up for that.
    batch = mixed.mix(columns(2), 2)
    lowest = 0.1 + 1e-3
    for place, episode in list(enumerate(episodes_of(batch)))[4:]:
        size = (0.1, 1.0, 2.0, 3.0)[episode % 100]
        weight = lowest / (3.0 + 1e-3 if episode >= 100 else size + 1e-3)
        advantages = batch.select([place]).per_token["advantages"]
        assert advantages.tolist() == pytest.approx([size * weight] * len(advantages))


def test_rows_of_an_algorithm_that_needs_more_have_it_left_out(experience, fresh, tmp_path):
    rows = fresh(5, 8)
    extra = {"returns": torch.ones(rows.num_tokens), "values": torch.ones(rows.num_tokens)}
    other = Replay(replay_rules(ExperienceConfig()))
    other.add(
        replace(
            rows,
            per_token={**rows.per_token, **extra},
            per_row={**rows.per_row, "last_values": torch.ones(8)},
        )
    )
    other.save(tmp_path / REPLAY_FILE, origin=ORIGIN)
    mixed = experience(offline_share=0.5, offline_path=str(tmp_path / REPLAY_FILE))
    batch = mixed.mix(fresh(0), 0)
    assert batch.num_rows == 12
    assert batch.schema() == fresh(0).schema()


def test_beta_stands_beside_the_rows(experience, fresh, tmp_path):
    fields = {"replay_share": 0.5, "replay": "prioritised", "importance_exponent": 0.4}
    for progress, beta in ((0.0, 0.4), (0.5, 0.7), (1.0, 1.0)):
        mixed = experience(**fields, progress=progress)
        mixed.mix(fresh(0), 0)
        assert mixed.figures["replay/importance_exponent"] == pytest.approx(beta)
    mixed.save(tmp_path)
    assert read_origin(tmp_path / REPLAY_FILE) == ORIGIN


def test_rows_grow_too_old_by_the_version_of_the_next_step(experience, fresh):
    mixed = experience(replay_share=0.5, replay_max_staleness=1)
    for step in range(3):
        mixed.mix(fresh(step), step)
        mixed.commit()
    assert {episode // 100 for episode in episodes_of(mixed.mix(fresh(3), 3))} == {2, 3}


def test_offline_rows_join_by_their_share_and_count_as_of_the_first_weights(
    experience, fresh, tmp_path
):
    other = Replay(replay_rules(ExperienceConfig()))
    other.add(fresh(5, 8))
    other.save(tmp_path / REPLAY_FILE, origin=ORIGIN)
    mixed = experience(
        replay_share=0.25, offline_share=0.25, offline_path=str(tmp_path / REPLAY_FILE)
    )
    for step in range(2):
        batch = mixed.mix(fresh(step), step)
        mixed.commit()
    sources = [episode // 100 for episode in episodes_of(batch)]
    assert sources == [1] * 6 + [0] * 3 + [5] * 3
    assert batch.select([9]).per_token["versions"].tolist() == [0] * 4
    assert mixed.figures["replay/offline_rows"] == 3
    assert read_offline(tmp_path / REPLAY_FILE).num_rows == 8
    # Offline rows are not remembered as if they had been played.
    assert mixed.figures["replay/held_rows"] == 6
