import json
from dataclasses import replace

import pytest
from earl_trainer.config import RunConfig
from earl_trainer.overrides import parse_flags, resolve
from earl_trainer.phases import RL, TEACHER, WARMUP, plan_phases
from earl_trainer.preference.setup import check_data, make_collection
from earl_trainer.rollout.collection import RolloutRequest
from earl_trainer.rollout.collector import Rollout
from earl_trainer.rollout.engine import Completion, FinishReason
from earl_trainer.workers.team import Team


class Games:
    """Hands out what it was given."""

    def __init__(self, episodes):
        self.takes_starts = True
        self.figures = {}
        self.episodes = episodes

    def collect(self, request):
        return Rollout(episodes=self.episodes, peak_resident_tokens=0)

    def publish(self, model, version):
        """Nobody is to hear of it."""

    def to_dict(self):
        return {}

    def close(self):
        """Nothing is open."""


class Always:
    """Gives one reply."""

    def __init__(self, ids):
        self.ids = ids

    def reply(self, queries):
        completion = Completion(
            ids=self.ids,
            logprobs=(0.0,) * len(self.ids),
            versions=(0,) * len(self.ids),
            finish_reason=FinishReason.STOP,
        )
        return [completion for _ in queries]


@pytest.fixture
def collect(tiny_chat, mute_policy):
    """Rows of the first step of a method, from games or from data."""

    def make(flags, episodes=(), policy=mute_policy):
        flags = f"--warmup.num-steps 0 --rollout.num-episodes 4 --rollout.group-size 2 {flags}"
        config = resolve(RunConfig(), parse_flags(flags.split()))
        players = dict.fromkeys((WARMUP, RL, TEACHER), mute_policy)
        phase = plan_phases(config, players)[1]
        source = make_collection(
            config,
            phase,
            phase.method,
            lambda: Games(episodes),
            chat=tiny_chat,
            opponent=lambda step: policy,
            team=Team(),
        )
        return source.collect(RolloutRequest(step=0))

    return make


@pytest.fixture
def episodes(make_episode, make_turn):
    return [
        make_episode(outcome=1.0, turns=[make_turn([1], [2])]),
        make_episode(outcome=-1.0, turns=[make_turn([1], [3])]),
    ]


def test_pairs_are_made_of_games(collect, episodes):
    rows = collect("--preference dpo", episodes).samples
    assert rows.per_token["token_ids"].tolist() == [1, 2, 1, 3]
    assert rows.per_row["chosen_tokens"].tolist() == [2]


def test_games_are_judged_by_their_reward(collect, episodes):
    rows = collect("--preference kto", episodes).samples
    assert rows.per_row["desirable"].tolist() == [True, False]


def test_judged_games_bring_the_answers_to_other_prompts(collect, make_episode, make_turn):
    games = [
        make_episode(outcome=outcome, turns=[make_turn([prompt], [reply])])
        for outcome, prompt, reply in ((1.0, 1, 2), (-1.0, 1, 3), (-1.0, 4, 5))
    ]
    rows = collect("--preference kto", games).samples
    assert rows.per_row["mismatched"].tolist() == [False] * 3 + [True] * 3
    sequences = rows.per_token["token_ids"].split(rows.lengths.tolist())
    assert [sequence.tolist() for sequence in sequences[3:]] == [[1, 5], [1, 5], [4, 2]]


def test_games_above_the_threshold_are_imitated(collect, episodes):
    rows = collect("--preference rft", episodes).samples
    assert rows.per_token["token_ids"].tolist() == [1, 2]


def test_truncated_games_are_left_out_where_they_are_masked(collect, episodes):
    won, lost = episodes
    cut = replace(won, turns=[replace(won.turns[0], cut=True)])
    flags = "--preference rft --reward.truncation mask"
    rows = collect(flags, [cut, replace(won, turns=[replace(lost.turns[0])])]).samples
    assert rows.per_token["token_ids"].tolist() == [1, 3]


def test_shown_games_meet_the_policys_own_replies(collect, episodes):
    rows = collect("--preference spin", episodes, Always((3,))).samples
    assert rows.per_token["token_ids"].tolist() == [1, 2, 1, 3]


def test_shown_games_are_imitated_as_in_warm_up(collect, episodes):
    rollout = collect("--preference sft", episodes)
    assert rollout.samples is None
    assert rollout.episodes == episodes


ROWS = {
    "sft": {"prompt": "[1]", "completion": "[1]"},
    "spin": {"prompt": "[1]", "completion": "[1]"},
    "dpo": {"prompt": "[1]", "chosen": "[1]", "rejected": "[2]"},
    "kto": {"prompt": "[1]", "completion": "[1]", "label": True},
}


@pytest.mark.parametrize("name", ROWS)
def test_data_bring_the_rows_that_the_method_wants(collect, tmp_path, tiny_chat, name):
    path = tmp_path / "data.jsonl"
    rows = [ROWS[name], {**ROWS[name], "prompt": "[2]", "label": False}]
    path.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    flags = f"--preference {name} --preference.data {path}"
    rollout = collect(flags, policy=Always(tiny_chat.encode_reply("[2]")))
    wanted = {"sft": "group_tokens", "spin": "chosen_tokens", "dpo": "chosen_tokens"}
    assert wanted.get(name, "mismatched") in rollout.samples.per_row
    assert rollout.samples.num_rows == (8 if name == "kto" else 4)
    assert not rollout.episodes


def test_data_that_do_not_fit_are_refused_at_the_start(tmp_path, tiny_chat):
    path = tmp_path / "data.jsonl"
    path.write_text(json.dumps(ROWS["sft"]))
    for name in ("dpo", "kto", "sft"):
        config = resolve(RunConfig(), {"preference": {"name": name, "data": str(path)}})
        if name == "sft":
            check_data(config, tiny_chat)
            continue
        with pytest.raises(ValueError, match="line 1, field"):
            check_data(config, tiny_chat)
