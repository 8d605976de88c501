"""Runs in the environment of the trainer, without Gnomon: PYTHON serve.py FILE FUNCTION.

Writes the objectives of the file as one line of JSON. Then it reads one batch per line of standard input as JSON, and
writes one line of JSON: the values and the shape of the gradient of each parameter, or the reason why the trainer does
not offer it, or why that is no gradient, or the error of the trainer. A trainer whose functions
take padded tensors has them from the batch: `policy()`, `pad()` and `logp()`.
"""

from __future__ import annotations

import gc
import importlib.util
import json
import os
import sys
import traceback
from collections.abc import Callable
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any


@cache
def model_in(folder: str) -> Any:
    import torch
    from transformers import AutoModelForCausalLM

    return AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float64)


class Sent(SimpleNamespace):
    """A batch."""

    rows: list[Any]

    def policy(self) -> Any:
        """The model of the batch, in float64, without gradients."""
        model = model_in(self.model)
        model.zero_grad()
        return model

    def anchor(self) -> Any:
        """The reference model of a penalty."""
        return model_in(self.reference)

    def pad(self, field: str, **options: Any) -> Any:
        """[rows, longest] a field of the rows with a number per token, zeros behind. Args: options: of the tensor."""
        import torch

        values = [torch.tensor(getattr(row, field), **options) for row in self.rows]
        return torch.nn.utils.rnn.pad_sequence(values, batch_first=True)

    def logp(self, model: Any) -> Any:
        """[rows, longest] log-probability of every token of the completions, zeros behind."""
        import torch

        rows = []
        for row in self.rows:
            ids = torch.tensor([[*row.prompt, *row.completion]])
            scores = model(input_ids=ids).logits[0, len(row.prompt) - 1 : -1].log_softmax(-1)
            rows.append(scores.gather(-1, ids[0, len(row.prompt) :, None])[:, 0])
        return torch.nn.utils.rnn.pad_sequence(rows, batch_first=True)

    def old_logp(self, now: Any) -> Any:
        """[rows, longest] those with which they were sampled. Args: now: those of the policy, if it has not moved."""
        moved = bool(self.rows[0].behavior_logp)
        return self.pad("behavior_logp", dtype=now.dtype) if moved else now.detach()

    def of_loss_alone(self) -> None:
        """Refuse what a trainer does outside its loss and its advantages.

        Raises: NotImplementedError
        """
        if self.temperature != 1:
            raise NotImplementedError("not tested: the log-probabilities are the adapter's")
        if len({len(row.prompt) for row in self.rows}) > 1:
            raise NotImplementedError("not tested: the adapter computes rows one by one")


def answer(gradient: Callable[[Any], dict[str, Any]], body: dict[str, Any]) -> dict[str, Any]:
    try:
        rows = [SimpleNamespace(**row) for row in body["rows"]]
        gradients = gradient(Sent(**{**body, "rows": rows}))
    except NotImplementedError as why:
        return {"refused": str(why) or "the trainer does not offer it"}
    except Exception:
        return {"error": traceback.format_exc()}
    if not isinstance(gradients, dict):
        return {"wrong": f"gradient(batch) returned {type(gradients).__name__}"}
    values = {}
    for name, value in gradients.items():
        try:
            plain = as_tensor(value)
        except (TypeError, ValueError, RuntimeError):
            return {"wrong": f"the gradient of {name} is {type(value).__name__}"}
        values[name] = [list(plain.shape), plain.flatten().tolist()]
    return {"values": values}


def as_tensor(value: Any) -> Any:
    import torch

    return torch.as_tensor(value).detach().cpu().double()


def function_in(file: str, name: str) -> tuple[Any, dict[str, str]]:
    """The function of a file, and the objectives of the file."""
    spec = importlib.util.spec_from_file_location("trainer", file)
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    objectives = getattr(module, "OBJECTIVES", {})
    if not isinstance(objectives, dict) or not all(
        isinstance(word, str) for item in objectives.items() for word in item
    ):
        raise TypeError("OBJECTIVES must be a dictionary from the trainer's names to those of rows")
    if not callable(function := getattr(module, name, None)):
        raise TypeError(f"it has no function {name}")
    return function, objectives


def main() -> None:
    file, name = sys.argv[1:]
    out = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # What the trainer prints is not an answer.
    sys.path[0] = str(Path(file).resolve().parent)
    sys.argv = [file]
    try:
        gradient, objectives = function_in(file, name)
    except Exception:
        print(json.dumps({"error": traceback.format_exc()}), file=out, flush=True)
        return
    gc.freeze()  # Trainers collect garbage at every end; to search all that was imported would take a second.
    print(json.dumps({"objectives": objectives}), file=out, flush=True)
    for line in sys.stdin:
        print(json.dumps(answer(gradient, json.loads(line))), file=out, flush=True)


if __name__ == "__main__":
    main()
