"""A vocabulary of the game's own words, and a model that its seed alone decides."""

from itertools import islice

import pytest
import torch
from earl_envs import RandomOpponent, TextProtocol, episode_rng, game_ids, make_game
from earl_trainer.config import ModelConfig
from earl_trainer.models.tiny import build_model, build_tokenizer

# Their games are long, or their boards large.
SLOW = {f"earl/{name}-v0" for name in ("Othello", "Mastermind", "2048", "Hex", "Sokoban")}
GAMES = [
    pytest.param(game_id, marks=pytest.mark.slow if game_id in SLOW else ())
    for game_id in game_ids()
    if game_id.startswith("earl/")
]


@pytest.fixture(scope="module", params=GAMES)
def game_and_tokenizer(request):
    game = make_game(request.param)
    return game, build_tokenizer(game, seed=0)


def small_model(tokenizer, *, seed):
    return build_model(
        tokenizer, hidden_size=16, num_layers=1, num_heads=2, max_context_tokens=64, seed=seed
    )


def said_in_other_games(game, num_games=12):
    """(text, state, action) of games that the tokenizer has not seen; action None for a board."""
    protocol, player = TextProtocol(game), RandomOpponent()
    for episode in range(num_games):
        rng = episode_rng(99, game_id="elsewhere", episode=episode, seat=0)
        state = game.initial(rng)
        while game.returns(state) is None:
            seat = game.seat(state)
            yield protocol.turn_message(state, seat), state, None
            for action in game.legal(state)[::3]:
                yield protocol.format_move(state, action), state, action
            state = game.apply(state, player.move(game, state, seat, rng))


def test_every_board_and_move_comes_back_from_its_tokens(game_and_tokenizer):
    game, tokenizer = game_and_tokenizer
    protocol = TextProtocol(game)
    for text, state, action in islice(said_in_other_games(game), 1_000):
        ids = tokenizer.encode(text, add_special_tokens=False)
        assert tokenizer.unk_token_id not in ids
        decoded = tokenizer.decode(ids)
        assert decoded.replace(" ", "") == "".join(text.split())
        if action is not None:
            assert protocol.parse(decoded, state).action == action


def test_a_move_whose_name_is_a_word_is_one_token(game_and_tokenizer):
    game, tokenizer = game_and_tokenizer
    state = game.initial(episode_rng(7, game_id="elsewhere", episode=0, seat=0))
    for action in game.legal(state):
        words = TextProtocol(game).format_move(state, action)[1:-1].split()
        ids = tokenizer.encode(f"[{' '.join(words)}]", add_special_tokens=False)
        assert len(ids) == (1 if len(words) == 1 else len(words) + 2)


def test_a_cell_of_a_board_is_a_token(tiny_tokenizer):
    assert tiny_tokenizer.tokenize("X 2 O\n4") == ["X", "2", "O", "4"]


def test_the_end_of_a_turn_is_no_padding(tiny_tokenizer):
    assert tiny_tokenizer.eos_token == "<|end|>"
    assert tiny_tokenizer.pad_token_id != tiny_tokenizer.eos_token_id


def test_the_vocabulary_does_not_depend_on_the_seed_of_its_games(tic_tac_toe, tiny_tokenizer):
    other = build_tokenizer(tic_tac_toe, seed=5)

    assert other.get_vocab() == tiny_tokenizer.get_vocab()


def test_weights_are_fixed_by_the_seed_and_leave_the_process_wide_generator(tiny_tokenizer):
    before = torch.random.get_rng_state()
    first = small_model(tiny_tokenizer, seed=3).state_dict()
    assert torch.equal(torch.random.get_rng_state(), before)
    torch.rand(7)  # whatever else the process draws in between
    again = small_model(tiny_tokenizer, seed=3).state_dict()
    other = small_model(tiny_tokenizer, seed=4).state_dict()

    assert all(torch.equal(first[name], again[name]) for name in first)
    embedding = "model.embed_tokens.weight"
    assert not torch.equal(first[embedding], other[embedding])


def test_the_default_model_has_between_half_a_million_and_three_million_parameters(
    game_and_tokenizer,
):
    config = ModelConfig()
    model = build_model(
        game_and_tokenizer[1],
        hidden_size=config.hidden_size,
        num_layers=config.num_layers,
        num_heads=config.num_heads,
        max_context_tokens=config.max_positions,
        seed=0,
    )

    assert 500_000 <= model.num_parameters() <= 3_000_000
    assert model.config.max_position_embeddings == 1024


def test_the_model_knows_the_tokens_that_end_and_pad(tiny_model, tiny_tokenizer):
    assert tiny_model.config.eos_token_id == tiny_tokenizer.eos_token_id
    assert tiny_model.config.pad_token_id == tiny_tokenizer.pad_token_id
    assert tiny_model.config.vocab_size == len(tiny_tokenizer)
