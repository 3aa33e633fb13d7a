"""Games that are played again and again to see how fast replies are generated.

They are Tic-Tac-Toe with the model of the recipe tictactoe-tiny at random weights, greedy. Such a
model says nothing sensible, so every reply counts as one of the legal moves; a reply ends at the
model's own end of turn or at a limit that is drawn for each turn, as if it had ended there.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, final

import numpy as np
import torch
from earl_envs import TextProtocol, make_game
from earl_trainer.models.attention import use_attention
from earl_trainer.models.tiny import build_model, build_tokenizer
from earl_trainer.rollout.chat import ChatFormat, Dialogue
from earl_trainer.rollout.engine import Request
from earl_trainer.rollout.streaming_engine import StreamingEngine
from earl_trainer.rollout.transformers_engine import TransformersEngine
from torch import nn
from transformers import PreTrainedModel

_GAME = "earl/TicTacToe-v0"
_SEED = 0
_MAX_POSITIONS = 1024
_CAPACITY_TOKENS = 1 << 18
_GROUP_SIZE = 16
_MOST_TURNS = 5
_TIE = 1e-4
"""Two best logits nearer than this are counted apart: either may be chosen."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Lengths:
    """A log-normal distribution of the lengths of replies."""

    median_tokens: float
    sigma: float
    most_tokens: int

    def draw(self, shape: tuple[int, ...]) -> np.ndarray:
        """Draw limits of replies, each at least 1."""
        rng = np.random.default_rng(_SEED)
        lengths = self.median_tokens * np.exp(self.sigma * rng.standard_normal(shape))
        return lengths.round().clip(1, self.most_tokens).astype(np.int64)


TURNS = Lengths(median_tokens=6.0, sigma=0.5, most_tokens=24)


@final
class Seat:
    """One game from the side of the model, against random moves.

    Args:
        number: Of the game; games of a group have the same first prompt.
        limits: [turns] most tokens of each reply.
        chat: Writes the prompts.
        rules: Whether the rules stand in front of the first board.
    """

    def __init__(
        self, number: int, limits: Sequence[int], chat: ChatFormat, *, rules: bool
    ) -> None:
        self.number = number
        self.requests: list[Request] = []
        self.replies: list[tuple[int, ...]] = []
        self._limits = limits
        self._chat = chat
        self._game = make_game(_GAME)
        self._protocol = TextProtocol(self._game)
        self._first_words = self._protocol.system_message() + "\n" if rules else ""
        group = number // _GROUP_SIZE
        self._side = group % 2
        self._rng = np.random.default_rng([_SEED, group])
        self._state: Any = self._game.initial(self._rng)
        self._dialogue: Dialogue | None = None

    def ask(self) -> Request | None:
        """Let the opponent move and write the next prompt; None when the game is over."""
        while (legal := self._game.legal(self._state)) and self._game.seat(
            self._state
        ) != self._side:
            self._state = self._game.apply(self._state, int(self._rng.choice(legal)))
        if not legal:
            return None
        board = self._protocol.turn_message(self._state, self._side)
        if self._dialogue is None:
            self._dialogue = self._chat.start("", self._first_words + board)
            self._rng = np.random.default_rng([_SEED, 1, self.number])
        else:
            self._dialogue = self._chat.extend(self._dialogue, self.replies[-1], board)
        self.requests.append(
            Request(
                sequence_id=self.number,
                prompt_ids=self._dialogue.prompt_ids,
                max_new_tokens=int(self._limits[len(self.replies)]),
                temperature=0.0,
                seed=0,
            )
        )
        return self.requests[-1]

    def hear(self, reply_ids: Sequence[int]) -> None:
        """Take a reply as some legal move."""
        self.replies.append(tuple(reply_ids))
        legal = self._game.legal(self._state)
        self._state = self._game.apply(self._state, legal[sum(reply_ids) % len(legal)])


