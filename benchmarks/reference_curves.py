"""Train a small real model on several tasks and seeds, and write what training added to docs/reference-curves.md.

    python benchmarks/reference_curves.py                     every task and seed, under runs/curves
    python benchmarks/reference_curves.py --tasks addition --seeds 0
    python benchmarks/reference_curves.py --page              the page of the finished runs, nothing is trained

A finished run is kept, and one that was stopped goes on where it stopped, so the command can be ended and repeated.
Seed 0 of every task comes first. On a CPU a second run of a task and seed has the same bytes. It needs the extras
smollm2, reasoning-gym and study.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import gnomon
from gnomon.comparison.gain import Wanted, gain
from gnomon.comparison.gain_card import Card, shown
from gnomon.store import RunReader

ROOT = Path(__file__).resolve().parent.parent
FILE = "benchmarks/curve_tasks.py"
NUMBER = "{prompt} Reply with the number only."


def gym(name: str, template: str = NUMBER, pattern: str = r"-?\d+", **options: Any) -> dict[str, Any]:
    """Settings of an environment that wraps a data set of reasoning-gym."""
    own = {"name": name, "template": template, "hint": False, "pattern": pattern, "options": options}
    return {"type": f"{FILE}:Gym", **own}


TASKS: Mapping[str, dict[str, Any]] = {
    "addition": {"type": f"{FILE}:Addition"},
    "chain_sum": gym("chain_sum", min_terms=2, max_terms=3, min_digits=1, max_digits=1),
    "products": gym("products", "{prompt}", min_digits=1, max_digits=1),
    "gcd": gym("gcd", "{prompt}", min_value=1, max_value=20),
    "letter_counting": gym("letter_counting", min_words=1, max_words=2),
    "leg_counting": gym("leg_counting", min_animals=1, max_animals=1, max_instances=5),
}
RECIPE: dict[str, Any] = {
    "policy": "smollm2",
    "lora": 16,
    "lr": 3e-4,
    "prompts": 8,
    "group": 8,
    "max_tokens": 20,
    "steps": 10,
    "rollout": {"temperature": 0.6, "stop": []},
    "eval": {"tasks": 24, "samples": 8, "pass_at": [1, 8], "every": 1000},
}
"""As of `gnomon.train`. A reply ends with the turn of the chat."""
SEEDS = (0, 1, 2)
BEGIN, END = "<!-- rows -->", "<!-- end of the rows -->"
FINGERPRINTS = "Fingerprints of the runs:\n"


def train(task: str, seed: int, folder: Path, recipe: Mapping[str, Any]) -> None:
    """One run, unless it is finished."""
    if not (folder / "journal.db").exists():
        env = dict(TASKS[task])
        gnomon.train(env.pop("type"), env=env, run=folder, seed=seed, **recipe).close()
        return
    with RunReader(folder) as reader:
        if reader.complete:
            return
    gnomon.resume(folder).close()


def finished(task: str, place: Path) -> list[Path]:
    """The folders of the finished runs of a task, by seed."""
    found = []
    for folder in (place / f"{task}-{seed}" for seed in SEEDS):
        if (folder / "journal.db").exists():
            with RunReader(folder) as reader:
                found += [folder] if reader.complete else []
    return found


def row(task: str, runs: Sequence[Path], card: Card | None) -> str:
    """A line of the table."""
    if card is None:
        return f"| {task} | not run yet |" + "  |" * 8
    gain, (base, *_, trained) = card.gain, card.gain.rows
    cells = [
        task,
        ", ".join(card.runs),
        *(str(rates.pass_1) for rates in (base, trained)),
        *(str(rates.pass_k) for rates in (base, trained)),
        shown(gain.pass_1),
        shown(gain.beside_1.difference),
        "" if card.format is None else shown(card.format.form),
        f"{card.cost.cpu_seconds or 0:,.0f}",
    ]
    return f"| {' | '.join(cells)} |"


def written(page: str, rows: Sequence[str], below: Sequence[str]) -> str:
    """The page with these rows, and lines below them, in the place of the old ones. The text around them stays."""
    k = RECIPE["eval"]["samples"]
    head = ["task", "seeds", "pass@1, base", "pass@1, trained", f"pass@{k}, base", f"pass@{k}, trained"]
    head += ["gain in pass@1", "gain over the best prompt", "of the gain, format", "processor seconds of training"]
    table = [f"| {' | '.join(head)} |", "|---" * len(head) + "|", *rows]
    text = "\n".join([BEGIN, "", *table, "", *below, "", END])
    before, _, rest = page.partition(BEGIN)
    return before + text + rest.partition(END)[2]


def plot(tasks: Mapping[str, Sequence[Path]], file: Path) -> None:
    """Fraction of right replies in every step of training, a line per seed, and held-out pass@1 at both ends."""
    import matplotlib

    matplotlib.use("svg")
    import matplotlib.pyplot as plt

    plt.rcParams |= {"svg.hashsalt": "gnomon", "svg.fonttype": "none", "font.size": 8}
    columns = 3
    height = -(-len(tasks) // columns)
    figure, axes = plt.subplots(height, columns, figsize=(7, 1.7 * height), layout="constrained", squeeze=False)
    for place, axis in zip([*tasks, *[""] * (height * columns - len(tasks))], axes.flat, strict=True):
        axis.set(title=place, ylim=(0, 1), visible=bool(place))
        axis.spines[["top", "right"]].set_visible(False)
        for run in tasks.get(place, ()):
            with RunReader(run) as reader:
                rates = [body["metrics"]["correct"] for body in reader.metrics()]
                ends = [record.body["pass_at"]["1"] for record in reader.evaluations()]
            (line,) = axis.plot(range(len(rates)), rates, linewidth=1)
            values = [end["value"] for end in (ends[0], ends[-1])]
            bars = [[end["value"] - end["low"], end["high"] - end["value"]] for end in (ends[0], ends[-1])]
            axis.errorbar(
                [0, len(rates)], values, list(zip(*bars, strict=True)), fmt="o", markersize=3, color=line.get_color()
            )
    figure.savefig(file, metadata={"Date": None})


def fingerprints(task: str, runs: Sequence[Path]) -> Iterator[str]:
    for run in runs:
        with RunReader(run) as reader:
            yield f"- {task}, seed {reader.genesis['config']['seed']}: `{reader.fingerprint}`"


def publish(place: Path, page: Path) -> None:
    """Write the page and its plot from the finished runs."""
    runs = {task: finished(task, place) for task in TASKS}
    cards = {task: gain(found, Wanted(), tell=print) if found else None for task, found in runs.items()}
    rows = [row(task, runs[task], card) for task, card in cards.items()]
    prints = [line for task, found in runs.items() for line in fingerprints(task, found)]
    if prints:
        plot(runs, page.with_suffix(".svg"))
        prints = [
            f"![Right replies by step, with held-out pass@1 at both ends]({page.stem}.svg)",
            "",
            FINGERPRINTS,
            *prints,
        ]
    page.write_text(written(page.read_text("utf-8"), rows, prints), encoding="utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tasks", nargs="+", default=list(TASKS), choices=list(TASKS))
    parser.add_argument("--seeds", nargs="+", type=int, default=list(SEEDS), choices=SEEDS)
    parser.add_argument("--folder", type=Path, default=Path("runs/curves"))
    parser.add_argument("--page", action="store_true", help="write the page and train nothing")
    options = parser.parse_args()
    place = options.folder.absolute()
    os.chdir(ROOT)
    for seed in () if options.page else options.seeds:
        for task in options.tasks:
            train(task, seed, place / f"{task}-{seed}", RECIPE)
    publish(place, ROOT / "docs" / "reference-curves.md")


if __name__ == "__main__":
    main()
