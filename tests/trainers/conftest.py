"""A model and a tokenizer made in code: small enough to train on a CPU, without downloads."""

import os

import pytest

os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")


@pytest.fixture(scope="session")
def tokenizer():
    pytest.importorskip("trl", reason="run by `make test-trl`, in an environment of its own")
    return make_tokenizer()


@pytest.fixture
def model(tokenizer):
    return make_model(tokenizer)


def make_tokenizer():
    """Return a tokenizer of bytes with a chat template."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    vocabulary = {token: index for index, token in enumerate([*alphabet, "<|pad|>", "<|eos|>"])}
    byte_tokenizer = Tokenizer(models.BPE(vocab=vocabulary, merges=[]))
    byte_tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    byte_tokenizer.decoder = decoders.ByteLevel()
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=byte_tokenizer,
        pad_token="<|pad|>",
        eos_token="<|eos|>",
        padding_side="left",
    )
    tokenizer.chat_template = (
        "{% for message in messages %}{{ message.role }}: {{ message.content }}\n{% endfor %}"
        "{% if add_generation_prompt %}assistant: {% endif %}"
    )
    return tokenizer


def make_model(tokenizer):
    """Return an untrained model with two layers of width 32."""
    import torch
    from transformers import GPT2Config, GPT2LMHeadModel

    torch.manual_seed(0)
    return GPT2LMHeadModel(
        GPT2Config(
            vocab_size=len(tokenizer),
            n_positions=128,
            n_embd=32,
            n_layer=2,
            n_head=2,
            pad_token_id=tokenizer.pad_token_id,
            eos_token_id=tokenizer.eos_token_id,
        )
    )
