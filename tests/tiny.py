"""A real model in miniature: two random llama layers and a tokenizer of bytes, made in a second.

Small enough for every test, and complete enough to be served by vLLM and trained by the learner.
"""

from __future__ import annotations

from pathlib import Path

CHAT_TEMPLATE = """\
{%- if tools %}{{ '<|im_start|>system\n' + tools | tojson + '<|im_end|>\n' }}{% endif -%}
{%- for message in messages %}{{ '<|im_start|>' + message['role'] + '\n' \
+ (message['content'] or '') + '<|im_end|>\n' }}{% endfor -%}
{%- if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif -%}
"""
SPECIAL_TOKENS = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]


def make_tiny_model(folder: Path, *, seed: int = 0, tied: bool = True, context: int = 512) -> Path:
    """Save model and tokenizer into `folder` and return it. The same seed gives the same weights.

    259 tokens (the bytes and three special ones), hidden size 64, two heads of 32.
    """
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM

    tokenizer = make_byte_tokenizer()
    config = LlamaConfig(
        vocab_size=len(tokenizer),
        hidden_size=64,
        intermediate_size=128,
        num_hidden_layers=2,
        num_attention_heads=2,
        num_key_value_heads=2,
        head_dim=32,
        max_position_embeddings=context,
        initializer_range=0.1,
        tie_word_embeddings=tied,
        bos_token_id=None,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = LlamaForCausalLM(config).to(torch.float32)
    folder.mkdir(parents=True, exist_ok=True)
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


def make_byte_tokenizer():
    """One token for each byte, ChatML around messages; `<|im_end|>` ends a reply."""
    from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    core = Tokenizer(models.BPE(vocab={c: i for i, c in enumerate(letters)}, merges=[]))
    core.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    core.decoder = decoders.ByteLevel()
    core.add_special_tokens([AddedToken(t, special=True) for t in SPECIAL_TOKENS])
    return PreTrainedTokenizerFast(
        tokenizer_object=core,
        eos_token="<|im_end|>",
        pad_token="<|endoftext|>",
        chat_template=CHAT_TEMPLATE,
        model_max_length=512,
        clean_up_tokenization_spaces=False,
    )
