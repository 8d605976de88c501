"""Plot the score of a judge and the truth by step: python docs/lab/judged_figure.py STUDIES, the folder of the studies.

A line for each seed of judged-reward. Makes judged.svg beside this file.
"""

import sys
from pathlib import Path
from statistics import fmean

import matplotlib

matplotlib.use("svg")
import matplotlib.pyplot as plt

from gnomon.comparison.measures import pass_at_1
from gnomon.store import RunReader


def main(studies: Path) -> None:
    plt.rcParams |= {"svg.hashsalt": "gnomon", "font.size": 8, "axes.spines.top": False, "axes.spines.right": False}
    figure, (left, right) = plt.subplots(1, 2, figsize=(8, 2.4), layout="constrained")
    for colour, seed in enumerate(sorted((studies / "judged-reward" / "kept" / "judge").iterdir())):
        with RunReader(seed / "run") as reader:
            steps = range(reader.steps)
            scores = [fmean(each.body["reward"] for each in reader.records("rollout", step)) for step in steps]
            truth = [(each.step, pass_at_1(each.body)) for each in reader.evaluations("truth")]
        left.plot(scores, color=f"C{colour}", linewidth=1)
        right.plot(*zip(*truth, strict=True), color=f"C{colour}", linewidth=1, label=f"seed {seed.name}")
    left.set(xlabel="step", ylabel="score of the judge", ylim=(0.35, 0.5))
    right.set(xlabel="step", ylabel="held-out accuracy", ylim=(0.2, 0.35))
    right.legend(frameon=False, fontsize=7, ncols=3, loc="upper left")
    figure.savefig(Path(__file__).with_name("judged.svg"), metadata={"Date": None})


if __name__ == "__main__":
    main(Path(sys.argv[1]))
