"""What a function reads off a transcript."""

from dataclasses import replace

from earl_trainer.rewards.transcript import GameTranscript


def test_moves_are_those_of_all_games_and_the_end_that_of_the_last(transcript):
    first = transcript("a").games[0]
    second = GameTranscript(
        seed=4, moves=(8,), first_reply=1, end_reason="illegal_move", outcome=-1.0
    )
    episode = replace(transcript("a", "b"), games=(first, second))
    assert episode.moves == (4, 0, 8)
    assert episode.end_reason == "illegal_move"


def test_replies_are_counted_by_game(transcript):
    only = transcript("a", "b").games[0]
    assert transcript("a", "b").replies_of_games == (2,)
    # The second game ended without a reply of the seat.
    firsts = (only, replace(only, first_reply=2), replace(only, first_reply=2))
    assert replace(transcript("a", "b", "c"), games=firsts).replies_of_games == (2, 0, 1)
