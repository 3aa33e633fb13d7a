import copy
from dataclasses import replace

import pytest
import torch
from earl_envs import EndReason, RandomOpponent
from earl_trainer.experience.samples import (
    build_columns,
    count_prefix_breaks,
    split_into_samples,
)
from earl_trainer.rewards.config import RewardConfig
from earl_trainer.rewards.episodes import rewards_of
from earl_trainer.rewards.outcome import Judgement
from earl_trainer.rollout.chat import ChatFormat
from earl_trainer.rollout.collector import Collector
from earl_trainer.rollout.policies import ScriptedPolicy
from earl_trainer.rollout.starts import paired_starts

GAME_ID = "earl/TicTacToe-v0"


@pytest.fixture(scope="module")
def rewriting_tokenizer(tiny_tokenizer):
    """Its template writes a word in front of every reply that is not the last."""
    tokenizer = copy.deepcopy(tiny_tokenizer)
    tokenizer.chat_template = tokenizer.chat_template.replace(
        "<|assistant|>{{ message['content'] }}", "<|assistant|>once {{ message['content'] }}"
    )
    assert tokenizer.chat_template != tiny_tokenizer.chat_template
    return tokenizer


def play(game, tokenizer):
    chat = ChatFormat(tokenizer)
    collector = Collector(
        game,
        game_id=GAME_ID,
        opponent=RandomOpponent(),
        match_opponent=RandomOpponent(),
        chat=chat,
        max_context_tokens=256,
        max_reply_tokens=4,
    )
    policy = ScriptedPolicy(RandomOpponent(), game=game, chat=chat)
    return collector.collect(policy, paired_starts(0, num_games=6, num_seats=2)).episodes


def trained_tokens(samples):
    return [
        token
        for sample in samples
        for token, emitted in zip(sample.token_ids, sample.emitted, strict=True)
        if emitted
    ]


def test_a_played_game_is_one_row_that_trains_exactly_the_emitted_tokens(
    tic_tac_toe, tiny_tokenizer
):
    episodes = play(tic_tac_toe, tiny_tokenizer)
    for episode in episodes:
        samples = split_into_samples(0, episode)
        emitted = [token for turn in episode.turns for token in turn.reply_ids]
        assert len(samples) == 1
        assert trained_tokens(samples) == emitted
        assert emitted.count(tiny_tokenizer.eos_token_id) == len(episode.turns)
        last = episode.turns[-1]
        assert list(samples[0].token_ids) == [*last.prompt_ids, *last.reply_ids]
    columns = build_columns(episodes, RewardConfig())
    num_emitted = sum(len(turn.reply_ids) for episode in episodes for turn in episode.turns)
    assert int(columns.per_token["mask"].sum()) == num_emitted


def test_a_template_that_rewrites_history_gives_a_row_per_turn_and_trains_no_token_twice(
    tic_tac_toe, rewriting_tokenizer
):
    for episode in play(tic_tac_toe, rewriting_tokenizer):
        samples = split_into_samples(0, episode)
        assert len(samples) == len(episode.turns) >= 3
        for sample, turn in zip(samples, episode.turns, strict=True):
            assert list(sample.token_ids) == [*turn.prompt_ids, *turn.reply_ids]
            assert trained_tokens([sample]) == list(turn.reply_ids)


def test_a_turn_that_extends_all_tokens_before_it_joins_the_row(make_turn, make_episode):
    episode = make_episode(
        turns=[
            make_turn([1, 2], [3, 4]),
            make_turn([1, 2, 3, 4, 5], [6]),
            # One token of the history differs.
            make_turn([1, 2, 3, 9, 5, 6, 7], [8]),
            make_turn([1, 2, 3, 9, 5, 6, 7, 8, 1], [2, 2]),
        ]
    )
    first, second = split_into_samples(5, episode)
    assert first.episode == second.episode == 5
    assert list(first.token_ids) == [1, 2, 3, 4, 5, 6]
    assert list(first.emitted) == [False, False, True, True, False, True]
    assert list(first.logprobs) == pytest.approx([0.0, 0.0, -0.3, -0.4, 0.0, -0.6])
    assert list(first.versions) == [-1, -1, 3, 3, -1, 3]
    assert list(second.token_ids) == [1, 2, 3, 9, 5, 6, 7, 8, 1, 2, 2]
    assert trained_tokens([second]) == [8, 2, 2]


def test_a_prompt_shorter_than_what_came_before_starts_a_row(make_turn, make_episode):
    turns = [make_turn([1, 2], [3, 4]), make_turn([1, 2, 3], [5])]
    rows = [list(s.token_ids) for s in split_into_samples(0, make_episode(turns=turns))]
    assert rows == [[1, 2, 3, 4], [1, 2, 3, 5]]


def test_every_turn_whose_context_was_rewritten_counts_as_a_break(make_turn, make_episode):
    turns = [
        make_turn([1, 2], [3]),
        make_turn([1, 2, 3, 4], [5]),
        make_turn([1, 2, 9], [6]),
        make_turn([1, 2, 9, 6], [7]),
        make_turn([8], [7]),
    ]
    assert count_prefix_breaks(make_episode(turns=turns)) == 2
    assert count_prefix_breaks(make_episode(turns=turns[:2])) == 0
    assert count_prefix_breaks(make_episode(turns=[])) == 0


