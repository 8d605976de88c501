"""One small tokenizer per family, made once."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from gnomon.models.tokenizer import Tokenizer
from rendering.families import MARKS, tokenizer_folder


@pytest.fixture(scope="session")
def tokenizers(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Tokenizer]:
    root = tmp_path_factory.mktemp("tokenizers")
    return {family: Tokenizer(tokenizer_folder(root / family, family)) for family in MARKS}


@pytest.fixture
def folder_of(tmp_path: Path) -> Callable[..., Path]:
    """A folder of a family with a chat template in it."""

    def make(family: str, template: str | None = None) -> Path:
        folder = tokenizer_folder(tmp_path / family, family)
        if template is not None:
            (folder / "chat_template.jinja").write_text(template, encoding="utf-8")
        return folder

    return make
