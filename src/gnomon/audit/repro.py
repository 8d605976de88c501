"""What the scripts of findings call: a call judged again, an axis tried again, objects made again."""

from __future__ import annotations

import base64
import importlib
import importlib.util
import pickle
import sys
import zlib
from pathlib import Path
from typing import Any

from gnomon.audit.judging import Court, Ruling
from gnomon.audit.reach import MAX_TOKENS
from gnomon.audit.run import audit
from gnomon.audit.subject import Subject
from gnomon.types import Task
from gnomon.verifiers import Verifier

__all__ = ["found_again", "load", "replay", "unpacked", "unpickled"]


def replay(verifier: Verifier, task: Task, reply: str) -> Ruling:
    """One call, in a worker that can be killed."""
    subject = Subject(name=type(verifier).__name__, verifier=verifier, tasks=(task,))
    with Court(subject, workers=1) as court:
        return court.judge([(0, reply)])[0]


def found_again(subject: Subject, rule: str, *, seed: int, tasks: int, max_tokens: int = MAX_TOKENS) -> bool:
    """Whether an audit of the rule's axis still finds it."""
    report = audit(subject, axes=(rule.partition(".")[0],), seed=seed, tasks=tasks, max_tokens=max_tokens)
    return any(finding.rule == rule for finding in report.findings)


def load(name: str, file: str | None, kind: str) -> Any:
    """A class by its module, or by the file that holds it."""
    reach(name, file)
    find_module(name, file)
    found: Any = sys.modules[name]
    for part in kind.split("."):
        found = getattr(found, part)
    return found


def find_module(name: str, file: str | None) -> None:
    """Import a module; one that has no place on the path, from its file."""
    if name != "__main__":
        try:
            importlib.import_module(name)
            return
        except ModuleNotFoundError:
            if file is None:
                raise
    if file is None:
        raise ModuleNotFoundError("it is not defined in a file; put it in a .py file")
    # A script is loaded under another name, so that what it does when run is not done.
    spec = importlib.util.spec_from_file_location("__mp_main__" if name == "__main__" else name, file)
    assert spec is not None and spec.loader is not None
    sys.modules[name] = sys.modules[spec.name] = module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)


def reach(name: str, file: str | None) -> None:
    """Put the folder that a dotted module was imported from onto the path, where it is not on it."""
    parts = name.split(".")
    if file is not None and Path(file).with_suffix("").parts[-len(parts) :] == tuple(parts):
        root = str(Path(file).parents[len(parts) - 1])
        if root not in sys.path:
            sys.path.append(root)


def unpacked(text: str) -> str:
    """A long reply, as `packed` wrote it."""
    return zlib.decompress(base64.b85decode(text)).decode("utf-8", "surrogatepass")


def unpickled(text: str, *modules: tuple[str, str | None]) -> Any:
    """An object that no short expression makes again."""
    for name, file in modules:
        reach(name, file)
        find_module(name, file)
    return pickle.loads(base64.b85decode(text))
