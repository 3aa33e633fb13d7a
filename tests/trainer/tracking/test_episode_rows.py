"""A line of an episode is enough to replay its games."""

import json
from dataclasses import replace

import pytest
from earl_envs import EndReason, RandomOpponent, make_game
from earl_envs.replays.episode import EpisodeRecord
from earl_trainer.models.tiny import build_tokenizer
from earl_trainer.rewards.outcome import Judgement, RewardFailure, RewardOutcome
from earl_trainer.rollout.chat import ChatFormat
from earl_trainer.rollout.collector import Collector
from earl_trainer.rollout.policies import ScriptedPolicy
from earl_trainer.rollout.starts import grouped_starts, self_play_starts
from earl_trainer.tracking.episode_rows import episode_records, episode_row


class Remembering(RandomOpponent):
    """Random, and remembers the positions that it is asked about."""

    def __init__(self):
        self.states = []

    def move(self, game, state, seat, rng):
        self.states.append(state)
        return super().move(game, state, seat, rng)


@pytest.fixture
def play(tic_tac_toe):
    def make(game_id, plan, *, max_reply_tokens=16, policy=None):
        game = make_game(game_id)
        chat = ChatFormat(build_tokenizer(game, seed=0))
        player = Remembering()
        collector = Collector(
            game,
            game_id=game_id,
            opponent=player,
            match_opponent=player,
            chat=chat,
            max_context_tokens=4096,
            max_reply_tokens=max_reply_tokens,
        )
        policy = policy or ScriptedPolicy(player, game=game, chat=chat)
        return collector.collect(policy, plan).episodes, player

    return make


def records_of(game_id, episode):
    return episode_records(json.loads(json.dumps(episode_row(game_id, episode.summary, 0.5))))


def test_a_game_of_another_size_replays_in_that_size(make_episode):
    played = make_episode(outcome=1.0)
    start = replace(played.start, level="random@rows=2&columns=2&connect=2")
    game = replace(played.games[0], moves=(0, 1, 0))
    row = episode_row(
        "earl/ConnectFour-v0", replace(played, start=start, games=[game]).summary, 0.5
    )
    assert row["level"] == start.level
    (record,) = episode_records(json.loads(json.dumps(row)))
    assert record.game.params == {"rows": 2, "columns": 2, "connect": 2}
    assert record.positions()[-1].returns == (1.0, -1.0)


def test_an_episode_that_a_filter_dropped_says_so(make_summary):
    summary = make_summary()
    assert "dropped_by" not in episode_row("g/G-v0", summary, 1.0)
    dropped = replace(summary, dropped_by="duplicates")
    assert episode_row("g/G-v0", dropped, 1.0)["dropped_by"] == "duplicates"


def test_what_functions_found_is_written_down_with_what_failed(make_summary):
    outcomes = {
        "style": RewardOutcome(value=0.5),
        "tone": RewardOutcome(failure=RewardFailure.TIMEOUT, detail="it took more than 3 s"),
    }
    plain = make_summary(detail="first")
    judged = replace(plain, judgement=Judgement(outcomes=outcomes, bonus=None))
    row = json.loads(json.dumps(episode_row("earl/TicTacToe-v0", judged, None)))
    assert row["reward"] is None
    assert row["rewards"] == {"style": 0.5, "tone": None}
    assert row["detail"] == "first; reward tone: timeout: it took more than 3 s"
    assert "rewards" not in episode_row("earl/TicTacToe-v0", plain, 1.0)


def test_what_functions_say_of_replies_is_written_down_where_one_does(make_summary):
    tone = RewardOutcome(value=3.0, parts=(1.0, 2.0))
    outcomes = {"style": RewardOutcome(value=0.5), "tone": tone}
    judged = replace(make_summary(), judgement=Judgement(outcomes=outcomes, bonus=3.5))
    row = json.loads(json.dumps(episode_row("earl/TicTacToe-v0", judged, 4.5)))
    assert row["rewards"] == {"style": 0.5, "tone": 3.0}
    assert row["reply_rewards"] == {"tone": [1.0, 2.0]}
    plain = Judgement(outcomes={"style": RewardOutcome(value=0.5)}, bonus=0.5)
    row = episode_row("earl/TicTacToe-v0", replace(judged, judgement=plain), 1.5)
    assert "reply_rewards" not in row


@pytest.mark.parametrize("game_id", ["earl/TicTacToe-v0", "earl/KuhnPoker-v0"])
def test_a_line_replays_to_the_positions_that_were_played(play, game_id):
    plan = grouped_starts(0, step=0, num_episodes=6, group_size=1, num_seats=2, num_games=3)
    episodes, player = play(game_id, plan)
    seen = set()
    for episode in episodes:
        records = records_of(game_id, episode)
        assert [record.game.seed for record in records] == [g.game_seed for g in episode.games]
        for record, played in zip(records, episode.games, strict=True):
            assert EpisodeRecord.from_json(record.to_json()) == record
            *before, last = record.positions()
            seen |= {position.state for position in before}
            assert last.returns == tuple(record.returns)
            assert record.returns[episode.start.seat] == played.outcome
            assert record.players[episode.start.seat] == "learner"
            own = [move for move, at in zip(played.moves, before, strict=True)
                   if at.seat == episode.start.seat]  # fmt: skip
            assert len(record.replies) == len(own)

    assert seen == set(player.states)


def test_a_forfeit_scores_every_seat_and_keeps_the_moves_before_it(play, tic_tac_toe, tiny_chat):
    plan = self_play_starts(0, step=0, num_episodes=2, group_size=1, num_seats=2)

    class Stumbling:
        """Plays its first turn and has no words for the second of seat 1."""

        def reply(self, queries):
            script = ScriptedPolicy(RandomOpponent(), game=tic_tac_toe, chat=tiny_chat)
            replies = script.reply(queries)
            return [
                type(reply)(
                    ids=tiny_chat.encode_reply("X"),
                    logprobs=reply.logprobs,
                    versions=reply.versions,
                    finish_reason=reply.finish_reason,
                )
                if query.turn and query.start.seat
                else reply
                for query, reply in zip(queries, replies, strict=True)
            ]

    episodes, _ = play("earl/TicTacToe-v0", plan, policy=Stumbling())
    records = [records_of("earl/TicTacToe-v0", episode)[0] for episode in episodes]

    for record in records:
        assert tuple(record.returns) == (1.0, -1.0)
        assert len(record.game.moves) == 3
        assert record.positions()[-1].returns is None
    assert [record.end_reason for record in records] == [
        EndReason.FINISHED,
        EndReason.UNPARSABLE,
    ]
    assert [len(record.replies) for record in records] == [2, 2]
