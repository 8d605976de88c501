"""Which of reasoning-gym's scorers can be trusted with a policy: all of them, tried one after the other, offline.

    pip install -e ".[reasoning-gym]" && python benchmarks/reasoning_gym_audit.py --state runs/reasoning-gym
    python benchmarks/reasoning_gym_audit.py --state runs/reasoning-gym --write        # the page and the table

Each data set is tried in a process of its own, without network, in an empty directory, with limits on memory and time;
its scorer is called in killable workers below that (`reasoning_gym_probes.py`). What was tried has a file in the state
folder and is not tried again. What is tried:

    oracle     the data set's own answer must earn 1
    lazy       replies that are never an answer: none, empty, blank, a word, the question, a list of everything …
    stranger   another item's answer, where the two differ
    canary     Python in the answer that writes a file
    hostile    texts that have frozen or crashed judges; a scorer must say something, in time
    seeds      item i + 1 of a seed against item i of the next seed
    hash       the same items under another PYTHONHASHSEED
    audit      `gnomon audit` along two axes, for scorers that nothing above refuses
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterable
from importlib.metadata import version
from pathlib import Path
from typing import Any

from reasoning_gym_probes import ITEMS, MEMORY, SEED, names

ROOT = Path(__file__).parents[1]
WALL = 300
"""Seconds that one data set may take."""
FREE = 0.01
"""A lazy reply may earn this much on average; reasoning-gym pays it for trying."""


def confined(name: str, what: str, hash_seed: str, scratch: str, out: Path) -> str:
    """Try one data set in a process of its own. Returns: why there is no result; empty for one."""

    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_AS, (2 * MEMORY, 2 * MEMORY))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))

    command = [sys.executable, str(Path(__file__).resolve().with_name("reasoning_gym_probes.py")), name, what, str(out)]
    alone = ["unshare", "--net", "--map-root-user"] if offline() else []
    env = {
        "PATH": os.environ["PATH"], "HOME": scratch, "PYTHONHASHSEED": hash_seed, "OMP_NUM_THREADS": "1",
        "OPENBLAS_NUM_THREADS": "1", "MPLCONFIGDIR": scratch,
        "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT / "benchmarks")]),
    }  # fmt: skip
    process = subprocess.Popen(
        [*alone, *command], cwd=scratch, env=env, preexec_fn=limit, start_new_session=True,
        stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
    )  # fmt: skip
    try:
        said = process.communicate(timeout=WALL)[1].decode(errors="replace").strip()
        return "" if out.exists() else (said.splitlines() or [f"ended with {process.returncode}"])[-1]
    except subprocess.TimeoutExpired:
        return f"not over after {WALL} s"
    finally:
        if process.poll() is None:
            os.killpg(process.pid, 9)
            process.wait()


def offline() -> bool:
    return shutil.which("unshare") is not None and not subprocess.call(["unshare", "--net", "--map-root-user", "true"])


def tried(name: str) -> dict[str, Any]:
    """What is known of one data set after it was tried under two hash seeds."""
    with tempfile.TemporaryDirectory() as scratch:
        out, other = Path(scratch, "out.json"), Path(scratch, "other.json")
        failed = confined(name, "all", "1", scratch, out)
        result: dict[str, Any] = {"failed": failed} if failed else json.loads(out.read_text())
        failed = confined(name, "digest", "2", scratch, other)
        result["hash"] = bool(failed) or json.loads(other.read_text()) != result.get("digest", [])
    return result


def asked(name: str) -> dict[str, Any]:
    """What the audit says of one data set."""
    with tempfile.TemporaryDirectory() as scratch:
        out = Path(scratch, "out.json")
        failed = confined(name, "audit", "1", scratch, out)
        return {"failed": failed, "blocking": {}, "lazy": []} if failed else json.loads(out.read_text())


def keep(file: Path, result: dict[str, Any]) -> None:
    """Write a result whole or not at all."""
    file.parent.mkdir(parents=True, exist_ok=True)
    partial = file.with_suffix(".partial")
    partial.write_text(json.dumps(result, indent=1))
    partial.rename(file)


def known(state: Path, name: str) -> dict[str, Any]:
    """All that is known of a data set."""
    found: dict[str, Any] = json.loads((state / "tried" / f"{name}.json").read_text())
    more = state / "audited" / f"{name}.json"
    return {**found, "audit": json.loads(more.read_text())} if more.exists() else found


def findings(found: dict[str, Any]) -> dict[str, str]:
    """The rules that a data set breaks, each with what was seen."""
    if found.get("failed"):
        return {"no result": found["failed"]}
    rules: dict[str, str] = {}
    if found["executed"]:
        rules["executes text"] = f"`{found['executed'][0].strip()}` was run"
    slow = [form for form, value in found["hostile"].items() if str(value).startswith(("exceeded", "died"))]
    if slow:
        rules["hangs"] = ", ".join(slow)
    raised = [f"{form}: {value[7:]}" for form, value in found["hostile"].items() if str(value).startswith("raised")]
    raised += [f"{reply}: {row['broken'][7:]}" for reply, row in found["lazy"].items() if row["broken"]]
    if raised:
        rules["raises"] = f"{len(raised)} texts, such as {raised[0]}"
    if found["oracle"]["known"] < found["oracle"]["of"]:
        rules["no answer"] = f"{found['oracle']['of'] - found['oracle']['known']} of {found['oracle']['of']} items"
    if found["oracle"]["refused"]:
        rules["refuses its own"] = f"{found['oracle']['refused']} of {found['oracle']['known']} answers"
    free = {reply: row for reply, row in found["lazy"].items() if row["full"] > 0}
    if free or (accepted := [form for form, value in found["hostile"].items() if value == 1.0]):
        rules["pays all for nothing"] = ", ".join(free or accepted)
    if found["stranger"]["pairs"] and found["stranger"]["full"] > 0.5 * found["stranger"]["pairs"]:
        rules["accepts a stranger's"] = f"{found['stranger']['full']} of {found['stranger']['pairs']}"
    worst = worst_lazy(found)
    if worst[1] > FREE:
        rules["pays something for nothing"] = f"{worst[1]:.3f} for {worst[0]}"
    if found["crosses"] >= 0.5:
        rules["crosses seeds"] = f"{found['crosses']:.0%} of the items"
    if found["hash"]:
        rules["depends on the hash seed"] = "other items under another PYTHONHASHSEED"
    return rules | found.get("audit", {}).get("blocking", {})


def worst_lazy(found: dict[str, Any]) -> tuple[str, float]:
    reply, row = max(found.get("lazy", {}).items(), key=lambda pair: pair[1]["mean"], default=("", {"mean": 0.0}))
    return reply, row["mean"]


SPOILS = {
    "no result", "executes text", "hangs", "raises", "no answer", "refuses its own", "pays all for nothing",
    "accepts a stranger's", "correctness.hedge_accepted", "exploit.all_numbers", "exploit.chant", "exploit.format_only",
    "exploit.forged_verdict", "exploit.garbage", "exploit.hedge", "exploit.hostile_text", "exploit.order_to_judge",
    "exploit.prompt_echo", "exploit.words",
}  # fmt: skip
"""Rules that a scorer which can be trusted does not break."""


def trust(rules: Iterable[str]) -> str:
    """`yes`, `exact` (once a score below 1 counts as 0), or `no`."""
    broken = set(rules)
    return "no" if broken & SPOILS else "exact" if "pays something for nothing" in broken else "yes"


def write(state: Path) -> None:
    """The page for people and the table for the adapter."""
    results = {path.stem: known(state, path.stem) for path in sorted((state / "tried").glob("*.json"))}
    release = version("reasoning-gym")
    rows, table = [], {}
    for name, found in results.items():
        rules, (reply, worst) = findings(found), worst_lazy(found)
        table[name] = {
            "trusted": trust(rules), "findings": rules, "worst_lazy": {"reply": reply, "reward": round(worst, 4)},
            "executes": bool(found.get("executed")), "crosses_seeds": found.get("crosses", 0.0) >= 0.5,
            "hash_seed": found["hash"],
        }  # fmt: skip
        shown = ", ".join(rule for rule in rules if rule != "crosses seeds") or "none"
        lazy = f"{worst:.2f} ({reply})" if worst > FREE else "0"
        lazy = lazy.replace("|", "\\|")
        marks = ["yes" if table[name][key] else "no" for key in ("executes", "crosses_seeds", "hash_seed")]
        rows.append(f"| {name} | {table[name]['trusted']} | {shown} | {lazy} | {' | '.join(marks)} |")
    data = {"package": "reasoning-gym", "version": release, "seed": SEED, "items": ITEMS, "tasks": table}
    target = ROOT / "src/gnomon/envs/data/reasoning_gym_trust.json"
    target.parent.mkdir(exist_ok=True)
    target.write_text(json.dumps(data, indent=1, sort_keys=True) + "\n")
    (ROOT / "docs/reasoning-gym-trust.md").write_text(page(release, table, rows))


def page(release: str, table: dict[str, Any], rows: list[str]) -> str:
    count = Counter(row["trusted"] for row in table.values())
    rules = Counter(rule for row in table.values() for rule in row["findings"])
    summary = "\n".join(f"| {rule} | {rules[rule]} |" for rule, _ in rules.most_common())
    return PAGE.format(
        release=release, total=len(table), items=ITEMS, seed=SEED, yes=count["yes"], exact=count["exact"],
        no=count["no"], summary=summary, rows="\n".join(rows),
    )  # fmt: skip


PAGE = """# Which of reasoning-gym's scorers to trust

