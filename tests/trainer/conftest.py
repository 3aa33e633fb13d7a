"""Small things that many tests of the trainer share."""

import pytest
import torch
from earl_dispatch import Columns
from earl_envs import EndReason, make_game
from earl_trainer.models.tiny import build_model, build_tokenizer
from earl_trainer.rollout.chat import ChatFormat
from earl_trainer.types import Episode, EpisodeStart, PlayedGame, Turn
from transformers import GPT2Config, GPT2LMHeadModel, LlamaConfig, LlamaForCausalLM

TIC_TAC_TOE = "earl/TicTacToe-v0"
VOCABULARY = 11


@pytest.fixture(scope="session")
def tic_tac_toe():
    return make_game(TIC_TAC_TOE)


@pytest.fixture(scope="session")
def tiny_tokenizer(tic_tac_toe):
    return build_tokenizer(tic_tac_toe, seed=0)


@pytest.fixture(scope="session")
def tiny_chat(tiny_tokenizer):
    return ChatFormat(tiny_tokenizer)


class _Mute:
    def reply(self, queries):
        raise AssertionError("nobody was to reply")


@pytest.fixture(scope="session")
def mute_policy():
    """A policy that is only handed on."""
    return _Mute()


@pytest.fixture(scope="session")
def tiny_model(tiny_tokenizer):
    """Shared and read-only: a test that changes weights copies it.

    Its weights are large enough that a wrong position or a stale cache shows in the logits.
    """
    model = build_model(
        tiny_tokenizer, hidden_size=32, num_layers=2, num_heads=4, max_context_tokens=256, seed=0
    ).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.ndim == 2:
                parameter.mul_(8.0)
    return model


@pytest.fixture(scope="session")
def make_llama():
    """Two layers of width 16 with random weights, in eval mode."""

    def make(*, seed=0, dtype=torch.float32):
        config = LlamaConfig(
            vocab_size=VOCABULARY,
            hidden_size=16,
            intermediate_size=32,
            num_hidden_layers=2,
            num_attention_heads=2,
            num_key_value_heads=2,
            max_position_embeddings=64,
            initializer_range=0.3,
            tie_word_embeddings=True,
        )
        with torch.random.fork_rng(devices=[]):
            torch.default_generator.manual_seed(seed)
            return LlamaForCausalLM(config).to(dtype).eval()

    return make


@pytest.fixture(scope="session")
def make_gpt2():
    """A model with learned positions and with dropout everywhere, in train mode as it is made."""

    def make(*, seed=0, dropout=0.5):
        config = GPT2Config(
            vocab_size=VOCABULARY,
            n_embd=16,
            n_layer=1,
            n_head=2,
            n_positions=64,
            initializer_range=0.3,
            embd_pdrop=dropout,
            resid_pdrop=dropout,
            attn_pdrop=dropout,
            bos_token_id=0,
            eos_token_id=0,
        )
        with torch.random.fork_rng(devices=[]):
            torch.default_generator.manual_seed(seed)
            return GPT2LMHeadModel(config)

    return make


@pytest.fixture(scope="session")
def make_rows():
    """Rows of random tokens, some of them trained, with random log-probs and advantages.

    Two rows each are a group, and have the advantage of their row at every token.
    """

    def make(lengths, *, seed=0):
        rng = torch.Generator().manual_seed(seed)
        num_tokens = sum(lengths)
        mask = torch.rand(num_tokens, generator=rng) < 0.5
        mask[torch.tensor(lengths).cumsum(0) - torch.tensor(lengths)] = False
        mask[torch.tensor(lengths).cumsum(0) - 1] = True

        def logprobs():
            return -2.4 + 0.3 * torch.randn(num_tokens, generator=rng)

        rows = torch.arange(len(lengths))
        trained = torch.zeros(len(lengths)).index_add(
            0, rows.repeat_interleave(torch.tensor(lengths)), mask.float()
        )
        groups = torch.zeros(len(lengths)).index_add(0, rows // 2, trained)
        return Columns(
            lengths=torch.tensor(lengths),
            per_token={
                "token_ids": torch.randint(
                    VOCABULARY, (num_tokens,), generator=rng, dtype=torch.int32
                ),
                "mask": mask,
                "rollout_logprobs": logprobs(),
                "old_logprobs": logprobs(),
                "reference_logprobs": logprobs(),
                "versions": torch.zeros(num_tokens, dtype=torch.int32),
                "advantages": torch.randn(len(lengths), generator=rng).repeat_interleave(
                    torch.tensor(lengths)
                ),
            },
            per_row={
                "episode": torch.arange(len(lengths), dtype=torch.int32),
                "group_tokens": groups[rows // 2],
            },
        )

    return make


@pytest.fixture(scope="session")
def make_turn():
    """One reply to a prompt."""

    def make(prompt_ids, reply_ids, *, cut=False):
        return Turn(
            prompt_ids=tuple(prompt_ids),
            reply_ids=tuple(reply_ids),
            logprobs=tuple(-0.1 * token for token in reply_ids),
            versions=(3,) * len(reply_ids),
            text="",
            action=0,
            cut=cut,
        )

    return make


@pytest.fixture(scope="session")
def make_episode(make_turn):
    """One finished game of one turn, unless told otherwise.

    `games` gives (outcome, end reason) of each game instead, `num_games` how many were to be.
    """

    def make(
        *,
        outcome=1.0,
        end_reason=EndReason.FINISHED,
        group=0,
        seat=0,
        turns=None,
        detail="",
        games=None,
        num_games=None,
        greedy=False,
    ):
        games = [(outcome, end_reason)] if games is None else games
        return Episode(
            start=EpisodeStart(
                episode=0,
                table=0,
                group=group,
                seat=seat,
                game_seed=0,
                reply_seed=0,
                greedy=greedy,
                num_games=len(games) if num_games is None else num_games,
            ),
            turns=[make_turn([1, 2], [3, 4])] if turns is None else turns,
            games=[
                PlayedGame(
                    game_seed=0,
                    first_turn=0,
                    moves=(),
                    end_reason=reason,
                    outcome=score,
                    detail=detail,
                )
                for score, reason in games
            ],
        )

    return make


@pytest.fixture(scope="session")
def make_summary(make_episode):
    """The same without its tokens."""
    return lambda **fields: make_episode(**fields).summary
