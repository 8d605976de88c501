"""Which of reasoning-gym's scorers can be trusted with a policy: all of them, tried one after the other, offline.

    pip install -e ".[reasoning-gym]" && python benchmarks/reasoning_gym_audit.py --state runs/reasoning-gym
    python benchmarks/reasoning_gym_audit.py --state runs/reasoning-gym --write        # the page and the table

Each data set is tried in a process of its own, without network, in an empty directory, with limits on memory and time;
its scorer is called in killable workers below that. A data set that was tried has a file in the state folder and is not
tried again. What is tried:

    oracle     the data set's own answer must earn 1
    lazy       replies that are never an answer: none, empty, blank, a word, the question, a list of everything …
    stranger   another item's answer, where the two differ
    canary     Python in the answer that writes a file
    hostile    texts that have frozen or crashed judges; a scorer must say something, in time
    seeds      item i + 1 of a seed against item i of the next seed
    hash       the same items and scores under another PYTHONHASHSEED
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
from hashlib import blake2b
from importlib.metadata import version
from itertools import product
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
ITEMS = 20
SEED = 7
SECONDS = 2.0
"""Of processor time that one score may take."""
AXES = ("correctness", "exploit")
"""Of `gnomon audit`, for scorers that are not refused already; what the other axes ask is asked here in another way."""
WALL = 300
"""Seconds that one data set may take."""
MEMORY = 4 * 2**30
FREE = 0.01
"""A lazy reply may earn this much on average; reasoning-gym pays it for trying."""
NOTHING = (None, "", " ", "zzz", "I do not know.", "<answer>", "None", "[]", "{}", "0" * 200)
EVERYTHING = ("0, " + ", ".join(map(str, range(1, 2001))), "True or False, yes or no, A, B, C, D or E")
SHAPES = (
    "{0}", "[[{0}]]", "({0})", "1+{0}", "{0}\n", "x*{0}", '{{"a": {0}}}', "f(x)={0}", "ans={0}", "[{0}, {0}]",
)  # fmt: skip
CALLS = ("__import__('os').system('touch {0}')", "__import__('os').mkdir('{0}')")


def names() -> list[str]:
    """Every data set that can be made without naming others."""
    from reasoning_gym.factory import DATASETS

    return sorted(set(DATASETS) - {"composite"})


def items(name: str, seed: int, count: int) -> list[dict[str, Any]]:
    from reasoning_gym.factory import create_dataset

    data = create_dataset(name, seed=seed, size=count)
    return [data[index] for index in range(count)]


def digest(entries: Iterable[dict[str, Any]]) -> list[str]:
    """One short hash for every item's question and answer."""
    told = (repr((entry["question"], entry["answer"])).encode("utf-8", "surrogatepass") for entry in entries)
    return [blake2b(text, digest_size=8).hexdigest() for text in told]


def task_of(entry: dict[str, Any], place: int) -> Any:
    from gnomon.types import Message, Task

    message = Message(role="user", content=entry["question"])
    return Task(id=str(place), messages=(message,), answer=entry["answer"], info={"metadata": entry["metadata"]})


class Scorer:
    """A data set's own scorer, in a worker that can be killed."""

    def __init__(self, name: str) -> None:
        from gnomon.verifiers import Pool
        from gnomon.verifiers.foreign import GymScore

        verify = GymScore(dataset=name).verify
        self.pool = Pool(verify, workers=1, seconds=SECONDS, memory=MEMORY, output=2**22, retries=0)

    def __call__(self, asked: list[tuple[Any, str | None]]) -> list[float | str]:
        """The score of every (item, answer), or what became of it."""
        from gnomon.verifiers import Died, Exceeded, Raised

        found: list[float | str] = []
        jobs = [(task, "" if answer is None else f"<answer>{answer}</answer>") for task, answer in asked]
        for outcome in self.pool.map(jobs):
            match outcome:
                case Raised(error):
                    found.append(f"raised {error[:200]}")
                case Exceeded(resource):
                    found.append(f"exceeded {resource}")
                case Died():
                    found.append("died")
                case _:
                    found.append(outcome.value.reward)
        return found


def mean(values: Iterable[float | str]) -> float:
    kept = [value for value in values if isinstance(value, float)]
    return sum(kept) / len(kept) if kept else 0.0


def short(text: str | None) -> str:
    return "no slot" if text is None else "every number" if text is EVERYTHING[0] else repr(text)[:60]


def lazy(scores: Scorer, entries: list[dict[str, Any]], tasks: list[Any]) -> dict[str, Any]:
    """What replies earn that nobody would call an answer: mean over the items, and how often all of it."""
    table = {}
    for text in (*NOTHING, *EVERYTHING, "the question"):
        asked = [entry["question"] if text == "the question" else text for entry in entries]
        # What stands in the item as its answer is one, however it looks.
        chosen = [(t, a) for t, a, e in zip(tasks, asked, entries, strict=True) if a is None or a != e["answer"]]
        found = scores(chosen)
        full = sum(value == 1.0 for value in found) / max(1, len(found))
        table[short(text)] = {"mean": mean(found), "full": full, "broken": first_broken(found)}
    return table


def first_broken(found: list[float | str]) -> str:
    return next((value for value in found if isinstance(value, str)), "")


