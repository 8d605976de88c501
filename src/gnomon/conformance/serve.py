"""Runs in the environment of the trainer, without Gnomon: PYTHON serve.py FILE FUNCTION.

Reads one batch per line of standard input as JSON, and writes one line of JSON: the values and the shape of the
gradient of each parameter, or the reason why the trainer does not offer it, or its error.
"""

from __future__ import annotations

import gc
import importlib.util
import json
import os
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any


def answer(gradient: Callable[[Any], dict[str, Any]], body: dict[str, Any]) -> dict[str, Any]:
    try:
        rows = [SimpleNamespace(**row) for row in body["rows"]]
        values = gradient(SimpleNamespace(**{**body, "rows": rows}))
        plain = {name: value.detach().cpu().double() for name, value in values.items()}
        return {"values": {name: [list(value.shape), value.flatten().tolist()] for name, value in plain.items()}}
    except NotImplementedError as why:
        return {"refused": str(why)}
    except Exception:
        return {"error": traceback.format_exc()}


def main() -> None:
    file, function = sys.argv[1:]
    out = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # What the trainer prints is not an answer.
    sys.path[0] = str(Path(file).resolve().parent)
    spec = importlib.util.spec_from_file_location("trainer", file)
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    gradient = getattr(module, function)
    gc.freeze()  # Trainers collect garbage at every end; to search all that was imported would take a second.
    print(json.dumps(getattr(module, "OBJECTIVES", {})), file=out, flush=True)
    for line in sys.stdin:
        print(json.dumps(answer(gradient, json.loads(line))), file=out, flush=True)


if __name__ == "__main__":
    main()
