import copy
from dataclasses import replace

import pytest
from earl_envs import EndReason, RandomOpponent
from earl_trainer.experience.samples import (
    build_columns,
    reply_rewards_of,
    rewards_of,
    split_into_samples,
)
from earl_trainer.rewards.config import RewardConfig
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


def test_a_forfeit_costs_the_penalty_on_top_of_the_lost_game(make_summary):
    episodes = [
        make_summary(outcome=-1.0),
        make_summary(outcome=-1.0, end_reason=EndReason.ILLEGAL_MOVE),
        make_summary(outcome=-1.0, end_reason=EndReason.UNPARSABLE),
        make_summary(outcome=0.0),
    ]
    assert rewards_of(episodes, RewardConfig(illegal_penalty=0.25)) == [-1.0, -1.25, -1.25, 0.0]


def test_no_episodes_are_no_rows_of_the_same_columns(make_episode):
    some = build_columns([make_episode()], RewardConfig())
    none = build_columns([], RewardConfig())
    assert none.num_rows == none.num_tokens == 0
    assert none.schema() == some.schema()


def test_the_penalty_is_taken_per_game(make_summary):
    won, lost = (1.0, EndReason.FINISHED), (-1.0, EndReason.ILLEGAL_MOVE)
    episodes = [
        make_summary(games=[won, lost, won, lost]),
        make_summary(games=[won, (0.0, EndReason.CONTEXT_LIMIT)], num_games=4),
    ]

    # Of the second the first game was won, the next cut, and two never began: they count as lost.
    assert rewards_of(episodes, RewardConfig(illegal_penalty=0.5)) == [-0.25, -0.25]


def judged(episode, bonus):
    return replace(episode, judgement=Judgement(outcomes={}, bonus=bonus))


def test_what_functions_say_is_added_to_the_weighted_game(make_summary):
    won = make_summary(outcome=1.0)
    forfeit = make_summary(outcome=-1.0, end_reason=EndReason.ILLEGAL_MOVE)
    cut = make_summary(outcome=0.0, end_reason=EndReason.CONTEXT_LIMIT)
    episodes = [judged(won, 0.25), judged(forfeit, 2.0), judged(cut, 5.0), judged(won, None), won]
    config = RewardConfig(game_weight=0.5)
    assert rewards_of(episodes, config) == [0.75, 1.25, 5.0, None, 0.5]
    zeroed = RewardConfig(game_weight=0.5, truncation="zero")
    assert rewards_of(episodes, zeroed) == [0.75, 1.25, 0.0, None, 0.5]


def test_what_belongs_to_replies_counts_unless_a_cut_episode_is_worth_nothing(make_summary):
    won, cut = make_summary(), make_summary(end_reason=EndReason.CONTEXT_LIMIT)
    told = Judgement(outcomes={}, bonus=3.0, parts=(1.0, 2.0))
    episodes = [replace(won, judgement=told), replace(cut, judgement=told), judged(won, None), won]
    assert reply_rewards_of(episodes, RewardConfig()) == [(1.0, 2.0), (1.0, 2.0), (), ()]
    zeroed = RewardConfig(truncation="zero")
    assert reply_rewards_of(episodes, zeroed) == [(1.0, 2.0), (), (), ()]


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
