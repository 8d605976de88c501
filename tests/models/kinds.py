"""Small random models of several families, as folders."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch
from transformers import (
    AutoModelForCausalLM,
    DeepseekV3Config,
    Gemma2Config,
    Gemma3TextConfig,
    GPT2Config,
    GPTNeoXConfig,
    GptOssConfig,
    LlamaConfig,
    PreTrainedConfig,
    Qwen3_5TextConfig,
    Qwen3Config,
)

from models.characters import tokenizer
from rendering.families import tokenizer_folder

WINDOW = 16
COMMON: dict[str, Any] = {
    "vocab_size": 102,
    "max_position_embeddings": 512,
    "bos_token_id": None,
    "eos_token_id": 1,
    "pad_token_id": 0,
    "initializer_range": 0.12,
}
WIDE = COMMON | {"hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 3, "num_attention_heads": 4}
SMALL = COMMON | {"n_embd": 64, "n_layer": 3, "n_head": 4, "n_positions": 512}
KINDS: dict[str, PreTrainedConfig] = {
    "llama": LlamaConfig(**WIDE, num_key_value_heads=2),
    "qwen3": Qwen3Config(**WIDE, num_key_value_heads=2, head_dim=24, tie_word_embeddings=True),
    "gemma3": Gemma3TextConfig(
        **WIDE,
        num_key_value_heads=1,
        head_dim=32,
        query_pre_attn_scalar=48,
        sliding_window=WINDOW,
        layer_types=["sliding_attention", "full_attention", "sliding_attention"],
    ),
    "gemma3 with a cap": Gemma3TextConfig(
        **WIDE, num_key_value_heads=1, head_dim=32, sliding_window=WINDOW, final_logit_softcapping=5.0
    ),
    "gemma2": Gemma2Config(
        **WIDE,
        num_key_value_heads=2,
        head_dim=32,
        query_pre_attn_scalar=48,
        sliding_window=WINDOW,
        layer_types=["sliding_attention", "full_attention", "sliding_attention"],
        attn_logit_softcapping=2.0,
    ),
    "gpt_oss": GptOssConfig(
        **WIDE, num_key_value_heads=2, head_dim=32, sliding_window=WINDOW, num_local_experts=4, num_experts_per_tok=2
    ),
    "qwen3_5": Qwen3_5TextConfig(
        # Larger weights enlarge the rounding of what linear attention reads, which a norm divides by its size.
        **WIDE | {"initializer_range": 0.06},
        num_key_value_heads=2,
        head_dim=32,
        layer_types=["linear_attention", "full_attention", "linear_attention"],
        linear_num_key_heads=2,
        linear_num_value_heads=4,
        linear_key_head_dim=16,
        linear_value_head_dim=24,
    ),
    "deepseek_v3": DeepseekV3Config(
        **WIDE,
        num_key_value_heads=4,
        q_lora_rank=24,
        kv_lora_rank=20,
        qk_nope_head_dim=24,
        qk_rope_head_dim=16,
        v_head_dim=28,
        moe_intermediate_size=20,
        n_routed_experts=12,
        num_experts_per_tok=3,
        n_group=3,
        topk_group=2,
        n_shared_experts=1,
        first_k_dense_replace=1,
    ),
    "gpt2": GPT2Config(**{k: v for k, v in SMALL.items() if k != "max_position_embeddings"}),
    "neox": GPTNeoXConfig(**(WIDE | {"hidden_size": 64, "num_attention_heads": 4})),
}


def text(seed: int, length: int) -> tuple[int, ...]:
    """Tokens that end nothing."""
    return tuple(torch.randint(2, 102, (length,), generator=torch.Generator().manual_seed(seed)).tolist())


def save(kind: str, folder: Path) -> Path:
    """A random model of the kind, as a folder."""
    torch.manual_seed(3)
    model = AutoModelForCausalLM.from_config(KINDS[kind])
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() == 1:  # Norms and biases begin as constants, which would hide a mistake.
                parameter.add_(0.2 * torch.randn_like(parameter))
    model.save_pretrained(folder)
    tokenizer().save(str(folder / "tokenizer.json"))
    return folder


def save_chat(family: str, config: PreTrainedConfig, folder: Path) -> Path:
    """A random model, with a tokenizer that has its family's control tokens and chat template."""
    tokenizer_folder(folder, family)
    tokens = json.loads((folder / "tokenizer.json").read_text())
    config.vocab_size = len(tokens["model"]["vocab"]) + len(tokens["added_tokens"])
    config.eos_token_id = json.loads((folder / "config.json").read_text())["eos_token_id"]
    torch.manual_seed(0)
    AutoModelForCausalLM.from_config(config, dtype=torch.bfloat16).save_pretrained(folder)
    return folder
