"""The page of a study: its question, table and plots. The same result gives the same bytes."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from gnomon_lab.studies.design import Study, numbers_of
from gnomon_lab.studies.outcome import verdict_of

__all__ = ["page_text", "planned_text", "plot", "write_page", "write_plots"]


def write_page(folder: Path, study: Study, result: Mapping[str, Any]) -> None:
    """Write `page.md`, and a plot for every claim with scatter."""
    (folder / "page.md").write_text(page_text(study, result), "utf-8")
    write_plots(folder / "claim", study, result)


def write_plots(stem: Path, study: Study, result: Mapping[str, Any]) -> None:
    """Write `STEM-N.svg` for every claim, unless the numbers are exact."""
    for number, claim in enumerate(result["claims"] if not study.exact else []):
        line = study.claims[number]
        plot(stem.with_name(f"{stem.name}-{number}.svg"), claim, line.above, line.within)


def planned_text(study: Study) -> str:
    """The page of a study without a result, as Markdown."""
    lines = [f"# {study.question}", "", "**Not run.**", "", study.why, "", *arms(study), "", "Pass lines:", ""]
    return "\n".join([*lines, *(f"- {claim}" for claim in study.claims), "", prediction_text(study) + ".", ""])


def page_text(study: Study, result: Mapping[str, Any], stem: str = "claim") -> str:
    """The page as Markdown. Args: stem: of the plots, beside the page."""
    lines = [
        f"# {study.question}",
        "",
        f"**{verdict_of(study, result)}**" + (", exact." if study.exact else f" with {len(result['seeds'])} seeds."),
        "",
        study.why,
        "",
        *arms(study),
        "",
        *(exact_rows(result["claims"]) if study.exact else rows(result["claims"])),
        "",
        scatter(study),
        *(["", rates(study, result["rates"])] if "rates" in result else []),
        "",
        f"{prediction_text(study)}. Brier score {result['brier']:.3f} (0 is best, 2 worst).",
        "",
    ]
    if not study.exact:
        lines += [f"![differences by seed]({stem}-{number}.svg)" for number in range(len(result["claims"]))] + [""]
    return "\n".join(lines)


def prediction_text(study: Study) -> str:
    return f"Predicted: {', '.join(f'{key} {value:g}' for key, value in study.prediction.items())}"


def rates(study: Study, found: Mapping[str, float]) -> str:
    """Which learning rate every arm had, and how it came by it."""
    each = ", ".join(f"{arm} {rate:g}" for arm, rate in found.items())
    tried = {arm: ", ".join(f"{rate:g}" for rate in study.rates_of(arm)) for arm in found}
    if len(set(tried.values())) == 1:
        of = f"{next(iter(tried.values()))} for each arm"
    else:
        of = "; ".join(f"{values} for {arm}" for arm, values in tried.items())
    return f"Learning rates: {each}; the best of {of} on seeds {', '.join(map(str, study.rate_seeds))}."


def scatter(study: Study) -> str:
    """What the intervals promise."""
    if study.exact:
        return "The numbers are exact: they have no scatter."
    level, error = f"{100 * (1 - study.share):.4g} %", f"{100 * study.alpha:g} %"
    return (
        f"Each interval holds the true mean with a chance of {level}; all claims and looks share an error of {error}."
    )


def arms(study: Study) -> list[str]:
    """Each arm of settings in a line, then those of functions."""
    found = [f"Base: `{study.base}`" + settings(study.settings), ""] if study.base else []
    functions = [name for name in study.arms if numbers_of(study, name)]
    found += [f"- {name}{settings(arm)}" for name, arm in study.arms.items() if isinstance(arm, Mapping)]
    return [*found, f"Arms, each a function: {', '.join(functions)}."] if functions else found


def settings(values: Mapping[str, object]) -> str:
    return "".join(f" `{key}={value}`" for key, value in values.items())


def exact_rows(claims: Sequence[Mapping[str, Any]]) -> list[str]:
    head = ["| claim | verdict | value |", "|---|---|---|"]
    return [*head, *(f"| {claim['claim']} | {claim['verdict']} | {mean_of(claim)} |" for claim in claims)]


def rows(claims: Sequence[Mapping[str, Any]]) -> list[str]:
    return ["| claim | verdict | mean | interval | crashed |", "|---|---|---|---|---|", *map(row, claims)]


def mean_of(claim: Mapping[str, Any]) -> str:
    return "–" if claim["mean"] is None else f"{claim['mean']:+.4g}"


def row(claim: Mapping[str, Any]) -> str:
    low, high = claim["low"], claim["high"]
    interval = "none" if low is None or high is None else f"[{low:+.4g}, {high:+.4g}]"
    crashed = ", ".join(claim["crashed"]) or "0"
    return f"| {claim['claim']} | {claim['verdict']} | {mean_of(claim)} | {interval} | {crashed} |"


def plot(path: Path, claim: Mapping[str, Any], line: float, margin: float | None) -> None:
    """A dot for every seed, the interval of the mean, and the pass line."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    with pyplot.rc_context({"svg.hashsalt": "gnomon", "svg.fonttype": "none", "font.size": 9}):
        figure, axes = pyplot.subplots(figsize=(6, 1.6), layout="constrained")
        values = [value for value in claim["values"].values() if value is not None]
        axes.plot(values, [1] * len(values), "o", color="#4477aa", alpha=0.7, markersize=5)
        if claim["mean"] is not None and None not in (claim["low"], claim["high"]):
            half = [[claim["mean"] - claim["low"]], [claim["high"] - claim["mean"]]]
            axes.errorbar([claim["mean"]], [0], xerr=half, fmt="s", color="#222222", capsize=4)
        for at in lines(line, margin):
            axes.axvline(at, color="#cc3311", linestyle="--", linewidth=1)
        axes.set_yticks([0, 1], ["mean", "seeds"])
        axes.set_ylim(-0.6, 1.6)
        axes.set_xlabel(claim["claim"])
        figure.savefig(path, metadata={"Date": None})
        pyplot.close(figure)


def lines(line: float, margin: float | None) -> Sequence[float]:
    if margin is None:
        return [line] if math.isfinite(line) else []
    return [-margin, margin]
