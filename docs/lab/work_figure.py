"""Plot work that appears, by step, from the folders of the studies: python docs/lab/work_figure.py STUDIES

A column for each model, a colour for each token limit, a line for each seed. Makes work.svg beside this file.
"""

import sys
from collections.abc import Callable
from pathlib import Path
from statistics import fmean

import matplotlib

matplotlib.use("svg")
import matplotlib.pyplot as plt

from gnomon.store import RunReader
from gnomon_lab.working import lengths, share_worked

STUDIES = {
    "work-appears": "tiny, 0.8 M",
    "smollm2-work-appears": "SmolLM2, 135 M",
    "gemma-work-appears": "Gemma 3, 270 M",
}


def right(reader: RunReader) -> list[float]:
    return [
        fmean(each.body["status"] == "correct" for each in reader.records("rollout", step))
        for step in range(reader.steps)
    ]


def shown(reader: RunReader) -> list[float]:
    return [share_worked(reader, step) for step in range(reader.steps)]


ROWS: dict[str, Callable[[RunReader], list[float]]] = {
    "tokens of a reply": lengths,
    "replies with a right\nintermediate result": shown,
    "right replies": right,
}


def curves(arm: Path, measure: Callable[[RunReader], list[float]]) -> list[list[float]]:
    """One for each seed."""
    result = []
    for run in sorted(arm.iterdir()):
        with RunReader(run) as reader:
            result.append(measure(reader))
    return result


def main(studies: Path) -> None:
    plt.rcParams |= {"svg.hashsalt": "gnomon", "font.size": 8, "axes.spines.top": False, "axes.spines.right": False}
    figure, axes = plt.subplots(len(ROWS), len(STUDIES), figsize=(8, 5.5), layout="constrained", sharex="col")
    for axis, name in zip(axes[:, 0], ROWS, strict=True):
        axis.set_ylabel(name)
    for column, (study, title) in zip(axes.T, STUDIES.items(), strict=True):
        arms = sorted((studies / study / "runs").iterdir(), key=lambda arm: int(arm.name.split()[0]))
        for axis, measure in zip(column, ROWS.values(), strict=True):
            for colour, arm in enumerate(arms):
                for number, curve in enumerate(curves(arm, measure)):
                    label = "" if number else f"limit of {arm.name}"
                    axis.plot(curve, label=label, color=f"C{colour}", linewidth=1)
            axis.set_ylim(0, 1.4 * axis.get_ylim()[1] if measure is lengths else 1)
        column[0].set_title(title)
        column[0].legend(frameon=False, fontsize=7, loc="upper left")
        column[-1].set_xlabel("step")
    figure.savefig(Path(__file__).with_name("work.svg"), metadata={"Date": None})


if __name__ == "__main__":
    main(Path(sys.argv[1]))