Play = Callable[[Sequence[Seat]], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class World:
    """The model and what is said to it."""

    model: PreTrainedModel
    chat: ChatFormat
    pad_id: int

    def seats(self, num_games: int, *, rules: bool = False) -> list[Seat]:
        """Set the tables, always the same ones."""
        limits = TURNS.draw((num_games, _MOST_TURNS)).tolist()
        return [Seat(i, limits[i], self.chat, rules=rules) for i in range(num_games)]

    def streaming(self, **options: Any) -> StreamingEngine:  # noqa: ANN401 - the engine's own
        """Make the engine under test."""
        settings: dict[str, Any] = {
            "stop_ids": self.chat.stop_ids,
            "capacity_tokens": _CAPACITY_TOKENS,
            **options,
        }
        return StreamingEngine(self.model, **settings)


def make_world() -> World:
    """Make the model, with weights large enough that its replies differ."""
    tokenizer = build_tokenizer(make_game(_GAME), seed=_SEED)
    model = build_model(
        tokenizer,
        hidden_size=128,
        num_layers=4,
        num_heads=4,
        max_context_tokens=_MAX_POSITIONS,
        seed=_SEED,
    ).eval()
    with torch.no_grad():
        for parameter in nn.Module.parameters(model):
            if parameter.ndim == 2:
                parameter.mul_(5.0)
    use_attention(model)
    return World(model=model, chat=ChatFormat(tokenizer), pad_id=int(tokenizer.vocab["<|pad|>"]))


def play_with_generate(world: World, seats: Sequence[Seat]) -> None:
    """Play in lockstep, each turn with `generate` on all whole contexts, padded on the left."""
    while asking := [(seat, request) for seat in seats if (request := seat.ask()) is not None]:
        width = max(len(request.prompt_ids) for _, request in asking)
        ids = torch.full((len(asking), width), world.pad_id)
        for row, (_, request) in enumerate(asking):
            ids[row, width - len(request.prompt_ids) :] = torch.tensor(request.prompt_ids)
        given = torch.tensor([len(request.prompt_ids) for _, request in asking])
        library: Any = world.model  # its `generate` is untyped
        output = library.generate(
            input_ids=ids,
            attention_mask=(torch.arange(width) >= width - given[:, None]).long(),
            do_sample=False,
            max_new_tokens=max(request.max_new_tokens for _, request in asking),
            eos_token_id=sorted(world.chat.stop_ids),
            pad_token_id=world.pad_id,
        )
        for (seat, request), row in zip(asking, output[:, width:].tolist(), strict=True):
            seat.hear(cut(row[: request.max_new_tokens], world.chat.stop_ids))


def cut(ids: Sequence[int], stop_ids: frozenset[int]) -> Sequence[int]:
    """Return a reply up to its first token that ends it."""
    return next((ids[: end + 1] for end, token in enumerate(ids) if token in stop_ids), ids)


def play_in_waves(world: World, seats: Sequence[Seat]) -> None:
    """Play in lockstep with the engine whose batch lasts as long as its longest reply."""
    engine = TransformersEngine(
        world.model, stop_ids=world.chat.stop_ids, capacity_tokens=_CAPACITY_TOKENS
    )
    while asking := [(seat, request) for seat in seats if (request := seat.ask()) is not None]:
        completions = engine.generate([request for _, request in asking])
        for (seat, _), completion in zip(asking, completions, strict=True):
            seat.hear(completion.ids)


def play_streaming(engine: StreamingEngine, seats: Sequence[Seat]) -> None:
    """Let every game go on when its own reply is there."""
    playing = {seat.number: seat for seat in seats}
    for seat in seats:
        _go_on(engine, seat, playing)
    while playing:
        for number, completion in engine.advance():
            playing[number].hear(completion.ids)
            _go_on(engine, playing[number], playing)


def _go_on(engine: StreamingEngine, seat: Seat, playing: dict[int, Seat]) -> None:
    request = seat.ask()
    if request is None:
        engine.release(seat.number)
        del playing[seat.number]
    else:
        engine.submit(request)


@torch.no_grad()
def is_tie(model: PreTrainedModel, context: Sequence[int]) -> bool:
    """Whether the two best next tokens are as good as equal."""
    best, second = model(torch.tensor([list(context)])).logits[0, -1].topk(2).values.tolist()
    return best - second < _TIE


def compare_replies(
    model: PreTrainedModel, seats: Sequence[Seat], others: Sequence[Seat]
) -> dict[str, int]:
    """Count the games whose replies are all equal, or equal up to a tie."""
    counts = {"equal": 0, "tied": 0, "different": 0}
    for seat, other in zip(seats, others, strict=True):
        turns = zip(seat.requests, seat.replies, other.replies, strict=False)
        unequal = next(((asked, a, b) for asked, a, b in turns if a != b), None)
        if unequal is None:
            counts["equal"] += 1
            continue
        asked, own, theirs = unequal
        pairs = list(zip(own, theirs, strict=False))
        same = next((place for place, (a, b) in enumerate(pairs) if a != b), len(pairs))
        tied = is_tie(model, [*asked.prompt_ids, *own[:same]])
        counts["tied" if tied else "different"] += 1
    return counts
