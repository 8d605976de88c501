"""A small random model of any decoder family that transformers ships."""

from __future__ import annotations

from collections.abc import Iterator
from copy import copy
from itertools import product
from typing import Any

import torch
from transformers import AutoConfig
from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING_NAMES as NAMES

from gnomon.models.policy import family_of

__all__ = ["NAMES", "PROMPTS", "TEXTS", "alone", "small"]

SMALL: dict[str, Any] = {
    **dict.fromkeys(("hidden_size", "n_embd", "d_model", "embedding_size", "word_embed_proj_dim", "emb_dim"), 32),
    **dict.fromkeys(("hidden_size_global", "shape_embed_dim", "pronunciation_embed_dim", "nemo_conv_channels"), 32),
    **dict.fromkeys(("ext_pw_out_channel", "depthwise_separable_out_channel"), 32),
    **dict.fromkeys(("adapter_in_dim", "adapter_out_dim", "adapter_input_size"), 32),
    **dict.fromkeys(("intermediate_size", "ffn_dim", "ffn_hidden_size", "d_ff", "d_inner", "n_inner"), 48),
    **dict.fromkeys(("num_hidden_layers", "num_layers", "n_layer", "n_layers", "decoder_layers"), 2),
    **dict.fromkeys(("num_attention_heads", "num_heads", "n_head", "n_heads", "decoder_attention_heads"), 4),
    **dict.fromkeys(("num_experts", "num_local_experts", "n_routed_experts", "moe_num_experts"), 12),
    **dict.fromkeys(("moe_intermediate_size", "shared_expert_intermediate_size", "expert_ffn_hidden_size"), 24),
    **dict.fromkeys(("max_position_embeddings", "n_positions", "n_ctx", "max_seq_len"), 256),
    **dict.fromkeys(("topk_group", "first_k_dense_replace", "num_shared_experts", "n_shared_experts"), 1),
    **dict.fromkeys(("vocab_size", "vocab_size_per_layer_input", "shape_vocab_size", "pronunciation_vocab_size"), 102),
    "encoder_hash_byte_group_vocab": 102,
    **dict.fromkeys(("head_dim", "v_head_dim", "qk_nope_head_dim", "mamba_d_state", "state_size"), 8),
    **dict.fromkeys(("q_lora_rank", "kv_lora_rank", "sliding_window", "window_size", "mamba_d_head"), 16),
    **dict.fromkeys(("qk_rope_head_dim", "rotary_dim", "mamba_n_heads"), 4),
    **dict.fromkeys(("linear_key_head_dim", "linear_value_head_dim"), 16),
    "num_key_value_heads": 2, "num_experts_per_tok": 3, "moe_k": 3, "n_group": 2, "mlp_only_layers": [0],
    "encoder_layers": 1, "decoder_ffn_dim": 48,
    "attention_types": [[["global", "local"], 1]], "bos_token_id": 0, "eos_token_id": 1, "pad_token_id": 0,
    "initializer_range": 0.12, "is_decoder": True, "attn_layer_period": 2, "attn_layer_offset": 1,
    "attn_layer_indices": [1], "full_attn_idxs": [1], "block_types": ["recurrent", "attention"], "indexer_n_heads": 2,
    "indexer_kv_heads": 1, "indexer_head_dim": 8, "indexer_budget": 8, "indexer_compress_ratio": 4,
    "compress_rates": {"compressed_sparse_attention": 4, "heavily_compressed_attention": 8},
}  # fmt: skip
VARIANTS: tuple[dict[str, Any], ...] = (
    {},
    {"head_dim": ...},
    {"num_key_value_heads": ...},
    {"head_dim": ..., "num_key_value_heads": ...},
    {"head_dim": ..., "num_key_value_heads": 4},
    {"head_dim": 4, "num_key_value_heads": 4},
    {"num_kv_shared_layers": 0, "num_hidden_layers": 5, "hidden_size_per_layer_input": 8, "layer_types": None},
    {"mamba_d_ssm": 32, "mamba_n_heads": 4, "mamba_d_head": 8},
    {"mamba_n_heads": 8, "mamba_d_head": 8, "mamba_expand": 2},
    {"layer_types": None, "layers_block_type": None, "num_hidden_layers": 4},
    {"attn_layer_period": 2, "attn_layer_offset": 1, "mamba_n_heads": 8, "mamba_d_head": 8},
    {"num_heads": 8, "head_dim": 8, "n_groups": 1, "state_size": 8, "expand": 2},
    {"n_embd": 64, "n_head": 4, "rotary_dim": 8},
    {"hidden_size": 64, "head_dim": 16, "linear_num_key_heads": 2, "linear_num_value_heads": 4, "num_hidden_layers": 4,
     "linear_key_head_dim": 16, "linear_value_head_dim": 16, "decoder_sparse_step": 1, "full_attention_interval": 4},
)  # fmt: skip
"""Other sizes for families with rules of their own; `...` leaves one out."""
SHARING = ["linear_attention", "hybrid"] * 2
"""Twice the layer whose weights are shared."""
SWA = {"swa_num_attention_heads": 4, "swa_num_key_value_heads": 4, "swa_q_lora_rank": 16, "swa_kv_lora_rank": 16,
       "swa_head_dim": 12, "swa_qk_nope_head_dim": 8, "swa_v_head_dim": 8}  # fmt: skip
