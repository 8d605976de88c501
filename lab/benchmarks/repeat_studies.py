"""Repeat studies by their command in fresh clones of this repository, and compare the bytes of what they write.

    python lab/benchmarks/repeat_studies.py                                    # two exact studies and one that trains
    python lab/benchmarks/repeat_studies.py char-count-rises --clones 2
    python lab/benchmarks/repeat_studies.py my_study.py --clones 2

A clone holds the last commit. In each one, `gnomon study NAME` runs every study from its first run. `result.json`,
`page.md` and the plots are compared with those that ship, and with those of the first clone. What the shipped files
need to be equal is in docs/lab/studies.md. Exits with 1 where a file differs.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path

from gnomon_lab.studies import load
from gnomon_lab.studies.command import source_of
from gnomon_lab.studies.listing import LIBRARY, RESULTS
from gnomon_lab.studies.page import page_text

ROOT = Path(__file__).resolve().parents[2]
DEFAULT = ("update-scale", "difficulty-bias", "char-count-rises")
Files = Mapping[str, bytes]


def clone(folder: Path) -> Path:
    """The last commit of this repository in a folder of its own."""
    subprocess.run(["git", "clone", "--quiet", str(ROOT), str(folder)], check=True)
    return folder


def repeated(clone: Path, name: str, jobs: int) -> Files:
    """What a study writes in a clone, by file name."""
    folder = clone / "studies" / Path(name).stem.replace("_", "-")
    words = [sys.executable, "-m", "gnomon", "study", name, "--folder", str(folder), "--jobs", str(jobs)]
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([str(clone / "src"), str(clone / "lab" / "src")])}
    done = subprocess.run(words, cwd=clone, env=env, capture_output=True, text=True)
    if not (folder / "result.json").exists():
        raise SystemExit(f"{name} ended without a result\n{done.stdout}{done.stderr}")
    return {
        path.name: path.read_bytes() for path in [folder / "result.json", folder / "page.md", *folder.glob("*.svg")]
    }


def shipped(name: str) -> Files | None:
    """What ships of a study, in the form in which its command writes it; None for a study without a shipped result."""
    path = RESULTS / f"{name}.json"
    if source_of(name).parent != LIBRARY or not path.exists():
        return None
    result = json.loads(path.read_text())
    del result["date"]
    plots = sorted((ROOT / "docs" / "lab" / "studies").glob(f"{name}-[0-9]*.svg"))
    return {
        "result.json": (json.dumps(result, indent=2, sort_keys=True) + "\n").encode(),
        "page.md": page_text(load(source_of(name)), result).encode(),
        **{plot.name.replace(name, "claim"): plot.read_bytes() for plot in plots},
    }


def different(files: Files, others: Files) -> list[str]:
    """Names of the files that are not equal, or that only one side has."""
    return sorted(name for name in files.keys() | others.keys() if files.get(name) != others.get(name))


def compared(name: str, clones: list[Path], jobs: int) -> bool:
    """Run a study in every clone and print which files are equal. Returns: whether all are."""
    good, first, ships = True, None, shipped(name)
    for number, folder in enumerate(clones, 1):
        began = time.monotonic()
        files = repeated(folder, str(Path(name).resolve()) if name.endswith(".py") else name, jobs)
        known = {"the shipped files": ships, "clone 1": first}
        for what, others in known.items():
            if others is not None:
                wrong = different(files, others)
                good &= not wrong
                verdict = f"{', '.join(wrong)} DIFFER from" if wrong else f"{len(files)} files equal to"
                print(f"{name}, clone {number}, {time.monotonic() - began:.0f} s: {verdict} {what}", flush=True)
        first = first or files
    return good


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", default=DEFAULT)
    parser.add_argument("--clones", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=2)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="gnomon-repeat-") as home:
        clones = [clone(Path(home) / str(number)) for number in range(options.clones)]
        return 0 if all([compared(name, clones, options.jobs) for name in options.names]) else 1


if __name__ == "__main__":
    sys.exit(main())
