"""Functions for repro scripts: repeat a call, repeat an axis, rebuild objects."""

from __future__ import annotations

import base64
import importlib
import importlib.util
import pickle
import sys
import zlib
from pathlib import Path
from typing import Any

from gnomon.audit.judging import Judgement, VerifierWorkers
from gnomon.audit.reach import MAX_TOKENS
from gnomon.audit.run import audit
from gnomon.audit.subject import LIMITS, Subject, VerdictLimits
from gnomon.types import Task
from gnomon.verifiers import Verifier

__all__ = ["found_again", "load", "replay", "unpack", "unpickle"]


def replay(verifier: Verifier, task: Task, reply: str, limits: VerdictLimits = LIMITS) -> Judgement:
    """One call, in a worker that can be killed."""
    subject = Subject(name=type(verifier).__name__, verifier=verifier, tasks=(task,), limits=limits)
    with VerifierWorkers(subject, workers=1) as workers:
        return workers.judge([(0, reply)])[0]


def found_again(subject: Subject, rule: str, *, seed: int, tasks: int, max_tokens: int = MAX_TOKENS) -> bool:
    """Whether an audit of the rule's axis still finds it."""
    report = audit(subject, axes=(rule.partition(".")[0],), seed=seed, tasks=tasks, max_tokens=max_tokens)
    return any(finding.rule == rule for finding in report.findings)


def load(name: str, file: str | None, kind: str) -> Any:
    """Load a class by its module or its file."""
    reach(name, file)
    find_module(name, file)
    member: Any = sys.modules[name]
    for part in kind.split("."):
        member = getattr(member, part)
    return member


def find_module(name: str, file: str | None) -> None:
    """Import a module by name, or from its file if it is not on the path."""
    if name != "__main__":
        try:
            importlib.import_module(name)
            return
        except ModuleNotFoundError:
            if file is None:
                raise
    if file is None:
        raise ModuleNotFoundError("it is not defined in a file; put it in a .py file")
    # A script is loaded under another name, so that its `__main__` block does not run.
    spec = importlib.util.spec_from_file_location("__mp_main__" if name == "__main__" else name, file)
    assert spec is not None and spec.loader is not None
    sys.modules[name] = sys.modules[spec.name] = module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)


def reach(name: str, file: str | None) -> None:
    """Add the folder of a dotted module to the path, if it is missing."""
    parts = name.split(".")
    if file is not None and Path(file).with_suffix("").parts[-len(parts) :] == tuple(parts):
        root = str(Path(file).parents[len(parts) - 1])
        if root not in sys.path:
            sys.path.append(root)


def unpack(text: str) -> str:
    """Decode a long reply that `pack` encoded."""
    return zlib.decompress(base64.b85decode(text)).decode("utf-8", "surrogatepass")


def unpickle(text: str, *modules: tuple[str, str | None]) -> Any:
    """Unpickle an object that has no short expression."""
    for name, file in modules:
        reach(name, file)
        find_module(name, file)
    return pickle.loads(base64.b85decode(text))
