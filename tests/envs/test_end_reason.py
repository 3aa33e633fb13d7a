from earl_envs import CUTS, FAILURES, FORFEITS, EndReason


def test_every_reason_but_a_finished_game_is_of_exactly_one_kind():
    kinds = [*FORFEITS, *CUTS, *FAILURES]
    assert sorted([*kinds, EndReason.FINISHED]) == sorted(EndReason)
