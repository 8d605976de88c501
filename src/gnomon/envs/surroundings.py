"""Process state that judging must not change: recorded before and after, and compared."""

from __future__ import annotations

import builtins
import decimal
import locale
import os
import random
import signal
import sys
import threading
import warnings

__all__ = ["LESSER", "changed_names", "surroundings"]

LESSER = frozenset({"loaded modules", "threads", "open files", "warning filters", "decimal context"})
"""State that may change for a good reason, such as a cache or a lazy import."""


def surroundings() -> dict[str, object]:
    """All compared state, by display name."""
    umask = os.umask(0o077)
    os.umask(umask)
    numpy = sys.modules.get("numpy.random")
    context = decimal.getcontext()
    return {
        "random state": random.getstate(),
        "numpy random state": repr(numpy.get_state()) if numpy is not None else None,
        "working directory": os.getcwd(),
        "environment variables": dict(os.environ),
        "recursion limit": sys.getrecursionlimit(),
        "integer digit limit": sys.get_int_max_str_digits(),
        "locale": locale.setlocale(locale.LC_ALL),
        "signal handlers": {number: signal.getsignal(number) for number in signal.valid_signals()},
        "alarm": signal.getitimer(signal.ITIMER_REAL)[0] > 0,
        "umask": umask,
        "built-in names": dict(vars(builtins)),
        "standard streams": (sys.stdin, sys.stdout, sys.stderr),
        "import path": list(sys.path),
        "decimal context": (context.prec, context.rounding),
        "warning filters": list(warnings.filters),
        "threads": threading.active_count(),
        "loaded modules": frozenset(sys.modules),
        "open files": frozenset(os.listdir("/proc/self/fd")) if os.path.isdir("/proc/self/fd") else None,
    }


def changed_names(before: dict[str, object], after: dict[str, object]) -> list[str]:
    """Names of the changed state. The variable `_` of `eval` is ignored."""
    return [name for name, value in after.items() if before.get(name) != value]
