"""States compare by history and seed, whatever was worked out about them."""

import copy
import pickle

from earl_envs.adapters.spiel_state import SpielNode, SpielState


def test_a_state_is_its_history_and_seed():
    plain = SpielState(history=(1, 2), seed=3)
    known = SpielState(history=(1, 2), seed=3, memo=[SpielNode(object())])
    assert plain == known
    assert hash(plain) == hash(known)
    assert plain != SpielState(history=(1, 2), seed=4)
    assert plain != SpielState(history=(2, 1), seed=3)


def test_copies_leave_what_was_worked_out_behind():
    known = SpielState(history=(1, 2), seed=3, memo=[SpielNode(lambda: None)])
    for copied in (pickle.loads(pickle.dumps(known)), copy.deepcopy(known), copy.copy(known)):
        assert copied == known
        assert copied.memo == []
    assert len(known.memo) == 1


def test_a_state_shows_no_memo():
    assert "object" not in repr(SpielState(history=(), seed=0, memo=[SpielNode(object())]))
