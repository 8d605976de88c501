"""One rank of a policy that is sharded over two: `python sharded.py RANK FOLDER` writes its gradient there."""

from __future__ import annotations

import sys
from pathlib import Path

import torch
import torch.distributed as dist
from safetensors.torch import save_file
from torch import Tensor
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard

from gnomon.models.policy import Policy
from gnomon.models.scoring import pack_rows

PROMPTS = [(5, 6, 7, 8), (9, 10, 11)]
ROWS = [(0, (20, 21, 22)), (0, (23, 24)), (1, (30, 31, 32, 33)), (1, (20,))]
RANKS = 2


def gradient(policy: Policy) -> dict[str, Tensor]:
    """Of a sum of everything that a policy says, by the names of its parameters as they were."""
    reference = Policy.load("tiny")
    with torch.no_grad():
        for value in reference.state().values():
            value.mul_(1.01)
    work = pack_rows(policy, PROMPTS, ROWS)
    found = policy(work, 0.7, reference.anchor(work))
    (found.logp.sum() + 0.1 * found.entropy.sum() - 0.5 * found.kl.sum()).backward()
    grads = {name: value.grad for name, value in policy.state().items() if value.grad is not None}
    return {name: grad.full_tensor() if hasattr(grad, "full_tensor") else grad for name, grad in grads.items()}


def main() -> None:
    rank, folder = int(sys.argv[1]), Path(sys.argv[2])
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{folder}/ranks", rank=rank, world_size=RANKS)
    mesh, policy = init_device_mesh("cpu", (RANKS,)), Policy.load("tiny")
    for layer in policy.model.base_model.layers:
        fully_shard(layer, mesh=mesh)
    fully_shard(policy, mesh=mesh)
    local = sum(value.to_local().numel() for value in policy.state().values())
    assert local < 0.6 * sum(value.numel() for value in policy.state().values()), "nothing was sharded"
    save_file({name: grad.contiguous() for name, grad in gradient(policy).items()}, folder / f"{rank}.safetensors")
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
