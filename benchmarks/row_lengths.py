"""Memory of a gradient for rows of equal and of unequal lengths: python benchmarks/row_lengths.py

A random model, so no download. Half of the tokens of the unequal rows are in one row, so rows times the longest row is
far more than there are tokens. Every figure is of a process of its own: how far the resident memory rose above that of
the loaded learner, with all tokens in one micro-batch and with the default micro-batch of 3,072 tokens.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path

from head import folder, measured

TOKENS = (1024, 4096, 16384)
SHORT, EVEN = 32, 256
"""Tokens of a short row beside the long one, and of rows of equal lengths."""


def shapes(tokens: int) -> dict[str, list[int]]:
    """Lengths of rows that have so many tokens."""
    return {"equal": [EVEN] * (tokens // EVEN), "unequal": [tokens // 2] + [SHORT] * (tokens // 2 // SHORT)}


def main() -> None:
    if len(sys.argv) > 1:
        _, gib = measured(Path(sys.argv[1]), json.loads(sys.argv[2]), 0, False, "float32", int(sys.argv[3]))
        print(gib)
        return
    print(f"{'tokens':>7} {'rows':>8} {'rows x longest':>15} {'one micro-batch':>16} {'default':>9}")
    with tempfile.TemporaryDirectory() as scratch:
        at = folder(Path(scratch), vocabulary=8192, layers=4, hidden=256)
        for tokens in TOKENS:
            for name, lengths in shapes(tokens).items():
                found = []
                for micro_batch in (2 * tokens, 3072):
                    command = [sys.executable, __file__, str(at), json.dumps(lengths), str(micro_batch)]
                    done = subprocess.run(command, capture_output=True, text=True, check=True)
                    found.append(float(done.stdout))
                area = len(lengths) * max(lengths)
                print(f"{tokens:7} {name:>8} {area:15,} {found[0]:12.2f} GiB {found[1]:5.2f} GiB", flush=True)


if __name__ == "__main__":
    main()
