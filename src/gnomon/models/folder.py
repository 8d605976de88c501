"""Locate model folders and refuse unsafe ones. Needs no torch, so that mistakes are reported quickly.

A folder may come from anybody. Nothing in it is run: no code of its own, no pickle, no kernel that it names, no base
model that an adapter points to.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from functools import cache
from hashlib import file_digest, sha256
from pathlib import Path
from shlex import quote
from typing import Any

from gnomon.errors import ModelError, sibling
from gnomon.models import smollm2
from gnomon.models.hub import fetch, hub_name, present

__all__ = [
    "AGAIN",
    "NAMED",
    "SHIPPED",
    "base_hash",
    "chat_template",
    "config_folder",
    "image_token",
    "model_folder",
    "present_folder",
    "table",
]

SHIPPED = {name: Path(__file__).parent / name for name in ("tiny", "tiny-fresh")}
"""The policies that ship, by name."""
TINY = SHIPPED["tiny"]
SMOLLM2 = "smollm2"
"""The name of SmolLM2-135M-Instruct, whose folder is made on first use."""
NAMED = (*SHIPPED, SMOLLM2)
"""The names of models that are neither a folder nor on the hub."""
PICKLES = (".bin", ".pt", ".pth", ".ckpt", ".pkl")
AGAIN = "policy=tiny, or get the files of this model again"
"""The fix for a model folder with a file that is damaged."""
LAYERS = ("num_hidden_layers", "n_layer", "n_layers", "num_layers")
MOST = 1000
"""Layers of a model, at most."""


def model_folder(name: str | Path) -> Path:
    """The folder of a model: of one in `NAMED` by its name, all else by a path, or a name of the hub.

    A path that exists comes before a name. A model of the hub is fetched unless it is in the hub's cache.

    Raises: ModelError E301 when the folder is missing or holds no model, E303 when its configuration is none, E320 for
    weights that are no safetensors, E321 for what is not supported: quantized weights, adapters, code of its own; E335
    and E336 for a model of the hub that cannot be fetched.
    """
    hub = hub_name(str(name))
    folder = _examine(smollm2.folder() if str(name) == SMOLLM2 else fetch(hub) if hub else name)
    if folder not in SHIPPED.values():
        _require_safetensors(folder)
    return folder


def config_folder(name: str | Path) -> Path:
    """As `model_folder`, for a folder that may hold a configuration and no weights."""
    if str(name) == SMOLLM2:
        return model_folder(name)
    hub = hub_name(str(name))
    return _examine(fetch(hub, weights=False) if hub else name)


def present_folder(name: str | Path) -> Path:
    """As `config_folder`, for readers: of the hub, only what is in its cache. Nothing is fetched."""
    hub = hub_name(str(name))
    return _examine(smollm2.present_folder() if str(name) == SMOLLM2 else present(hub) if hub else name)


def _examine(name: str | Path) -> Path:
    if str(name) in SHIPPED:
        return SHIPPED[str(name)]
    folder = Path(os.path.expanduser(name))
    if (folder / "adapter_config.json").is_file():
        why = "its adapter_config.json could name any base model"
        fix = "merge it into its base model and use the merged folder; of a run: gnomon export RUN FOLDER --merged"
        raise _unsupported_error(folder, "the folder contains an adapter", why, _from_run(folder) or fix)
    if not (folder / "config.json").is_file():
        if saved := _from_run(folder):
            raise ModelError(
                "E301", "the folder is a run and not a model", where=str(folder),
                why="the weights of a run are in its checkpoints", fix=saved,
            )  # fmt: skip
        near = sibling(folder, lambda path: (path / "config.json").is_file())
        word = f"policy={near}" if near else "policy=tiny, the built-in policy"
        raise ModelError(
            "E301",
            "the folder contains no model" if folder.exists() else "the model folder does not exist",
            where=str(folder),
            why="a model folder contains config.json, model.safetensors and tokenizer.json",
            fix=f"{word}, or policy=FOLDER of another model, or policy=OWNER/NAME of the hub",
        )
    config = table(folder / "config.json")
    _require_known(folder, config)
    return folder


def _from_run(folder: Path) -> str:
    """The fix for the folder of a run, or for a checkpoint that is an adapter; empty where the folder is neither."""
    run, step = folder, ""
    if folder.parent.name == "checkpoints":
        run, step = folder.parents[1], f":{int(folder.name)}" if folder.name.isdecimal() else ""
    if not (run / "recipe.toml").is_file():
        return ""
    saved = max(run.glob("checkpoints/[0-9]*"), default=None)
    if saved is None:
        return f"gnomon resume {quote(str(run))}   (its end writes a checkpoint)"
    if not (saved / "adapter_config.json").is_file():
        return f"policy={saved}"
    model = f"{run}{step.replace(':', '-')}-merged"
    return f"gnomon export {quote(f'{run}{step}')} {quote(model)} --merged   (then policy={model})"


def table(path: Path) -> dict[str, Any]:
    """The JSON object in a file of a model folder; empty where there is no file. Raises: ModelError E303."""
    if not path.is_file():
        return {}
    try:
        content = json.loads(path.read_text("utf-8"))
        problem = "" if isinstance(content, dict) else "it is not a JSON object"
    except (OSError, ValueError, RecursionError) as error:
        problem = str(error) or type(error).__name__
    if problem:
        what = f"{path.name} of the model folder cannot be read"
        raise ModelError("E303", what, where=str(path), why=problem, fix=AGAIN)
    return dict(content)


def chat_template(folder: Path) -> str | None:
    """The chat template of a model folder: `chat_template.jinja`, or the one in its tokenizer_config.json."""
    if (folder / "chat_template.jinja").is_file():
        return (folder / "chat_template.jinja").read_text(encoding="utf-8")
    template = table(folder / "tokenizer_config.json").get("chat_template")
    if isinstance(template, list):
        defaults = [one for one in template if isinstance(one, dict) and one.get("name") == "default"]
        template = defaults[0].get("template") if defaults else None
    return template if isinstance(template, str) else None


def image_token(folder: Path) -> int | None:
    """Id of the token that stands for a part of an image; None for a model that does not see.

    A model that sees has the configuration of its image processor in its folder.
    """
    config = table(folder / "config.json")
    token = config.get("image_token_id", config.get("image_token_index"))
    if type(token) is not int:
        return None
    reads = (folder / "preprocessor_config.json").is_file()
    return token if reads or "image_processor" in table(folder / "processor_config.json") else None


def base_hash(folder: Path) -> str:
    """SHA-256 over what a model computes: its configuration and weights, file by file."""
    files = [path for path in folder.iterdir() if path.name == "config.json" or path.suffix == ".safetensors"]
    return _hash(tuple((str(path), path.stat().st_size, path.stat().st_mtime_ns) for path in sorted(files)))


@cache
def _hash(files: tuple[tuple[str, int, int], ...]) -> str:
    """Read once for a state of the files, however many policies begin from it."""
    total = sha256()
    for path, _, _ in files:
        with open(path, "rb") as file:
            total.update(Path(path).name.encode() + b"\0" + file_digest(file, "sha256").digest())
    return total.hexdigest()


def _require_known(folder: Path, config: Mapping[str, Any]) -> None:
    if not isinstance(config.get("model_type"), str):
        why = "config.json names no `model_type`"
        raise ModelError("E303", "the model folder cannot be read", where=str(folder), why=why, fix=AGAIN)
    for key in LAYERS:
        if isinstance(config.get(key, 1), bool) or not isinstance(config.get(key, 1), int | None):
            raise _unsupported_error(folder, f"{key} is {config[key]!r}", "it must be a number of layers")
        if not 0 < (config.get(key) or 1) <= MOST:
            raise _unsupported_error(folder, f"the model has {config[key]} layers", f"the limit is 1 to {MOST}")
    if config.get("quantization_config") is not None:
        why = "quantized weights cannot be trained, and reading them needs other packages"
        raise _unsupported_error(
            folder, "the weights are quantized", why, "use the folder of the model before quantization"
        )


def _require_safetensors(folder: Path) -> None:
    names = [path.name for path in folder.iterdir() if path.is_file()]
    if any(name.endswith(".safetensors") for name in names):
        return
    pickles = sorted(name for name in names if name.endswith(PICKLES))
    why = f"{pickles[0]} is a pickle, and opening a pickle runs code" if pickles else "there is no .safetensors file"
    raise ModelError(
        "E320",
        "the model folder has no weights in safetensors format",
        where=str(folder),
        why=why,
        fix="download the model's .safetensors files, or save it again: model.save_pretrained(FOLDER)",
    )


def _unsupported_error(folder: Path, what: str, why: str, fix: str = "") -> ModelError:
    return ModelError("E321", what, where=str(folder), why=why, fix=fix or "use another model folder")
