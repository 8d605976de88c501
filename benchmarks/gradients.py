"""Error of the gradient of log-probabilities against float64 autograd: python benchmarks/gradients.py

A random head of a real vocabulary, in chunks as the learner computes it, beside the same formula over whole scores.
Every figure is the norm of the difference divided by the norm of the exact gradient. bfloat16 and
float16 round the inputs; the exact gradient is that of the rounded inputs, so a figure is the error of the computation
alone. Coefficients are about 1, so that nothing vanishes in float16; a learner scales its loss to that end.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from typing import NamedTuple

import torch
from torch import Tensor

from gnomon.models.projection import Projection, token_logp

__all__ = ["Line", "errors"]


class Line(NamedTuple):
    """A way to compute the gradient, and its errors."""

    path: str
    dtype: str
    hidden: float
    """Of the gradient of the hidden states."""
    head: float
    """Of the gradient of the vocabulary projection."""


def errors(tokens: int, vocabulary: int, size: int) -> Iterator[Line]:
    """One line for each dtype and path."""
    generator = torch.Generator().manual_seed(0)
    hidden, weight = torch.randn(tokens, size, generator=generator), torch.randn(vocabulary, size, generator=generator)
    target = torch.randint(vocabulary, (tokens,), generator=generator)
    kappa = torch.randn(tokens, generator=generator)
    for dtype in (torch.float32, torch.bfloat16, torch.float16):
        inputs = [(values * scale).to(dtype) for values, scale in ((hidden, 1.0), (weight, size**-0.5))]
        exact = whole([each.double() for each in inputs], target, kappa.double())
        for path, found in (
            ("chunks, sums in float32", chunked(inputs, target, kappa)),
            ("whole scores in the dtype", whole(inputs, target, kappa.to(dtype))),
        ):
            yield Line(path, str(dtype).removeprefix("torch."), *map(error, found, exact))


def chunked(inputs: list[Tensor], target: Tensor, kappa: Tensor) -> tuple[Tensor, ...]:
    hidden, weight = (values.clone().requires_grad_() for values in inputs)
    logp, _ = token_logp(hidden, Projection(weight, None, torch.float32), target, 1.0)
    return torch.autograd.grad((kappa * logp).sum(), (hidden, weight))


def whole(inputs: list[Tensor], target: Tensor, kappa: Tensor) -> tuple[Tensor, ...]:
    hidden, weight = (values.clone().requires_grad_() for values in inputs)
    logp = torch.log_softmax(hidden @ weight.t(), -1).gather(1, target[:, None])[:, 0]
    return torch.autograd.grad((kappa * logp).sum(), (hidden, weight))


def error(found: Tensor, exact: Tensor) -> float:
    return float((found.double() - exact).norm() / exact.norm())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, default in (("tokens", 96), ("vocabulary", 151_936), ("size", 64)):
        parser.add_argument(f"--{name}", type=int, default=default)
    chosen = parser.parse_args()
    print(f"{'path':28} {'dtype':10} {'hidden states':>14} {'projection':>11}")
    for line in errors(chosen.tokens, chosen.vocabulary, chosen.size):
        print(f"{line.path:28} {line.dtype:10} {line.hidden:14.1e} {line.head:11.1e}")


if __name__ == "__main__":
    main()
