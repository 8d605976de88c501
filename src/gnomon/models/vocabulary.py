"""Whether the tokenizer of a model folder fits its model, read from the files alone. Needs no torch."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from gnomon.errors import ModelError

__all__ = ["copy_tokenizer", "end_text", "end_tokens", "require_fitting", "require_tokenizer", "turn_end"]


def require_fitting(folder: Path) -> None:
    """See that every token of a folder's tokenizer, and every token that ends a reply, has a row in the embedding.

    Raises: ModelError E302 for a folder without a tokenizer, E317 for one whose tokenizer is larger than the model.
    """
    require_tokenizer(folder)
    config = table(folder / "config.json")
    rows = config.get("vocab_size", table_of(config.get("text_config")).get("vocab_size"))
    if not isinstance(rows, int):
        return
    largest = max((*token_ids(table(folder / "tokenizer.json")), *end_tokens(folder)), default=-1)
    if largest >= rows:
        raise ModelError(
            "E317", f"the tokenizer has token id {largest}, but the model has {rows} embeddings", where=str(folder),
            why=f"{rows} embeddings allow token ids from 0 to {rows - 1}",
            fix="use the model's own tokenizer, or save it after model.resize_token_embeddings(len(tokenizer))",
        )  # fmt: skip


def require_tokenizer(folder: Path) -> None:
    """Raises: ModelError E302 for a folder without tokenizer.json."""
    if not (folder / "tokenizer.json").is_file():
        raise ModelError(
            "E302", "the model folder has no tokenizer.json", where=str(folder),
            why="text cannot be tokenized without it", fix=copy_tokenizer(folder),
        )  # fmt: skip


def copy_tokenizer(folder: Path) -> str:
    """The command that writes the tokenizer of a model of the hub into a folder."""
    lines = (
        f"from transformers import AutoTokenizer as T; T.from_pretrained('OWNER/NAME').save_pretrained({str(folder)!r})"
    )
    return f'python -c "{lines}"'


def end_tokens(folder: Path) -> tuple[int, ...]:
    """The ids that end a reply, as config.json and generation_config.json name them, else those of `end_text`."""
    config = table(folder / "config.json") | table(folder / "generation_config.json")
    eos = config.get("eos_token_id")
    listed = eos if isinstance(eos, list) else [eos]
    if eos is None and (text := end_text(folder)):
        listed = [id_of(table(folder / "tokenizer.json"), text)]
    return tuple(token for token in listed if isinstance(token, int))


def end_text(folder: Path) -> str:
    """The end token that tokenizer_config.json names; empty if it names none."""
    eos = table(folder / "tokenizer_config.json").get("eos_token")
    text = eos.get("content") if isinstance(eos, dict) else eos
    return text if isinstance(text, str) else ""


def turn_end(folder: Path, template: str) -> str:
    """The end token that a chat template writes after a turn; empty for a template that writes none."""
    usual = end_text(folder)
    if usual and (usual in template or "eos_token" in template):
        return usual
    added = table(folder / "tokenizer.json").get("added_tokens")
    texts = {
        entry.get("id"): str(entry.get("content")) for entry in map(table_of, added if isinstance(added, list) else [])
    }
    return next((texts[token] for token in end_tokens(folder) if token in texts and texts[token] in template), "")


def id_of(tokenizer: dict[str, Any], text: str) -> int | None:
    """The id of a token of a tokenizer.json."""
    added = tokenizer.get("added_tokens")
    entries = map(table_of, added if isinstance(added, list) else [])
    vocabulary = table_of(tokenizer.get("model")).get("vocab")
    own = vocabulary.get(text) if isinstance(vocabulary, dict) else None
    return next((entry.get("id") for entry in entries if entry.get("content") == text), own)


def token_ids(tokenizer: dict[str, Any]) -> list[int]:
    """The ids of a tokenizer.json: of its vocabulary, by name or by place, and of the tokens added to it."""
    vocabulary = table_of(tokenizer.get("model")).get("vocab")
    if isinstance(vocabulary, dict):
        ids = [token for token in vocabulary.values() if isinstance(token, int)]
    else:
        ids = [len(vocabulary) - 1] if isinstance(vocabulary, list) and vocabulary else []
    added = tokenizer.get("added_tokens")
    entries = added if isinstance(added, list) else []
    return ids + [token for entry in entries if isinstance(token := table_of(entry).get("id"), int)]


def table(path: Path) -> dict[str, Any]:
    """The object in a JSON file; an empty one where there is none to read, which loading the model says."""
    try:
        return table_of(json.loads(path.read_text("utf-8")))
    except (OSError, ValueError):
        return {}


def table_of(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}
