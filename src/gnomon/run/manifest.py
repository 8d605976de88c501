"""What a run stands on: versions, machine, code, data; and the first record, which decides its bytes."""

from __future__ import annotations

import os
import platform
import sys
from collections.abc import Iterator, Mapping
from hashlib import sha256
from importlib.metadata import version
from math import inf
from pathlib import Path
from typing import Any

import torch

from gnomon.config import RunConfig
from gnomon.config.placement import EngineKind
from gnomon.config.sections import chain_settings
from gnomon.envs import offers
from gnomon.envs.base import Env
from gnomon.models.folder import model_folder
from gnomon.run.data import data_hashes, digest
from gnomon.run.hub_models import commits
from gnomon.run.makers.policy import attention_of, make_device
from gnomon.run.objects import source_facts
from gnomon.sandbox import capabilities

__all__ = ["changes", "manifest", "opening"]

LIBRARIES = ("gnomon", "torch", "transformers", "tokenizers", "numpy", "safetensors", "pydantic")


def manifest(config: RunConfig, env: Env, *, tier: str, mismatch: float | None) -> dict[str, Any]:
    """Versions, hardware, code and hashes, for a reader. Kept beside the chain.

    Args: mismatch: the largest difference between a sampled and a scored log-probability; None if it was not measured.
    """
    isolation, hub = offers.isolation(env), commits(config)
    return {
        "python": platform.python_version(),
        "versions": {name: version(name) for name in LIBRARIES},
        "machine": {
            "system": platform.platform(),
            "cpu": cpu_name(),
            "cores": os.cpu_count(),
            "isa": torch.backends.cpu.get_cpu_capability(),
            "device": device_name(config),
        },
        "threads": config.threads,
        "env": source_facts(env, config.env.type),
        "data": data_hashes(config, env),
        "sandbox": capabilities(isolation).body() if isolation else {},
        "policy": hashes(model_folder(config.policy.path)),
        **({"hub": hub} if hub else {}),
        "code_sha256": code_hash(),
        "tier": tier,
        "logp_mismatch": mismatch,
    }


def opening(config: RunConfig, env: Env) -> dict[str, Any]:
    """The first record of a run: the settings that decide its bytes, and the policy it starts from.

    How often to save, what an audit may find, limits of time, the number of processes and threads, their place, the
    device and whether activations are computed again are not part of it; files are known by their hashes, not their
    paths.
    """
    body = chain_settings(config)
    own = config.placement.same_numbers
    body["policy"]["attention"] = attention_of(config) if own else config.policy.attention.replace("auto", "exact")
    if body["policy"]["attention"] == "exact":
        del body["policy"]["attention"]
    if config.rollout.curriculum != "band":
        del body["rollout"]["band"]
    if config.policy.reference:
        body["policy"]["reference"] = hashes(model_folder(config.policy.reference))
    else:
        del body["policy"]["reference"]
    body["objective"] = objective_body(body["objective"])
    body["threads"] = 1  # Another number changes no bit.
    body["ranks"] = rank_group(config.ranks)
    if not config.ranks:
        del body["ranks"]
    if own:
        body["learner"] = "local"
    if not config.policy.trains_adapter:
        del body["policy"]["lora"]
    for table in (body["env"], *(each["env"] for each in body["eval"].get("sets", {}).values())):
        table |= {"type": table["type"].rpartition("/")[2]} if "type" in table else {}
    for setting, content in data_hashes(config, env).items():
        *tables, option = setting.split(".")
        section = body
        for table in tables:
            section = section[table]
        section[option] = content
    body["engine"] = engine_body(config)
    if (other := config.players.opponent) not in ("", "past"):
        body["players"]["opponent"] = hashes(model_folder(other))
    return {"config": body, "policy": hashes(model_folder(config.policy.path))}


def objective_body(options: Mapping[str, Any]) -> dict[str, Any]:
    """The objective and its options; infinity as text, which JSON has no number for."""
    return {name: str(value) if value in (inf, -inf) else value for name, value in options.items()}


def rank_group(ranks: int) -> int | str:
    """Numbers of ranks of one group give the same bits."""
    return "a power of two" if ranks.bit_count() == 1 else ranks


def engine_body(config: RunConfig) -> Any:
    """What of an engine decides the bytes of a run."""
    engine = config.engine
    parallel = {"tensor_parallel_size": len(engine.gpus)} if len(engine.gpus) > 1 else {}
    body: dict[str, Any] = (
        {"arguments": {**parallel, **engine.arguments}} if config.placement.engine is EngineKind.VLLM else {}
    )
    body |= {"batch_invariant": True} if engine.batch_invariant else {}
    body |= {"dtype": engine.dtype} if config.dtypes.differ else {}
    body |= {"round_weights": engine.round_weights} if engine.round_weights != "no" else {}
    return {"type": engine.type, **body} if body else engine.type


def changes(before: Mapping[str, Any], now: Mapping[str, Any]) -> Iterator[str]:
    """What of a manifest is not what it was."""
    for key, value in now.items():
        if before.get(key) != value:
            yield f"{key} was {before.get(key)} and is {value}"


def hashes(folder: Path) -> dict[str, str]:
    """Of every file of a model folder that decides what it computes."""
    names = {"config.json", "generation_config.json", "tokenizer.json"}
    paths = sorted(p for p in folder.iterdir() if p.name in names or p.suffix in (".safetensors", ".bin"))
    return {path.name: digest(path) for path in paths}


def code_hash() -> str:
    """One hash over the source of the package, as it is installed."""
    root = Path(sys.modules["gnomon"].__file__ or "").parent
    total = sha256()
    for path in sorted(root.rglob("*.py")):
        total.update(str(path.relative_to(root)).encode() + b"\0" + path.read_bytes())
    return total.hexdigest()


def device_name(config: RunConfig) -> str:
    """Where the policy is computed."""
    device = make_device(config.policy.device)
    return torch.cuda.get_device_name(device) if device.type == "cuda" else device.type


def cpu_name() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor()
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), platform.machine())
