"""Train on shipped environments, or by a script that takes folder, steps and seed, and say what was gained.

    python benchmarks/demo.py --envs countdown --seeds 0 1 2 --plot docs/demo.svg
    python benchmarks/demo.py --envs examples/addition.py --seeds 0 1 2 --plot docs/llm.svg 30
    python benchmarks/demo.py --envs count_shapes read_clock maze --seeds 0 1 2 --plot docs/sight.svg

The environments of the last line are drawn. For each, a policy that sees is made first, in the same folder.

Prints one line per run: the locked baseline and the last held-out pass@1 with their 95 % intervals, the gain, and the
wall-clock seconds of the whole command, start-up and evaluations included. Runs stay under --folder.
"""

from __future__ import annotations

import argparse
import json
import os
import shlex
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from gnomon_lab.tiny_policy.sight import LESSONS, train_sighted

SIGHTED = ["steps=24", "prompts=8", "group=8", "rollout.max_tokens=24", "eval.every=6", "eval.tasks=96"]
"""Settings of a run on drawings."""


def run(env: str, seed: int, folder: Path, words: list[str]) -> dict[str, Any]:
    """One run as a user starts it; its facts as `gnomon show --json` tells them."""
    gnomon = str(Path(sys.executable).parent / "gnomon")
    if env in LESSONS:
        lessons, policy = LESSONS[env], folder.parent / f"{env}-policy"
        if not (policy / "model.safetensors").exists():
            train_sighted(policy, lessons)
        words = [f"policy={policy}", *SIGHTED, *lessons.words, *words]
        words = list({word.partition("=")[0]: word for word in words}.values())  # The last of a setting counts.
    command = [gnomon, "train", env, f"run={folder}", f"seed={seed}", *words]
    if env.endswith(".py"):
        command = [sys.executable, env, str(folder), *words, str(seed)]
    began = time.monotonic()
    done = subprocess.run(command, stdout=subprocess.DEVNULL)
    seconds = time.monotonic() - began
    if done.returncode:
        raise SystemExit(f"{shlex.join(command)} ended with {done.returncode}")
    shown = subprocess.run([gnomon, "show", str(folder), "--json"], capture_output=True, text=True, check=True)
    facts: dict[str, Any] = json.loads(shown.stdout)
    return facts | {"env": env, "seed": seed, "wall": seconds}


def line(facts: dict[str, Any]) -> str:
    first, last = (facts[name]["pass_at"]["1"] for name in ("baseline", "held_out"))
    rate = "{value:.3f} [{low:.3f}, {high:.3f}]"
    return (
        f"{facts['env']:<11} seed {facts['seed']}  {rate.format(**first)} -> {rate.format(**last)}  "
        f"gain {last['value'] - first['value']:+.3f}  length {facts['baseline']['length']:.1f} -> "
        f"{facts['held_out']['length']:.1f}  {facts['steps']} steps, {facts['wall']:.0f} s, "
        f"gap {facts['max_logp_mismatch']:g}  {facts['fingerprint'][:12]}"
    )


def plot(results: list[dict[str, Any]], path: Path) -> None:
    """Held-out pass@1 with its interval, and mean length of the training rollouts, over steps."""
    import matplotlib

    matplotlib.use("svg")
    import matplotlib.pyplot as plt

    plt.rcParams |= {"svg.hashsalt": "gnomon", "font.size": 9, "axes.spines.top": False, "axes.spines.right": False}
    figure, (left, right) = plt.subplots(1, 2, figsize=(8, 2.9), layout="constrained")
    several = len({facts["env"] for facts in results}) > 1
    colours: dict[str, str] = {}
    for facts in results:
        points = [(e["step"], e["pass_at"]["1"]) for e in facts["evaluations"]]
        steps = [step for step, _ in points]
        name = facts["env"] if several else f"seed {facts['seed']}"
        label = "" if name in colours else name
        style = {"marker": "o", "markersize": 3, "label": label, "color": colours.get(name)}
        (drawn,) = left.plot(steps, [i["value"] for _, i in points], **style)
        colours[name] = drawn.get_color()
        low, high = ([i[side] for _, i in points] for side in ("low", "high"))
        left.fill_between(steps, low, high, alpha=0.12, color=drawn.get_color(), linewidth=0)
        right.plot(facts["curve"]["length"], color=drawn.get_color(), linewidth=1)
    left.set(title="held-out pass@1, 95 % interval", xlabel="step", ylim=(0, 1))
    right.set(title="tokens per rollout", xlabel="step", ylim=(0, None))
    left.legend(frameon=False, loc="lower right")
    figure.savefig(path, metadata={"Date": None})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--envs", nargs="+", default=["countdown", "char_count", "arithmetic", "scramble"])
    parser.add_argument("--seeds", nargs="+", type=int, default=[0])
    parser.add_argument("--folder", type=Path, default=Path("runs/demo-bench"))
    parser.add_argument("--plot", type=Path)
    parser.add_argument("--json", type=Path, help="write every run's facts there")
    options, words = parser.parse_known_args()
    print(f"{os.cpu_count()} cores, load before: {os.getloadavg()[0]:.2f}", flush=True)
    results = []
    for env in options.envs:
        for seed in options.seeds:
            results.append(run(env, seed, options.folder / f"{Path(env).stem}-{seed}", words))
            print(line(results[-1]), flush=True)
    if options.json:
        options.json.write_text(json.dumps(results, indent=1))
    if options.plot:
        plot(results, options.plot)


if __name__ == "__main__":
    main()
