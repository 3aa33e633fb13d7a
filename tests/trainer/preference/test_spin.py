from earl_envs import Failure
from earl_trainer.preference.spin import pairs_against
from earl_trainer.rollout.engine import Completion, FinishReason


class Echo:
    """Replies what it was told to, and keeps what it was asked."""

    def __init__(self, *replies):
        self.replies = replies
        self.queries = []

    def reply(self, queries):
        self.queries = list(queries)
        return [
            reply
            if isinstance(reply, Failure)
            else Completion(
                ids=reply,
                logprobs=(0.0,) * len(reply),
                versions=(0,) * len(reply),
                finish_reason=FinishReason.STOP,
            )
            for reply in self.replies
        ]


def test_every_shown_reply_meets_the_policys_own_in_the_same_context(make_turn):
    shown = [[make_turn([1], [2]), make_turn([1, 2, 3], [4])], [make_turn([5], [6])]]
    policy = Echo((7,), (4,), (8, 9))
    pairs = pairs_against(policy, shown, max_reply_tokens=3, max_context_tokens=5, seed=0)
    assert [(chosen.token_ids, rejected.token_ids) for chosen, rejected in pairs] == [
        ((1, 2), (1, 7)),
        ((5, 6), (5, 8, 9)),
    ]
    assert pairs[1][1].trained == (False, True, True)
    assert [query.max_new_tokens for query in policy.queries] == [3, 2, 3]
    assert len({query.start.reply_seed for query in policy.queries}) == 3


def test_a_reply_that_failed_makes_no_pair(make_turn):
    policy = Echo(Failure(error="broken"))
    shown = [[make_turn([1], [2])]]
    assert not pairs_against(policy, shown, max_reply_tokens=3, max_context_tokens=5, seed=0)
