"""Write the pages on objectives from the code: one page per row of the table, an index, and a chart over all rows.

    python docs/objectives.py                              # the pages, and cards.jsonl of the viewer
    python docs/objectives.py --plot docs/objectives.svg   # the chart too; needs matplotlib (the extra gnomon[bench])

A test holds the committed pages to what this writes, and the chart to the numbers that it was drawn from.
"""

from __future__ import annotations

import argparse
import functools
import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from gnomon.objectives import OPTIONS, TABLE, objective
from gnomon.theory import GRID, Card, card, curve
from gnomon.theory.card_text import chart, declarations, enumeration, length_words, number
from gnomon.theory.exact import LARGEST
from gnomon.viewer.objective import CARDS

DOCS = Path(__file__).parent

INDEX = """\
# What does each objective maximise?

Every row of `gnomon.objectives.TABLE`, as enumeration and derivation describe it. `python docs/objectives.py` writes
this page and the pages it links to; `gnomon objective NAME` prints the same card for any group size.

![w(p) of every row, relative to its value at one half](objectives.svg)

The expected gradient of one prompt is compared with ∇p, the gradient of its success rate. If E[g] = w(p)·∇p, the
objective maximises ∫w: expected reward if w is constant, log-likelihood of success if w = 1/p. So **w is the weight of
a prompt that the policy solves with probability p**. A learning rate makes up for its size, so the table shows its
shape, w(p)/w(½). Rows that leave the direction of ∇p have a cosine below one; w is then the part along ∇p. Below one
half, the row maximises something else, and no shape is shown.

**Target** is the expected gradient, derived from the distribution of one rollout without the code of the advantage. K
and F are the right and the wrong rollouts of a group of N, M ~ Bin(N−1, p). Some closed forms hold only for rewards 0
and 1, or for some group sizes; elsewhere the suite checks that the gradient is Σ π h ∇log π, with h the mean of the
row's own advantage.

**Sampler apart.** A sampler can differ a little from the policy: another kernel, precision or age of weights. With one
update per batch and no correction, the ratio to the sampler treats the difference as a movement of the policy. With
several updates, only a correction acts on the difference in the first. A card has a line for each case.

How each row is proven: `gnomon exact NAME`; on the policy that ships, with its engine and its learner,
`python benchmarks/audit.py`. How others divide: [normalisation](which-objective.md#how-the-loss-is-normalised). What
others call a row: [objective-names.md](objective-names.md). A row of your own:
[adding-an-objective.md](adding-an-objective.md). Two rows side by side: `gnomon objective NAME --compare OTHER`.

Groups of {group}, or the smallest that the row takes. *Cosine*: with ∇p, in the world of 15 answers. *Length*: how
right and wrong answers change in length where length earns nothing (`gnomon.theory.length_bias`).

| objective | target | w(.05)/w(½) | w(.95)/w(½) | cosine | length | source |
|---|---|---|---|---|---|---|
{rows}
"""

PAGE = """\
# {name}

{summary}

{facts}

## By enumeration

{enumerated}

## How strongly it pushes a prompt

```text
{chart}
```

## At the edges

{edges}
{options}
[All objectives](../objectives.md) · `gnomon objective {name}`
"""


def size_for(name: str) -> int:
    return max(4, objective(name).min_group)


def table(rows: Sequence[tuple[str, str]], head: tuple[str, str] = ("", "")) -> str:
    lines = [f"| {head[0]} | {head[1]} |", "|---|---|", *(f"| {cell(a)} | {cell(b)} |" for a, b in rows)]
    return "\n".join(lines)


def cell(text: str) -> str:
    return text.replace("|", "\\|")


def page(found: Card) -> str:
    facts = [
        ("target", found.expected_gradient),
        ("equation", found.equation),
        ("source", found.source),
        *([("differs", found.differs)] if found.differs else []),
        ("group", f"{found.group} on this page, at least {found.min_group}"),
        *declarations(found),
        *([("asks for", ", ".join(found.needs))] if found.needs else []),
        *([("comes with", recipe)] if (recipe := recipe_words(found.name)) else []),
    ]
    options = [
        (f"`{name}` = {option.default}", f"{option.text}; {option.values_in_words}")
        for name, option in found.options.items()
    ]
    return PAGE.format(
        name=found.name,
        summary=found.summary,
        facts=table(facts),
        enumerated=table(enumeration(found)),
        chart="\n".join(chart(found.curve)),
        edges=table(list(found.edges.items())),
        options=f"\n## Options\n\n{table(options, ('option', 'meaning'))}\n" if options else "",
    )


def recipe_words(name: str) -> str:
    """The settings elsewhere that a run of this objective has unless told otherwise."""
    return " ".join(f"`{key}={value:g}`" for key, value in OPTIONS[name].brings.items())


def index_row(found: Card) -> str:
    first, last = (shown(found.curve.relative[place]) for place in (0, -1))
    cosine = "—" if found.exact is None or math.isnan(found.exact.cosine) else f"{found.exact.cosine:.3f}"
    lengths = "" if found.length is None else length_words(found.length)
    lengths = lengths.replace(" where length earns nothing", "").replace(" answers become", "")
    link = f"[{found.name}](objectives/{found.name}.md)"
    cells = [link, found.expected_gradient, first, last, cosine, lengths, found.source]
    return "| " + " | ".join(map(cell, cells)) + " |"


def shown(value: float) -> str:
    return "—" if math.isnan(value) else number(value, 3)


@functools.cache
def card_of(name: str) -> Card:
    return card(name, size_for(name))


