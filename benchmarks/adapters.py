"""Hold environments of other libraries, really installed, to `gnomon check`, and play each twice over.

    python benchmarks/adapters.py FOLDER [--only rg,gem,textarena,verifiers] [--write docs/results/detection.md]

FOLDER gets a venv for each library that is not installed beside this package, since their pins conflict. The table
is printed; `--write` puts it between the markers of a page.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from importlib.metadata import version
from importlib.resources import files
from pathlib import Path
from typing import Any

from gnomon.envs.base import Env
from gnomon.envs.check import check_env
from gnomon.envs.episodes import Played, play
from gnomon.errors import GnomonError
from gnomon.integrations.environments import Gem, ReasoningGym, TextArena, VerifiersEnv
from gnomon.integrations.environments.hosting import HOSTS
from gnomon.keys import Key

PACKAGES = {
    "gem": ["gem-llm==0.1.0", "datasets", "pylatexenc"],
    "textarena": ["textarena==0.7.4"],
    "verifiers": ["verifiers==0.4.0", "textarena==0.7.4"],
}
TASKS = 60
RG = (
    "ab,acre,aiw,arc_1d,base_conversion,basic_arithmetic,bf,binary_alternation,bitwise_arithmetic,caesar_cipher,"
    "calendar_arithmetic,chain_sum,count_bits,count_primes,course_schedule,cryptarithm,decimal_arithmetic,"
    "decimal_chain_sum,dice,family_relationships,gcd,leg_counting,letter_counting,number_sorting,puzzle24,"
    "game_of_life_halting"
)
"""Most are trusted by the audit; two are not, to be refused."""
DIGITS = tuple(map(str, range(10)))
MOVES: dict[str, dict[str, tuple[str, ...]]] = {
    "gem": {
        "game:GuessTheNumber-v0-easy": tuple(map(str, range(1, 11))),
        "game:Mastermind-v0-easy": tuple(f"{a} {b}" for a in range(1, 7) for b in range(1, 7) if a != b),
        "game:FifteenPuzzle-v0-easy": ("up", "down", "left", "right"),
        "rg:leg_counting": DIGITS,
    },
    "textarena": {
        "KuhnPoker-v0": ("check", "bet", "call", "fold"),
        "TicTacToe-v0": DIGITS[:9],
        "GuessTheNumber-v0": tuple(map(str, range(1, 21))),
        "ConnectFour-v0": tuple(f"col {column}" for column in range(7)),
        "Nim-v0": tuple(f"{pile} {count}" for pile in range(3) for count in range(1, 4)),
        "TowerOfHanoi-v0": ("A C", "A B", "C B", "B A", "B C", "C A"),
    },
    "verifiers": {"textarena": tuple(f"[{letter}]" for letter in "abcdefghijklmnopqrstuvwxyz")},
}
"""Moves that a random player draws from, some of them illegal in most positions."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--only", default="rg,gem,textarena,verifiers")
    parser.add_argument("--rg", default=RG, help="data sets of reasoning-gym, with commas between them")
    parser.add_argument("--write", type=Path)
    given = parser.parse_args()
    words(given.folder)
    found = []
    for kind, name, make in subjects(given.folder.resolve(), given.only.split(","), given.rg.split(",")):
        found.append(row(kind, name, make))
        print(line(found[-1]), flush=True)
    alike: dict[tuple[str, ...], list[dict[str, Any]]] = {}
    for each in found:
        alike.setdefault((each["package"], each["check"], each["play"]), []).append(each)
    text = "\n".join([HEAD, *(line(*rows) for rows in alike.values())])
    passed = {kind: sum(r["passed"] for r in found if r["kind"] == kind) for kind in sorted({r["kind"] for r in found})}
    print(json.dumps(passed))
    if given.write:
        page = given.write.read_text()
        given.write.write_text(re.sub(r"(<!-- table -->\n).*?(<!-- end -->)", rf"\1{text}\n\2", page, flags=re.S))


HEAD = "| environment | package | `gnomon check` | a random game, played twice |\n|---|---|---|---|"


