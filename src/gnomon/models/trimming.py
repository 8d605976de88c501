"""A model folder with a part of its vocabulary, and back: smaller embeddings decode faster."""

from __future__ import annotations

import json
import shutil
from collections.abc import Collection
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from transformers import AutoModelForCausalLM

from gnomon.errors import ModelError
from gnomon.models.folder import base_hash, model_folder, table
from gnomon.models.policy import configuration
from gnomon.models.subword import needed_ids, restrict

__all__ = ["RECORD", "trim", "untrim"]

RECORD = "trimmed.json"
"""In the folder of a trimmed model: the model it is a part of, and the ids that it kept."""
IDS = ("bos_token_id", "eos_token_id", "pad_token_id")
FILES = ("tokenizer_config.json", "chat_template.jinja")


def trim(base: Path, folder: Path, used: Collection[int]) -> list[int]:
    """Write the model with the tokens that are used, and those without which they or another text cannot be encoded.

    Returns: the ids that were kept, in order: the place of an id is its new one.
    Raises: ModelError E327 for a model with other weights over the vocabulary, or a tokenizer that cannot be trimmed.
    """
    tokenizer = table(base / "tokenizer.json")
    marks = ids(table(base / "config.json"), table(base / "generation_config.json"))
    kept_ids = needed_ids(tokenizer, {*used, *marks})
    model = load(base)
    size = len(model.get_input_embeddings().weight)
    kept_ids = [token_id for token_id in kept_ids if token_id < size]
    choose_rows(model, base, torch.tensor(kept_ids))
    new = {old: token_id for token_id, old in enumerate(kept_ids)}
    for settings in (model.config, model.generation_config):
        for name in IDS:
            setattr(settings, name, renumber(getattr(settings, name, None), new))
    model.config.vocab_size = len(kept_ids)
    model.save_pretrained(folder)
    write(folder / "tokenizer.json", restrict(tokenizer, kept_ids))
    write(folder / RECORD, {"base": str(base.absolute()), "sha256": base_hash(base), "kept": kept_ids})
    copy_files(base, folder)
    return kept_ids


def untrim(trimmed: Path, base: Path, folder: Path, record: Path | None = None) -> None:
    """Write the base model with all that was trained of a trimmed one: rows of tokens that it lacks stay as they were.

    Args: trimmed: a model folder with the vocabulary of a trimmed one; record: of the trimming, by default `RECORD` in
        that folder.
    Raises: ModelError E328 where the base is another model than the one that was trimmed.
    """
    origin = table(record or trimmed / RECORD)
    if not origin or base_hash(base) != origin["sha256"]:
        raise ModelError(
            "E328",
            "this is not the model whose vocabulary was trimmed" if origin else f"there is no {RECORD}",
            where=str(base if origin else trimmed),
            why="rows of its vocabulary would be put in the place of others",
            fix=f"--base {origin['base']}" if origin else f"--record FOLDER/{RECORD}, of the folder that was trained",
        )
    part, whole = load(trimmed), load(base)
    kept_ids, parameters = torch.tensor(origin["kept"]), dict(part.named_parameters())
    over = {id(module.weight) for module in projections(part)}
    with torch.no_grad():
        for name, value in whole.named_parameters():
            if id(parameters[name]) in over:
                value[kept_ids] = parameters[name].to(value.dtype)
            else:
                value.copy_(parameters[name])
    whole.save_pretrained(folder)
    shutil.copyfile(base / "tokenizer.json", folder / "tokenizer.json")
    copy_files(base, folder)


def load(folder: Path) -> Any:
    """The model of a folder, in its own dtype."""
    return AutoModelForCausalLM.from_pretrained(
        model_folder(folder),
        config=configuration(folder),
        dtype="auto",
        local_files_only=True,
        trust_remote_code=False,
        use_safetensors=True,
    )


def projections(model: Any) -> list[Any]:
    """The input embedding and the vocabulary projection; one where they are tied."""
    return [model.get_input_embeddings(), model.get_output_embeddings()]


def choose_rows(model: Any, base: Path, kept_ids: Tensor) -> None:
    """Keep these rows of the embedding and of the projection. Raises: ModelError E327 for other weights over the
    vocabulary."""
    layers, size = projections(model), len(model.get_input_embeddings().weight)
    mine = {id(module.weight) for module in layers}
    others = [name for name, value in model.named_parameters() if size in value.shape and id(value) not in mine]
    if others:
        raise ModelError(
            "E327",
            "the model has other weights over the vocabulary than embedding and projection",
            where=str(base),
            why=f"{', '.join(others[:3])} would not fit a smaller one",
            fix="use the whole vocabulary",
        )
    rows: dict[int, torch.nn.Parameter] = {}
    for module in layers:
        old = module.weight
        rows.setdefault(id(old), torch.nn.Parameter(old.detach()[kept_ids].clone()))
        module.weight = rows[id(old)]
        for name in ("num_embeddings", "out_features"):
            if hasattr(module, name):
                setattr(module, name, len(kept_ids))
        if getattr(module, "padding_idx", None) is not None:
            module.padding_idx = None


def ids(*settings: dict[str, Any]) -> list[int]:
    """The ids that begin, end and pad a text."""
    values = [each.get(name) for each in settings for name in IDS]
    return [value for one in values for value in (one if isinstance(one, list) else [one]) if isinstance(value, int)]


def renumber(value: Any, new: dict[int, int]) -> Any:
    """An id, or several, by their new numbers."""
    return [new[token_id] for token_id in value] if isinstance(value, list) else new.get(value)


def copy_files(base: Path, folder: Path) -> None:
    """Copy the files that say how text is laid out."""
    for name in FILES:
        if (base / name).is_file():
            shutil.copyfile(base / name, folder / name)


def write(path: Path, content: dict[str, Any]) -> None:
    path.write_text(json.dumps(content, ensure_ascii=False) + "\n", "utf-8")
