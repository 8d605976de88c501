"""Train small real models on several tasks and seeds, and write what training added to docs/reference-curves.md.

    python benchmarks/reference_curves.py                     SmolLM2, every task and seed, under runs/curves
    python benchmarks/reference_curves.py --policy gemma      Gemma 3 270M, after: gnomon model gemma runs/gemma
    python benchmarks/reference_curves.py --tasks addition --seeds 0
    python benchmarks/reference_curves.py --page              the page of all finished runs, nothing is trained

A finished run is kept, and one that was stopped goes on where it stopped, so the command can be ended and repeated.
Seed 0 of every task comes first. On a CPU a second run of a task and seed has the same bytes. It needs the extras
smollm2 (or gemma), lora, reasoning-gym and study.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Mapping, Sequence
from itertools import product
from pathlib import Path
from typing import Any

import gnomon
from gnomon.comparison.gain import Sizes, gain
from gnomon.comparison.gain_card import Card, interval_text
from gnomon.store import RunReader

ROOT = Path(__file__).resolve().parent.parent
FILE = "benchmarks/curve_tasks.py"
BRIEFLY = "{prompt} Reply with the number only."


def gym(name: str, template: str = "{prompt}", **options: Any) -> dict[str, Any]:
    """Settings of an environment that wraps a data set of reasoning-gym."""
    own = {"name": name, "template": template, "hint": False, "options": options}
    return {"type": f"{FILE}:Gym", **own}


TASKS: Mapping[str, dict[str, Any]] = {
    "addition": {"type": f"{FILE}:Addition"},
    "chain_sum": gym("chain_sum", BRIEFLY, min_terms=2, max_terms=3, min_digits=1, max_digits=1),
    "products": gym("products", min_digits=1, max_digits=2),
    "gcd": gym("gcd", min_value=1, max_value=30),
    "letter_counting": gym("letter_counting", BRIEFLY, min_words=5, max_words=8),
    "lcm": gym("lcm", min_value=1, max_value=12),
}
MODELS: Mapping[str, dict[str, Any]] = {
    "smollm2": {"policy": "smollm2"},
    # A base model: four solved examples show it the form of an answer, and a reply is one line.
    "gemma": {
        "policy": "runs/gemma",
        "env": {"shots": 4},
        "max_tokens": 8,
        "rollout": {"temperature": 0.6, "stop": ["\n"]},
    },
}
"""What differs from `RECIPE`, by model."""
TITLES = {"smollm2": "SmolLM2", "gemma": "Gemma"}
RECIPE: dict[str, Any] = {
    "lora": 16,
    "prompts": 8,
    "group": 8,
    "max_tokens": 20,
    "steps": 10,
    "optim": {"micro_batch": 3072},
    "rollout": {"temperature": 0.6, "stop": []},
    "eval": {"tasks": 24, "samples": 8, "pass_at": [1, 8], "every": 1000},
}
"""As in `gnomon.train`, which chooses the learning rate. A reply ends with the turn of the chat."""
SEEDS = (0, 1, 2)
BEGIN, END = "<!-- rows -->", "<!-- end of the rows -->"
FINGERPRINTS = "Fingerprints of the runs:\n"


def train(model: str, task: str, seed: int, folder: Path, recipe: Mapping[str, Any]) -> None:
    """One run, unless it is finished."""
    if not (folder / "journal.db").exists():
        own = dict(MODELS[model])
        env = {**TASKS[task], **own.pop("env", {})}
        gnomon.train(env.pop("type"), env=env, run=folder, seed=seed, **{**recipe, **own}).close()
        return
    with RunReader(folder) as reader:
        if reader.complete:
            return
    gnomon.resume(folder).close()


def finished(place: Path) -> dict[tuple[str, str], list[Path]]:
    """The folders of finished runs by model and task, in the order of seeds."""
    found: dict[tuple[str, str], list[Path]] = {}
    for model, task, seed in product(MODELS, TASKS, SEEDS):
        folder = place / model / f"{task}-{seed}"
        if (folder / "journal.db").exists():
            with RunReader(folder) as reader:
                if reader.complete:
                    found.setdefault((model, task), []).append(folder)
    return found


def row(model: str, task: str, card: Card) -> str:
    """A line of the table."""
    gain, (base, *_, trained) = card.gain, card.gain.rows
    cells = [
        TITLES[model],
        task,
        ", ".join(card.runs),
        *(str(rates.pass_1) for rates in (base, trained)),
        *(str(rates.pass_k) for rates in (base, trained)),
        interval_text(gain.pass_1),
        interval_text(gain.beside_1.difference),
        f"{card.cost.cpu_seconds or 0:,.0f}",
    ]
    return f"| {' | '.join(cells)} |"


def written(page: str, rows: Sequence[str], below: Sequence[str]) -> str:
    """The page with these rows, and lines below them, in the place of the old ones. The text around them stays."""
    k = RECIPE["eval"]["samples"]
    head = ["model", "task", "seeds", "pass@1, base", "pass@1, trained", f"pass@{k}, base", f"pass@{k}, trained"]
    head += ["gain in pass@1", "gain over the best prompt", "processor seconds of training"]
    table = [f"| {' | '.join(head)} |", "|---" * len(head) + "|", *rows]
    text = "\n".join([BEGIN, "", *table, "", *below, "", END])
    before, _, rest = page.partition(BEGIN)
    return before + text + rest.partition(END)[2]


def plot(found: Mapping[tuple[str, str], Sequence[Path]], file: Path) -> None:
    """Fraction of right replies in every step of training, a line per seed, and held-out pass@1 at both ends."""
    import matplotlib

    matplotlib.use("svg")
    import matplotlib.pyplot as plt

    plt.rcParams |= {"svg.hashsalt": "gnomon", "svg.fonttype": "none", "font.size": 8}
    columns = 3
    height = -(-len(found) // columns)
    figure, axes = plt.subplots(height, columns, figsize=(7, 1.7 * height), layout="constrained", squeeze=False)
    for axis in list(axes.flat)[len(found) :]:
        axis.set_visible(False)
    for axis, ((model, task), runs) in zip(axes.flat, found.items(), strict=False):
        axis.set(title=f"{TITLES[model]}, {task}", ylim=(0, 1))
        axis.spines[["top", "right"]].set_visible(False)
        axis.locator_params(axis="x", integer=True)
        for run in runs:
            with RunReader(run) as reader:
                rates = [body["metrics"]["correct"] for body in reader.metrics()]
                ends = [record.body["pass_at"]["1"] for record in reader.evaluations()]
            (line,) = axis.plot(range(len(rates)), rates, linewidth=1)
            values = [end["value"] for end in (ends[0], ends[-1])]
            both = bars((ends[0], ends[-1]))
            axis.errorbar([0, len(rates)], values, both, fmt="o", markersize=3, color=line.get_color())
    figure.savefig(file, metadata={"Date": None})


def bars(ends: Sequence[Mapping[str, float]]) -> list[list[float]]:
    """How far intervals reach below and above their values. The lower end around 0 may be rounded up."""
    below = [max(0.0, end["value"] - end["low"]) for end in ends]
    return [below, [end["high"] - end["value"] for end in ends]]


def publish(place: Path, page: Path) -> None:
    """Write the page and its plot from the finished runs."""
    found = finished(place)
    rows, prints = [], []
    for (model, task), runs in found.items():
        rows.append(row(model, task, gain(runs, Sizes(), tell=print)))
        for run in runs:
            with RunReader(run) as reader:
                seed = reader.genesis["config"]["seed"]
                prints.append(f"- {TITLES[model]}, {task}, seed {seed}: `{reader.fingerprint}`")
    if prints:
        plot(found, page.with_suffix(".svg"))
        figure = f"![Right replies by step, with held-out pass@1 at both ends]({page.stem}.svg)"
        prints = [figure, "", FINGERPRINTS, *prints]
    page.write_text(written(page.read_text("utf-8"), rows, prints), encoding="utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--policy", default="smollm2", choices=list(MODELS))
    parser.add_argument("--tasks", nargs="+", default=list(TASKS), choices=list(TASKS))
    parser.add_argument("--seeds", nargs="+", type=int, default=list(SEEDS), choices=SEEDS)
    parser.add_argument("--folder", type=Path, default=Path("runs/curves"))
    parser.add_argument("--page", action="store_true", help="write the page and train nothing")
    options = parser.parse_args()
    place = options.folder.absolute()
    os.chdir(ROOT)
    for seed, task in () if options.page else product(options.seeds, options.tasks):
        train(options.policy, task, seed, place / options.policy / f"{task}-{seed}", RECIPE)
    publish(place, ROOT / "docs" / "reference-curves.md")


if __name__ == "__main__":
    main()
