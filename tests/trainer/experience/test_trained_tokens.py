import torch
from earl_dispatch import Columns
from earl_trainer.experience.trained_tokens import TrainedTokens


def rows_of(*rows):
    """Rows as (episode, mask)."""
    masks = [flag == "x" for _, mask in rows for flag in mask]
    return Columns(
        lengths=torch.tensor([len(mask) for _, mask in rows], dtype=torch.int64),
        per_token={"mask": torch.tensor(masks, dtype=torch.bool)},
        per_row={"episode": torch.tensor([episode for episode, _ in rows], dtype=torch.int32)},
    )


COLUMNS = rows_of((7, ".xx.x."), (7, ".x"), (3, "..."), (5, ".xx"))


def test_trained_tokens_of_an_episode_follow_one_another_over_its_rows():
    trained = TrainedTokens.of(COLUMNS)
    assert trained.episodes.tolist() == [7, 3, 5]
    assert trained.of_rows.tolist() == [0, 0, 1, 2]
    steps = trained.to_steps(torch.arange(float(COLUMNS.num_tokens)))
    assert steps.tolist() == [[1, 2, 4, 7], [0, 0, 0, 0], [12, 13, 0, 0]]


def test_replies_are_numbered_within_their_episode():
    assert TrainedTokens.of(COLUMNS).turns.tolist() == [[0, 0, 1, 2], [0] * 4, [0] * 4]


def test_steps_go_back_to_where_they_came_from_and_nothing_stands_elsewhere():
    trained = TrainedTokens.of(COLUMNS)
    column = torch.arange(1.0, COLUMNS.num_tokens + 1.0)
    expected = torch.where(COLUMNS.per_token["mask"], column, 0.0)
    assert torch.equal(trained.to_tokens(trained.to_steps(column)), expected)


def test_of_several_rows_the_last_one_speaks_for_its_episode():
    last = TrainedTokens.of(COLUMNS).last_of_rows(torch.tensor([1.0, 2.0, 3.0, 4.0]))
    assert last.tolist() == [2.0, 3.0, 4.0]


def test_no_rows_are_no_episodes():
    trained = TrainedTokens.of(rows_of())
    assert trained.mask.shape == (0, 1)
    assert not len(trained.to_tokens(trained.to_steps(torch.zeros(0))))