def canary(scores: Scorer, tasks: list[Any]) -> list[str]:
    """The answers whose code was run."""
    answers = {f"canary{n}": (call, shape) for n, (call, shape) in enumerate(product(CALLS, SHAPES))}
    texts = {file: shape.format(call.format(file)) for file, (call, shape) in answers.items()}
    scores([(task, text) for text in texts.values() for task in tasks[:3]])
    return [text for file, text in texts.items() if Path(file).exists()]


def try_one(name: str) -> dict[str, Any]:
    """Everything that is tried on one data set."""
    from gnomon.verifiers.hostile import hostile

    began = time.process_time()
    entries = items(name, SEED, ITEMS + 1)
    spent = (time.process_time() - began) / len(entries)
    scores = Scorer(name)
    tasks = [task_of(entry, place) for place, entry in enumerate(entries)]
    known = [(task, entry["answer"]) for task, entry in zip(tasks, entries, strict=True) if entry["answer"] is not None]
    oracle = scores(known)
    pairs = [
        (tasks[i], entries[(i + step) % ITEMS]["answer"])
        for i in range(ITEMS)
        for step in (1, 2)
        if entries[(i + step) % ITEMS]["answer"] not in (None, entries[i]["answer"])
    ]
    stranger = scores(pairs)
    around = scores([(task, f"The answer is {answer}.") for task, answer in known])
    texts = [(entry.name, entry.text) for entry in hostile() if len(entry.text) <= 100_000]
    told = dict(zip([form for form, _ in texts], scores([(tasks[0], text) for _, text in texts]), strict=True))
    ahead = digest(items(name, SEED + 1, ITEMS))
    return {
        "seconds_per_item": spent,
        "oracle": {"known": len(known), "of": len(entries), "mean": mean(oracle), "broken": first_broken(oracle),
                   "refused": sum(value != 1.0 for value in oracle)},
        "lazy": lazy(scores, entries[:ITEMS], tasks[:ITEMS]),
        "stranger": {"pairs": len(pairs), "mean": mean(stranger), "full": sum(v == 1.0 for v in stranger)},
        "around": mean(around),
        "executed": canary(scores, tasks),
        "hostile": {form: value for form, value in told.items() if isinstance(value, str) or value == 1.0},
        "crosses": sum(a == b for a, b in zip(digest(entries[1:]), ahead, strict=True)) / ITEMS,
        "digest": digest(entries),
        "answers": Counter(str(entry["answer"]) for entry in entries).most_common(1)[0][1] / len(entries),
    }  # fmt: skip


def audited(name: str) -> dict[str, Any]:
    """What `gnomon audit` says of a data set's scorer, along the axes of `AXES`."""
    from gnomon.audit import audit, subject_of
    from gnomon.verifiers.foreign import GymScore

    report = audit(subject_of(GymScore(dataset=name), count=ITEMS, name=name), axes=AXES)
    return {
        "receipt": report.receipt(),
        "blocking": {finding.rule: finding.what for finding in report.blocking},
        "lazy": report.tables.get("lazy", []),
    }


def confined(name: str, what: str, hash_seed: str, scratch: str, out: Path) -> str:
    """Try one data set in a process of its own. Returns: why there is no result; empty for one."""

    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_AS, (2 * MEMORY, 2 * MEMORY))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))

    command = [sys.executable, str(Path(__file__).resolve()), "--one", name, "--what", what, "--out", str(out)]
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


SPOILS = {"no result", "executes text", "hangs", "raises", "no answer", "refuses its own", "pays all for nothing",
          "accepts a stranger's"}  # fmt: skip
"""Rules that a scorer which can be trusted does not break."""


def trust(rules: Iterable[str]) -> str:
    """`yes`, `exact` (once a score below 1 counts as 0), or `no`."""
    broken = set(rules)
    if broken & SPOILS or any(rule.startswith("exploit.") for rule in broken):
        return "no"
    return "exact" if "pays something for nothing" in broken else "yes"


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

reasoning-gym {release}: its {total} data sets, {items} items each of seed {seed}, as found by
`benchmarks/reasoning_gym_audit.py`, which wrote this page. What stands in a reply's slot is scored; "nothing" is a
reply that is no answer: no slot, an empty one, a word, the question itself, a list of every number.

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
- *no answer*, *refuses its own*: some items have no answer to check with, or the item's own answer does not earn 1.
- *pays all for nothing*, *pays something for nothing*: a reply that is no answer earns 1, or over 0.01 on average.
- *accepts a stranger's*: the answer of another item, which differs, earns 1 in more than half of the pairs.
- *crosses seeds*: item i + 1 of a seed is item i of the next. Take seeds far apart: 42 and 43 share nearly everything.
- *depends on the hash seed*: the items are others under another PYTHONHASHSEED.

| data set | trusted | findings besides crossing seeds | worst lazy reward | executes text | crosses seeds | hash seed |
|---|---|---|---|---|---|---|
{rows}
"""


WHAT = {"all": try_one, "digest": lambda name: digest(items(name, SEED, ITEMS + 1)), "audit": audited}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--state", type=Path, help="folder of results; what is there is not tried again")
    parser.add_argument("--only", nargs="*", default=[], help="data sets to try")
    parser.add_argument("--write", action="store_true", help="write the page and the table from the results")
    parser.add_argument("--one", help=argparse.SUPPRESS)
    parser.add_argument("--what", help=argparse.SUPPRESS)
    parser.add_argument("--out", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        found = WHAT[options.what](options.one)
        options.out.write_text(json.dumps(found))
        return
    if options.state is None:
        parser.error("--state FOLDER")
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