def line(*rows: dict[str, Any]) -> str:
    """A line of the table for environments with one result."""
    names = ", ".join(f"`{row['kind']}:{row['name']}`" for row in rows)
    return f"| {names} | {rows[0]['package']} | {rows[0]['check']} | {rows[0]['play']} |"


def subjects(folder: Path, kinds: list[str], names: list[str]) -> Iterator[tuple[str, str, Any]]:
    if "rg" in kinds:
        for name in names:
            yield "rg", name, lambda name=name: ReasoningGym(name=name)
    for kind, games in MOVES.items():
        if kind not in kinds:
            continue
        python = str(venv(folder / kind, PACKAGES[kind]))
        for name in games:
            yield kind, name, lambda kind=kind, name=name, python=python: hosted(kind, name, python)


def hosted(kind: str, name: str, python: str) -> Env:
    match kind:
        case "gem":
            return Gem(name=name, python=python, turns=1 if name.startswith("rg:") else 50)
        case "textarena":
            return TextArena(name=name, python=python)
        case _:
            return VerifiersEnv(name=name, python=python, options={"game": "Hangman-v0"}, low=-1.0, turns=40)


def venv(folder: Path, packages: list[str]) -> Path:
    """The interpreter of a venv with these packages, made when it is not there."""
    python = folder / "bin" / "python"
    if not python.exists():
        subprocess.run([sys.executable, "-m", "venv", folder], check=True)
        subprocess.run([python, "-m", "pip", "install", "-q", *packages], check=True)
    return python


def words(folder: Path) -> None:
    """A word list where NLTK looks for its own, which has to be downloaded: this package's list of English words."""
    text = files("gnomon.envs").joinpath("words.txt").read_text()
    place = folder.resolve() / "nltk" / "corpora" / "words"
    place.mkdir(parents=True, exist_ok=True)
    for name in ("en", "en-basic"):
        lines = [word for word in text.splitlines() if not word.startswith("#")]
        place.joinpath(name).write_text("\n".join(lines) + "\n")
    os.environ["NLTK_DATA"] = str(place.parents[1])


def row(kind: str, name: str, make: Any) -> dict[str, Any]:
    began = time.perf_counter()
    found = {"kind": kind, "name": name, "passed": False, "check": "", "play": "–"}
    found["package"] = (
        f"reasoning-gym {version('reasoning-gym')}" if kind == "rg" else PACKAGES[kind][0].replace("==", " ")
    )
    try:
        env = make()
        report = check_env(env, tasks=20 if kind == "verifiers" else TASKS)
        failed = [finding for finding in report.findings if not finding.passed]
        done = sum(finding.passed and not finding.skipped for finding in report.findings)
        found["passed"] = not failed
        found["check"] = f"{done} passed" if not failed else f"**{failed[0].name}**: {failed[0].detail[:160]}"
        if kind != "rg":
            found["play"] = twice(env, MOVES[kind][name])
    except GnomonError as error:
        found["check"] = f"refused, {error.code}: {error.what[:160]}"
    found["check"] = found["check"].replace("|", "\\|").replace("\n", " ")
    found["seconds"] = time.perf_counter() - began
    return found


def twice(env: Any, moves: tuple[str, ...]) -> str:
    """Five episodes in which every player moves at random, and the same again in processes that were started anew."""
    first = [at_random(env, moves, number) for number in range(5)]
    for host in HOSTS.values():
        host.close()
    HOSTS.clear()
    again = [at_random(env, moves, number) for number in range(5)]
    replies = sum(len(episode.replies) for episode in first)
    players = len(first[0].verdicts)
    best = max(verdict.reward for episode in first for verdict in episode.verdicts)
    same = "equal" if first == again else "**different**"
    return f"{same}: 5 episodes, {replies} replies, {players} player(s), best reward {best:g}"


def at_random(env: Any, moves: tuple[str, ...], number: int) -> Played:
    rng = Key(0).at("adapters", number=number).random()
    wrap = "<answer>{}</answer>" if env.slot else "{}"
    return play(env, env.tasks("train")[number], lambda episode, turn: wrap.format(rng.choice(moves)))


if __name__ == "__main__":
    main()