def test_the_token_that_ends_a_reply_is_trained_also_where_it_pads_and_nothing_behind_it(
    tic_tac_toe, tiny_tokenizer
):
    tokenizer = copy.deepcopy(tiny_tokenizer)
    tokenizer.pad_token = tokenizer.eos_token
    end = tokenizer.eos_token_id
    assert tokenizer.pad_token_id == end
    episodes = play(tic_tac_toe, tokenizer)
    columns = build_columns(episodes, RewardConfig())
    ids, mask = columns.per_token["token_ids"], columns.per_token["mask"]
    assert int((ids[mask] == end).sum()) == sum(len(episode.turns) for episode in episodes)
    ends = columns.lengths.cumsum(0) - 1
    assert ids[ends].tolist() == [end] * columns.num_rows
    assert mask[ends].all()
    # What follows a trained end within a row is the prompt of the next turn.
    trained_ends = (mask & (ids == end)).nonzero()[:, 0]
    behind = trained_ends[~torch.isin(trained_ends, ends)] + 1
    assert len(behind)
    assert not mask[behind].any()


def test_columns_lay_the_rows_of_all_episodes_end_to_end(make_turn, make_episode):
    split = make_episode(turns=[make_turn([1, 2], [3]), make_turn([4], [5, 6])])
    failed = make_episode(end_reason=EndReason.ENV_ERROR, outcome=0.0)
    whole = make_episode(turns=[make_turn([7], [8])])
    episodes = [
        replace(episode, start=replace(episode.start, episode=number))
        for number, episode in enumerate((split, failed, whole), start=7)
    ]
    columns = build_columns(episodes, RewardConfig())
    assert columns.lengths.tolist() == [3, 3, 2]
    assert columns.per_token["token_ids"].tolist() == [1, 2, 3, 4, 5, 6, 7, 8]
    assert columns.per_token["mask"].int().tolist() == [0, 0, 1, 0, 1, 1, 0, 1]
    assert columns.per_token["versions"].tolist() == [-1, -1, 3, -1, 3, 3, -1, 3]
    assert columns.per_token["rollout_logprobs"].tolist() == pytest.approx([
        0.0,
        0.0,
        -0.3,
        0.0,
        -0.5,
        -0.6,
        0.0,
        -0.8,
    ])
    assert columns.per_row["episode"].tolist() == [7, 7, 9]


@pytest.fixture(scope="module")
def truncated_episodes(make_turn, make_episode):
    """A won game, one cut by the context limit, and a reply that was cut and so lost."""
    return [
        make_episode(outcome=1.0),
        make_episode(outcome=0.0, end_reason=EndReason.CONTEXT_LIMIT),
        make_episode(
            outcome=-1.0,
            end_reason=EndReason.UNPARSABLE,
            turns=[make_turn([1, 2], [3, 4], cut=True)],
        ),
    ]


@pytest.mark.parametrize(
    ("truncation", "rewards", "trained"),
    [
        ("keep", [1.0, 0.0, -1.5], [True, True, True]),
        ("zero", [1.0, 0.0, 0.0], [True, True, True]),
        ("mask", [1.0, 0.0, -1.5], [True, False, False]),
    ],
)
def test_truncated_episodes_are_kept_zeroed_or_masked(
    truncated_episodes, truncation, rewards, trained
):
    config = RewardConfig(truncation=truncation, illegal_penalty=0.5)
    assert rewards_of([episode.summary for episode in truncated_episodes], config) == rewards
    columns = build_columns(truncated_episodes, config)
    # Masked rows stay, with no token trained: their group's statistics have counted them.
    assert columns.lengths.tolist() == [4, 4, 4]
    expected = [flag for keep in trained for flag in (False, False, keep, keep)]
    assert columns.per_token["mask"].tolist() == expected


def test_no_episodes_are_no_rows_of_the_same_columns(make_episode):
    some = build_columns([make_episode()], RewardConfig())
    none = build_columns([], RewardConfig())
    assert none.num_rows == none.num_tokens == 0
    assert none.schema() == some.schema()


def judged(episode, bonus):
    return replace(episode, judgement=Judgement(outcomes={}, bonus=bonus))


def test_an_episode_without_a_reward_gives_no_row(make_episode):
    episodes = [judged(numbered(make_episode(), 7 + n), b) for n, b in enumerate((1.0, None, 0.0))]
    columns = build_columns(episodes, RewardConfig())
    assert columns.per_row["episode"].tolist() == [7, 9]


def numbered(episode, number, **fields):
    return replace(episode, start=replace(episode.start, episode=number, **fields))


def test_a_greedy_episode_gives_no_row(make_episode):
    episodes = [numbered(make_episode(), n, greedy=n == 1) for n in range(3)]
    assert build_columns(episodes, RewardConfig()).per_row["episode"].tolist() == [0, 2]


def test_an_episode_that_a_filter_dropped_gives_no_row(make_episode):
    played = numbered(make_episode(), 3), numbered(make_episode(), 4)
    dropped = replace(played[0], dropped_by="duplicates")
    columns = build_columns([dropped, played[1]], RewardConfig())
    assert columns.per_row["episode"].tolist() == [4]
