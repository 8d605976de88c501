"""A tokenizer with one token per character, for small random models."""

from __future__ import annotations

from tokenizers import Tokenizer

from gnomon.models.folder import TINY


def tokenizer() -> Tokenizer:
    return Tokenizer.from_file(str(TINY / "tokenizer.json"))
