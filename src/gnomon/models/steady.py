"""Layers that make the same of a token whatever is beside it.

On a CPU, torch computes SiLU, GELU, the sigmoid and other functions of several numbers together, and rounds those that
are left over at the end in another way. So what a layer whose size is not a multiple of `LANES` makes of a token would
depend on the number of tokens in a pass: its activations, the gates of its attention, its choice of experts. A linear
layer with one output takes a kernel whose sums depend on that number too.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from functools import partial
from types import CodeType
from typing import Any

from torch import Tensor, nn
from torch.nn.functional import linear, pad
from torch.overrides import TorchFunctionMode

__all__ = ["settle_layers", "steadily", "wide_linear"]

LANES = 64
"""Numbers that a processor computes together, or a multiple of them."""
COLUMNS = 2
"""Fewest columns of a product; one column takes a kernel whose bits depend on the number of rows."""
UNSTEADY = frozenset(("elu", "gelu", "mish", "sigmoid", "silu", "softplus"))
"""Names of torch's functions of a number that round by its place, as far as models have them."""
TABLE = "ACT2FN"
"""Name of transformers' table of activations."""


def steadily(function: Callable[[Tensor], Tensor], values: Tensor) -> Tensor:
    """A function of each number, with a tensor of the same shape."""
    if values.device.type != "cpu":
        return function(values)
    values, missing = values.contiguous(), -values.numel() % LANES  # Rows of a part of a tensor leave some over too.
    return function(pad(values.view(-1), (0, missing)))[:-missing].view(values.shape) if missing else function(values)


class Steady(TorchFunctionMode):
    """While it is entered, the functions in `UNSTEADY` are computed steadily, whoever calls them."""

    def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if getattr(function, "__name__", "") in UNSTEADY and args:
            return steadily(lambda values: function(values, *args[1:], **(kwargs or {})), args[0])
        return function(*args, **(kwargs or {}))


def settle_layers(model: nn.Module) -> None:
    """Let the layers of a model compute steadily."""
    modules: list[Any] = list(model.modules())
    names = {kind: names_used(kind) for kind in set(map(type, modules))}
    for module in modules:
        if type(module).__module__ == "transformers.activations" or isinstance(module, nn.SiLU | nn.GELU | nn.Sigmoid):
            module.forward = partial(steadily, module.forward)
        elif is_narrow(module):
            module.forward = partial(forward_widely, module)
        elif "forward" not in vars(module) and not names[type(module)].isdisjoint({*UNSTEADY, TABLE}):
            module.forward = partial(forward_steadily, module.forward)


def forward_steadily(forward: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """What a module computes whose own code has such functions."""
    if not any(isinstance(value, Tensor) and value.is_cpu for value in (*args, *kwargs.values())):
        return forward(*args, **kwargs)
    with Steady():
        return forward(*args, **kwargs)


def wide_linear(values: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """A linear layer, by a product with at least `COLUMNS` columns."""
    missing = COLUMNS - len(weight)
    if missing <= 0:
        return linear(values, weight, bias)
    wide_bias = None if bias is None else pad(bias, (0, missing))
    return linear(values, pad(weight, (0, 0, 0, missing)), wide_bias)[..., : len(weight)]


def is_narrow(module: nn.Module) -> bool:
    return isinstance(module, nn.Linear) and module.out_features < COLUMNS


def forward_widely(layer: nn.Linear, values: Tensor) -> Tensor:
    """What a layer with few outputs computes."""
    return wide_linear(values, layer.weight, layer.bias)


def names_used(kind: type[nn.Module]) -> frozenset[str]:
    """The names in the code of what a class of modules computes, and in functions beside the class that it calls."""
    own = [each for each in kind.__mro__ if issubclass(each, nn.Module) and not each.__module__.startswith("torch.")]
    waiting: list[Any] = [each for one in own for name, each in vars(one).items() if name != "__init__"]
    names = set[str]()
    while waiting:
        function = waiting.pop()
        function = inspect.unwrap(function) if callable(function) else function
        if inspect.isfunction(function):
            new = set(code_names(function.__code__)) - names
            names |= new
            beside = (function.__globals__.get(name) for name in new)
            waiting += [each for each in beside if getattr(each, "__module__", "") == function.__module__]
    return frozenset(names)


def code_names(code: CodeType) -> Iterator[str]:
    """The names in the code of a function and of the functions inside it."""
    yield from code.co_names
    for inner in code.co_consts:
        if isinstance(inner, CodeType):
            yield from code_names(inner)
