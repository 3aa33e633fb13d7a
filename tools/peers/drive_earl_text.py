"""This package by text: find the answers in 1,024 replies, step, and write the next messages.

Replies are of the usual forms: a thought and a tag, the same with moves named in the thought, a
block of reasoning and a tag, and a block of reasoning and an answer in tags of its own. Where moves
are named, no two thoughts of a batch are the same.
"""

import time
from collections.abc import Iterator, Sequence
from itertools import product, repeat

from drive_earl import GAME_IDS
from driver import Options, answer, parse_options, summary
from earl_envs.batch import make_batch
from earl_envs.text.batch_text import BatchText

BATCH_SIZE = 1024
REPLY_CHARS = (200, 2_000, 16_000)
FORMS = {
    "plain": ("", ""),
    "plain, naming moves": ("", ""),
    "think": ("<think>", "</think>\n"),
    "think and answer": ("<think>", "</think>\n<answer>"),
}
"""What stands before the thought and after it."""
_SENTENCE = "I look at every line first. "
_SHIFT_CHARS = 7  # from one reply's thought to the next one's
_REASONS = ("it blocks a line", "it keeps the centre", "the corner is open", "he cannot answer it")


class Conversation:
    """A batch of games and what its players say next."""

    def __init__(self, game: str) -> None:
        self.batch = make_batch(
            GAME_IDS[game], batch_size=BATCH_SIZE, seed=0, autoreset=True, backend="numba"
        )
        self.words = BatchText(self.batch)
        self._names = {
            action: self.batch.game.move_name(self.batch.state(0), action)
            for action in range(self.batch.game.num_actions)
        }

    def replies(self, form: str, num_chars: int) -> list[str]:
        """Write a reply of this form and length for every game, its move at the end."""
        before, after = FORMS[form]
        end = "</answer>" if "<answer>" in after else ""
        names = [self._names[action] for action in self.batch.random_actions().tolist()]
        room = num_chars - len(before + after + end)
        thoughts = self._thoughts(form, num_chars)
        return [
            f"{before}{thought[: room - len(name)]}{after}{name}{end}"
            for thought, name in zip(thoughts, names, strict=True)
        ]

    def _thoughts(self, form: str, num_chars: int) -> Iterator[str]:
        if "naming moves" not in form:
            thought = _SENTENCE * (num_chars // len(_SENTENCE) + 1)
            return repeat(thought, BATCH_SIZE)
        choices = product(self._names.values(), self._names.values(), _REASONS)
        sentences = [f"I could play {a} or {b} because {why}. " for a, b, why in choices]
        text = "".join(sentences)
        starts = range(0, _SHIFT_CHARS * BATCH_SIZE, _SHIFT_CHARS)
        text *= 1 + (starts.stop + num_chars) // len(text)
        return (text[start : start + num_chars] for start in starts)


def turn_rates(game: str, form: str, num_chars: int, options: Options) -> list[float]:
    """Return turns per second; the writing of the replies is not timed."""
    conversation = Conversation(game)
    measured: list[float] = []
    for _ in range(options.num_repeats + 1):
        elapsed_s, num_turns = 0.0, 0
        while elapsed_s < options.min_s:
            replies = conversation.replies(form, num_chars)
            start = time.perf_counter()
            result = conversation.words.turn(replies)
            elapsed_s += time.perf_counter() - start
            num_turns += BATCH_SIZE
            if result.failures:
                raise SystemExit(f"replies were refused: {result.failures}")
        measured.append(num_turns / elapsed_s)
    return measured[1:]  # the first warms up


def rows(games: Sequence[str], options: Options) -> Iterator[dict[str, object]]:
    """Measure every form and length of reply in every game."""
    for game, form, num_chars in product(games, FORMS, REPLY_CHARS):
        yield {
            "game": game,
            "batch": BATCH_SIZE,
            "variant": f"text, {form}, replies of {num_chars} characters",
            "observed": True,
            **summary(turn_rates(game, form, num_chars, options)),
        }


def main() -> None:
    """Measure and print."""
    options = parse_options()
    games = [game for game in options.games if game != "othello"]
    answer("earl", "earl-envs", rows(games, options))


if __name__ == "__main__":
    main()