ROPE = {"rope_type": "default", "rope_theta": 10_000.0, "mrope_section": [1, 1, 2]}
OWN: dict[str, dict[str, Any]] = {
    "cohere_compass_text": {"rope_parameters": {"full_attention": ROPE}},
    "dbrx": {"attn_config": {"kv_n_heads": 2, "rope_theta": 10_000.0, "clip_qkv": 8.0}},
    "dots3_note_text": SWA | {
        "num_attention_heads": 4, "num_key_value_heads": 4, "q_lora_rank": 16, "kv_lora_rank": 16, "head_dim": 8,
        "v_head_dim": 8, "qk_nope_head_dim": 8, "index_head_dim": 8, "index_n_heads": 2,
        "shared_experts_intermediate_size": 24,
    },
    "emu3": {"vocabulary_map": {"<image>": 101, "<|extra_200|>": 100, "<|visual token 000000|>": 99}},
    "emu3_vqgan": {"base_channels": 32, "channel_multiplier": [1, 1], "num_res_blocks": 1, "codebook_size": 32},
    "gemma3n_text": {
        "activation_sparsity_pattern": [0.95, 0.0, 0.0, 0.0], "num_hidden_layers": 4, "num_kv_shared_layers": 2,
        "layer_types": ["sliding_attention", "full_attention"] * 2,
    },
    "lfm2_moe": {"layer_types": ["conv", "full_attention"] * 2, "num_hidden_layers": 4},
    "mllama_text_model": {"cross_attention_layers": [1], "num_hidden_layers": 3},
    "prophetnet": {"num_encoder_layers": 1, "num_decoder_layers": 2},
    "reformer": {"axial_pos_embds": False, "attn_layers": ["local", "lsh"]},
    "xmod": {"default_language": "en_XX"},
    "zamba": {"layer_types": SHARING, "layers_block_type": SHARING, "num_hidden_layers": 4},
    "zamba2": {"layer_types": SHARING, "layers_block_type": SHARING, "num_hidden_layers": 4},
    "zaya": {"num_experts_per_tok": 1},
}  # fmt: skip
"""What single families need besides, by `model_type`."""
MOST = 5_000_000
"""Parameters of a model that a test makes."""
TEXTS = [torch.randint(2, 100, (n,), generator=torch.Generator().manual_seed(n)) for n in (24, 19, 30)]
"""Longer than the attention windows."""
PROMPTS = [tuple(TEXTS[0][:length].tolist()) for length in (1, 2, 5, 19)]
"""Of replies that are sampled together."""


def alone(model: Any, text: torch.Tensor) -> torch.Tensor:
    """[L−1] what transformers says of a text."""
    logp = model(input_ids=text[None], use_cache=False).logits[0, :-1].log_softmax(-1)
    found: torch.Tensor = logp.gather(1, text[1:, None])[:, 0]
    return found


def small(name: str) -> Any:
    """A random model of the family that computes its own log-probabilities; None where these sizes make none."""
    for config in configurations(name):
        try:
            with torch.device("meta"):
                count = sum(p.numel() for p in family_of(config).from_config(config).parameters())
            if count > MOST:
                continue
            torch.manual_seed(3)
            model = family_of(config).from_config(config, attn_implementation="eager").eval().float()
            with torch.no_grad():
                alone(model, TEXTS[0])
        except Exception:  # Every family has rules of its own on sizes.
            continue
        with torch.no_grad():
            for value in model.state_dict().values():
                if value.dim() == 1:  # Norms and biases begin as constants, which would hide a mistake.
                    value.add_(0.1 * torch.randn_like(value))
        return model
    return None


def configurations(name: str) -> Iterator[Any]:
    """Configurations of small sizes, of which many families take one."""
    try:
        usual = AutoConfig.for_model(name)
    except Exception:  # The usual sizes of some families contradict each other.
        return
    for every, variant in product((True, False), VARIANTS):
        try:
            inside = {key: sizes(part, variant, every) for key, part in parts(usual).items()}
            yield AutoConfig.for_model(name, **(inside | sizes(usual, variant, every)))
        except Exception:  # As above.
            continue


def parts(config: Any) -> dict[str, Any]:
    """The configurations inside one, such as those of text and vision."""
    found = {key: getattr(config, key, None) for key in getattr(config, "sub_configs", {})}
    return {key: part for key, part in found.items() if part is not None and hasattr(part, "model_type")}


def sizes(config: Any, variant: dict[str, Any], every: bool) -> dict[str, Any]:
    """The small sizes that a configuration has names for. Args: every: with a layer of every kind that it has."""
    kinds = list(dict.fromkeys(getattr(config, "layer_types", None) or ())) if every else []
    kinds += ["full_attention"] if kinds == ["linear_attention"] else []
    layers = {"layer_types": kinds, "num_hidden_layers": len(kinds)} if len(kinds) > 1 else {}
    wanted = {key: value for key, value in (SMALL | layers | variant).items() if value is not ...}
    feeding = list(dict.fromkeys(getattr(config, "mlp_layer_types", None) or ())) if every else []
    if len(feeding) > 1:
        wanted["mlp_layer_types"] = (feeding * wanted["num_hidden_layers"])[: wanted["num_hidden_layers"]]
    return {key: value for key, value in wanted.items() if takes(config, key, value)} | OWN.get(config.model_type, {})


def takes(config: Any, key: str, value: Any) -> bool:
    """Whether a configuration has a size of this name that can be set."""
    try:
        if hasattr(config, key):
            setattr(copy(config), key, value)
            return True
    except Exception:  # Some names are read only, or have a value for each layer.
        pass
    return False
