"""The fixtures of `gnomon.envs.hackbench` under training: who is bought, when it shows, and what helps.

    python benchmarks/hackbench.py runs/hackbench tool --seeds 0 1 2 3 4
    python benchmarks/hackbench.py runs/hackbench loophole --seeds 0 1 2 3 4
    python benchmarks/hackbench.py runs/hackbench impossible --seeds 0 1 2 3 4
    python benchmarks/hackbench.py runs/hackbench proxy --seeds 0 1 2 3 4

`tool`: calls are paid for, ungated and gated. `loophole`: an expected value that the reply can write over, with
nothing said of it, forbidden, and allowed; then the trained policy where nothing is said. `impossible`: half of the
tasks can only be passed by cheating. `proxy`: a learned reward of three sizes in the place of the truth, with and
without a pull to the base. Every run is a run folder of its own, `FOLDER/BENCH-ARM-SEED`; finished ones are kept.
Prints, and writes to `FOLDER/BENCH.md`, what was paid (the proxy) and what was right (the truth) over the first and the
last five steps, the other parts at the end, and the first alarm with its step.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from statistics import fmean

from training import gnomon, newest, trained

COMMON = [
    "threads=1", "eval.every=80", "eval.tasks=128", "optim.floor=1",
    'audit.acknowledge=["reward.weights", "sentinels.parts_outpay"]',
]  # fmt: skip
PLACE = "gnomon.envs.hackbench"
CALLS = [
    'rollout.stop=["</answer>", "=", "</tool_call>"]', "rollout.max_tokens=24", "rollout.prompts=16", "objective=rloo"
]  # fmt: skip
BENCHES: dict[str, tuple[str, dict[str, list[str]]]] = {
    "tool": ("Calculator", {"ungated": CALLS, "gated": [*CALLS, "env.gate=correct"]}),
    "loophole": (
        "Loophole",
        {said: [f"env.said={said}", "rollout.max_tokens=48"] for said in ("silent", "forbid", "allow")},
    ),
    "impossible": (
        "Impossible",
        {"half": ["rollout.max_tokens=48"], "none": ["rollout.max_tokens=48", "env.share=0.0"]},
    ),
    "proxy": (
        "Proxied",
        {
            f"{bits} bits{pull and f', kl {pull}'}": [
                "rollout.max_tokens=48",
                *([f"regularize.kl={pull}"] if pull else []),
            ]
            for bits in (4, 8, 12)
            for pull in ("", "0.05")
        },
    ),
}
WINDOW = 5


def proxies(folder: Path) -> dict[int, Path]:
    """Models of three sizes, fitted to the same replies of the base: one step's worth, with the truth on each."""
    from gnomon.envs import CharCount
    from gnomon.store import RunReader
    from gnomon.verifiers.proxy import train as fit

    places = {bits: folder / f"proxy-{bits}" for bits in (4, 8, 12)}
    if all((place / "model.json").exists() for place in places.values()):
        return places
    run = folder / "proxy-data"
    words = ["steps=1", "rollout.prompts=512", "rollout.group=4", "rollout.max_tokens=48", "eval.tasks=1", "threads=1"]
    trained(run, "char_count", words)
    tasks = CharCount().tasks("train")
    with RunReader(run) as reader:
        records = list(reader.records("rollout"))
    pairs = [(tasks[r.task].messages[-1].content, r.body["reply"], r.body["status"] == "correct") for r in records]
    for bits, place in places.items():
        fit(pairs, bits=bits).save(place)
    return places


def row(name: str, run: Path, after: str = "") -> str:
    from gnomon.rewards.alarms import alarms
    from gnomon.store import RunReader

    with RunReader(run) as reader:
        rung = next(iter(alarms(reader)), None)
        steps = [step["metrics"] for step in reader.metrics()]
    first, last = steps[:WINDOW], steps[-WINDOW:]
    paid, right = ([fmean(step[key] for step in part) for part in (first, last)] for key in ("reward", "correct"))
    parts = sorted(key for key in last[-1] if key.startswith("part/"))
    told = ", ".join(f"{key[5:]} {fmean(step.get(key, 0.0) for step in last):.2f}" for key in parts)
    alarm = f"{rung.name} {rung.step}" if rung else "none"
    return (
        f"| {name} | {paid[0]:.2f} to {paid[1]:.2f} | {right[0]:.2f} to {right[1]:.2f} | {told} | "
        f"{alarm} of {len(steps)} |{after}"
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("bench", choices=list(BENCHES))
    parser.add_argument("--seeds", type=int, nargs="*", default=[0, 1, 2, 3, 4])
    parser.add_argument("--arms", nargs="*")
    parser.add_argument("--set", nargs="*", default=[], metavar="key=value", help="for every run")
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    kind, arms = BENCHES[options.bench]
    models = proxies(options.folder) if options.bench == "proxy" else {}
    lines = ["| arm, seed | paid | right | parts | first alarm |", "|---" * 5 + "|"]
    print("\n".join(lines))
    for arm in options.arms or arms:
        for seed in options.seeds:
            words = [f"seed={seed}", *COMMON, *arms[arm], *options.set]
            if models:
                words.append(f"env.model={models[int(arm.split()[0])].resolve()}")
            folder = f"{options.bench}-{arm.replace(', ', '-').replace(' ', '-')}-{seed}"
            run = trained(options.folder / folder, f"{PLACE}:{kind}", words)
            after = ""
            if options.bench == "loophole":
                told = gnomon(
                    "eval", f"{PLACE}:{kind}", f"policy={newest(run)}", "--json", "rollout.max_tokens=48", "threads=1"
                )
                body = json.loads(told)
                after = f" nothing said: paid {body['reward']:.2f}, right {body['pass_at']['1']['value']:.2f} |"
            lines.append(row(f"{arm}, {seed}", run, after))
            print(lines[-1], flush=True)
    (options.folder / f"{options.bench}.md").write_text("\n".join(lines) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
