"""Functions that round a number alike wherever it stands.

On a CPU, torch computes SiLU, GELU and the sigmoid of several numbers together, and rounds those that are left over at
the end in another way. So the activations of a layer whose size is not a multiple of `LANES` would depend on the number
of tokens in a pass.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from torch import Tensor, nn
from torch.nn.functional import pad

__all__ = ["settle_activations", "steadily"]

LANES = 64
"""Numbers that a processor computes together, or a multiple of them."""


def steadily(function: Callable[[Tensor], Tensor], values: Tensor) -> Tensor:
    """A function of each number, with a tensor of the same shape."""
    if values.device.type != "cpu":
        return function(values)
    values, missing = (
        values.contiguous(),
        -values.numel() % LANES,
    )  # The rows of a part of a tensor leave some over too.
    return function(pad(values.view(-1), (0, missing)))[:-missing].view(values.shape) if missing else function(values)


def settle_activations(model: nn.Module) -> None:
    """Let the activations of a model be computed steadily."""
    for module in model.modules():
        if type(module).__module__ == "transformers.activations" or isinstance(module, nn.SiLU | nn.GELU | nn.Sigmoid):
            module.forward = partial(steadily, module.forward)