`benchmarks/reasoning_gym_audit.py` tests the scorers of the {total} data sets of reasoning-gym {release}, on {items}
items of seed {seed} each. A scorer gets the text in a reply's slot. "Nothing" is a reply that is not an answer: no
slot, an empty slot, a word, the question itself, a list of every number.

| trusted | data sets | meaning |
|---|---|---|
| yes | {yes} | no fault was found in the scorer |
| exact | {exact} | trusted once a score below 1 counts as 0: a lazy reply earns part of the reward |
| no | {no} | a fault that a policy can use, or that stops a run |

| rule | data sets |
|---|---|
{summary}

- *executes text*: Python in the answer was run. Score such a data set only where nothing can be harmed.
- *hangs*, *raises*: a text makes the scorer go on for over two seconds of processor time, or raise.
- *no answer*, *refuses its own*: some items have no answer to check with, or the item's own answer does not earn 1
  (one of over 4,096 characters does not fit the slot).
- *pays all for nothing*, *pays something for nothing*: a reply that is no answer earns 1, or over 0.01 on average.
- *accepts a stranger's*: the answer of another item, which differs, earns 1 in more than half of the pairs.
- *crosses seeds*: item i + 1 of a seed is item i of the next. Take seeds far apart: 42 and 43 share nearly everything.
- *depends on the hash seed*: the items are others under another PYTHONHASHSEED.
- Rules with a point are those of [the audit](audit.md), which was asked along two axes where nothing above says no. A
  hedge, a list or noise that earns everything says no; a constant that is often right is told and says nothing about
  the scorer, and neither does an answer that may be right after all.

| data set | trusted | findings besides crossing seeds | worst lazy reward | executes text | crosses seeds | hash seed |
|---|---|---|---|---|---|---|
{rows}
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--state", type=Path, required=True, help="folder of results; what is there is not tried again")
    parser.add_argument("--only", nargs="*", default=[], help="data sets to try")
    parser.add_argument("--write", action="store_true", help="write the page and the table from the results")
    options = parser.parse_args()
    chosen = [] if options.write else options.only or names()
    for place, name in enumerate(chosen, 1):
        for folder, ask in (("tried", tried), ("audited", asked)):
            file = options.state / folder / f"{name}.json"
            if file.exists() or (folder == "audited" and trust(findings(known(options.state, name))) == "no"):
                continue
            began = time.monotonic()
            keep(file, ask(name))
            rules, spent = findings(known(options.state, name)), time.monotonic() - began
            print(f"{place:3}/{len(chosen)}  {name:24} {folder:7}  {spent:5.1f} s  {', '.join(rules)}", flush=True)
    if options.write:
        write(options.state)


if __name__ == "__main__":
    main()