def viewer_card(name: str) -> dict[str, Any]:
    """The card as the viewer shows it: labels and texts, and the chart's numbers to four digits."""
    found = card_of(name)
    facts = [
        ("expected gradient", found.expected_gradient),
        ("equation", found.equation),
        ("source", found.source),
        ("differs from the source", found.differs),
        ("group", f"{found.group} here, at least {found.min_group}"),
        *declarations(found),
        ("needs", ", ".join(found.needs)),
    ]
    return {
        "name": found.name,
        "summary": found.summary,
        "facts": [[label, text] for label, text in facts if text],
        "enumerated": [list(line) for line in enumeration(found)],
        "edges": dict(found.edges),
        "options": [
            [name, f"{option.default:g}" if isinstance(option.default, float) else option.default, option.text,
             option.values_in_words]
            for name, option in found.options.items()
        ],
        "how": found.curve.how,
        "p": list(GRID),
        "relative": [float(f"{value:.4g}") if math.isfinite(value) else None for value in found.curve.relative],
    }  # fmt: skip


def pages() -> dict[str, str]:
    """Every page by its path under docs/."""
    cards = [card_of(name) for name in sorted(TABLE)]
    index = INDEX.format(group=4, rows="\n".join(map(index_row, cards)))
    return {"objectives.md": index, **{f"objectives/{found.name}.md": page(found) for found in cards}}


def relative_weights(name: str) -> tuple[float, ...]:
    """w(p)/w(½) of a row in the largest groups that can be enumerated."""
    row = objective(name)
    return curve(row, group=max(LARGEST, row.min_group)).relative


@functools.cache
def classes() -> list[tuple[list[str], tuple[float, ...]]]:
    """Rows by the shape of their w; the largest class first."""
    found: dict[str, tuple[list[str], tuple[float, ...]]] = {}
    for name in sorted(TABLE):
        relative = relative_weights(name)
        found.setdefault(numbers(relative), ([], relative))[0].append(name)
    return sorted(found.values(), key=lambda entry: (-len(entry[0]), entry[0]))


def numbers(relative: Sequence[float]) -> str:
    return " ".join(map(shown, relative))


def drawn() -> str:
    """What the chart is drawn from, a line for each class; the chart holds it as its description."""
    return "\n".join(f"{' '.join(names)}: {numbers(relative)}" for names, relative in classes())


NAMED = ("rloo", "grpo", "dapo", "maxrl", "pkpo", "pass_at_all", "reinforce_pp", "rft", "gepo", "tpo", "vapo")
"""Rows whose shapes the chart names. The other shapes are drawn in grey."""


def plot(path: Path) -> None:
    """One line for each shape of w. A shape of `NAMED` has a colour and is named by the rows that have it."""
    import matplotlib

    matplotlib.use("svg")
    import matplotlib.pyplot as plt

    plt.rcParams |= {"svg.hashsalt": "gnomon", "font.size": 8, "axes.spines.top": False, "axes.spines.right": False}
    figure, axes = plt.subplots(figsize=(11, 6), layout="constrained")
    axes.plot(GRID, [0.5 / p for p in GRID], color="black", linestyle=":", label="maximum likelihood, 1/p")
    axes.plot(GRID, [1.0] * len(GRID), color="black", linestyle="--", linewidth=0.8, label="expected reward, 1")
    shapes = [(names, relative) for names, relative in classes() if not all(map(math.isnan, relative))]
    named = [entry for entry in shapes if set(entry[0]) & set(NAMED)]
    for place, (_, relative) in enumerate(entry for entry in shapes if entry not in named):
        axes.plot(GRID, relative, color="0.8", linewidth=0.7, label=None if place else "other shapes")
    colours = plt.get_cmap("tab10").colors
    for place, (names, relative) in enumerate(sorted(named, key=lambda entry: -entry[1][0])):
        first = sorted(names, key=lambda name: (name not in NAMED, name))[:3]
        label = ", ".join(first) + (f" and {len(names) - 3} more" if len(names) > 3 else "")
        style = ("-", (0, (5, 1)))[place // len(colours) % 2]
        axes.plot(GRID, relative, marker="o", markersize=3, linewidth=1.6, linestyle=style, label=label,
                  color=colours[place % len(colours)])  # fmt: skip
    axes.set(
        yscale="log", ylim=(0.02, 14), xlabel="p, how often the policy solves the prompt",
        ylabel="w(p) / w(½), what the prompt weighs",
        title=f"What each objective maximises. Default options, groups of {LARGEST}",
    )  # fmt: skip
    axes.set_yticks([0.05, 0.1, 0.25, 0.5, 1, 2, 4, 10], labels=["1/20", "1/10", "1/4", "1/2", "1", "2", "4", "10"])
    axes.minorticks_off()
    axes.legend(loc="center left", bbox_to_anchor=(1.0, 0.5), frameon=False)
    figure.savefig(path, metadata={"Date": None, "Description": drawn()})
    path.write_text("\n".join(line.rstrip() for line in path.read_text().splitlines()) + "\n")


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--plot", type=Path, help="where to write the chart")
    chosen = arguments.parse_args()
    written = pages()
    (DOCS / "objectives").mkdir(exist_ok=True)
    for stale in (DOCS / "objectives").glob("*.md"):
        if f"objectives/{stale.name}" not in written:
            stale.unlink()
    for path, text in written.items():
        (DOCS / path).write_text(text)
    lines = [json.dumps(viewer_card(name), ensure_ascii=False) for name in sorted(TABLE)]
    CARDS.write_text("\n".join(lines) + "\n")
    if chosen.plot:
        plot(chosen.plot)


if __name__ == "__main__":
    main()
