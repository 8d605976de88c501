"""What computes which models: attentions and dtypes, from `config.json` alone. Needs no torch."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from gnomon.errors import ModelError
from gnomon.models.folder import table

__all__ = ["PACKED", "SMALLEST", "fits_flex", "has_experts", "head_size", "overflows", "packs", "require_flex"]

SMALLEST = 16
"""Smallest size of an attention head for which torch has a kernel of flex_attention on CUDA devices."""

OVERFLOWING = ("gemma2", "gemma3", "glm4")
"""Beginnings of transformers' names of families whose hidden states leave the range of float16. Source: vLLM 0.32,
which does not load them in float16."""


PACKED = frozenset((Path(__file__).parent / "packed_families.txt").read_text("utf-8").split())
"""Transformers' names of families whose packed passes agree with transformers' own and train, by a test of each."""


def packs(folder: Path) -> bool:
    """Whether the passes of a model are packed: flat tokens with Gnomon's own attention. Args: folder: has its
    `config.json`."""
    return table(folder / "config.json").get("model_type") in PACKED


def overflows(family: str) -> bool:
    """Whether hidden states leave the range of float16. Args: family: `model_type` of a configuration."""
    return family.startswith(OVERFLOWING)


EXPERTS = ("num_local_experts", "num_experts", "n_routed_experts")
"""Names of their number in a model's configuration."""


def has_experts(config: Mapping[str, Any]) -> bool:
    """Whether a model is a mixture of experts."""
    return any(config.get(name) for name in EXPERTS)


def head_size(config: Mapping[str, Any]) -> int:
    """Numbers of an attention head, of its values where they are fewer; 0 where the configuration does not say."""
    width, heads, latent, turned, values = (
        next((config[name] for name in names if isinstance(config.get(name), int)), 0)
        for names in (
            ("hidden_size", "n_embd"),
            ("num_attention_heads", "n_head"),
            ("qk_nope_head_dim",),
            ("qk_rope_head_dim",),
            ("v_head_dim",),
        )
    )
    size = latent + turned if latent else config.get("head_dim") or (width // heads if heads else 0)
    return min(size, values or size) if isinstance(size, int) else 0


def fits_flex(folder: Path) -> bool:
    """Whether flex_attention computes a model. Args: folder: has its `config.json`."""
    return head_size(table(folder / "config.json")) >= SMALLEST


def require_flex(folder: Path) -> None:
    """Raises: ModelError E329 for a model that flex_attention does not compute."""
    config = table(folder / "config.json")
    size = head_size(config)
    if 0 < size < SMALLEST:
        raise ModelError(
            "E329",
            f"flex_attention cannot compute attention heads of size {size}, which {config['model_type']} has here",
            where=str(folder),
            why=f"its kernel for CUDA devices needs heads of size {SMALLEST} or more",
            fix="policy.attention=exact, which works with every size",
        )
