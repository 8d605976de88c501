"""Which member of an RL2ML family a run's own successes speak for, by metric."""

from __future__ import annotations

import math
import random
import shlex
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

from gnomon.errors import ConfigError, RunError
from gnomon.store import RunReader, RunStatus
from gnomon.theory import (
    GainTerms,
    Metric,
    Posterior,
    best_member,
    best_scale,
    family_gains,
    family_parameters,
    gain_terms,
    metric,
)
from gnomon.theory.edge_cases import on_policy
from gnomon_lab.update_scale import row_of_run, scale_of_run, scale_text

__all__ = ["NOISES", "tune", "tune_text"]

NOISES = (1.0, 4.0, 16.0, 64.0)
"""How far the score of a success may scatter, where a run does not say."""
RESAMPLES, QUANTILE = 200, 0.05
"""Draws of the tasks of a run with replacement, and the share of them below the lower bound of a gain."""


Counts = Mapping[int | None, Counter[Posterior]]
"""Of every task, how many of its groups had so many successes and failures."""


def task_counts(reader: RunReader, since: int = 0) -> dict[int | None, Counter[Posterior]]:
    """How many groups of every task had so many successes and failures; where the judge broke counts for neither.

    Args: since, the first step to count.
    """
    found: dict[int | None, Counter[Posterior]] = defaultdict(Counter)
    for (_, task), judged in judged_groups(reader, since).items():
        found[task][Posterior(sum(judged), len(judged) - sum(judged))] += 1
    return dict(found)


def measured_noise(reader: RunReader, since: int = 0) -> float | None:
    """τ of a run whose objective counts successes: the scatter of their scores over |∇log(p/(1−p))|².

    A step records both moments as means over its groups with two successes or more. The first is |∇log p|², which is
    (1−p)² times what is sought; (1−p)² is taken as those groups' own counts suggest.
    None where no step recorded them, or where chance makes the first appear to be nothing.
    """
    steps = [record for record in reader.records(kind="step") if (record.step or 0) >= since]
    metrics = {record.step: record.body["metrics"] for record in steps}
    seen = {step: found for step, found in metrics.items() if "score_signal" in found}
    if not seen:
        return None
    perfect = trains_on_perfect_groups(reader)
    left: dict[int | None, list[float]] = defaultdict(list)
    for (step, _), found in judged_groups(reader, since).items():
        if step in seen and sum(found) >= 2 and (perfect or not all(found)):
            left[step].append(Posterior(sum(found), len(found) - sum(found)).moment(0, 2))
    signal, scatter = (math.fsum(seen[step][name] for step in left) for name in ("score_signal", "score_scatter"))
    share = math.fsum(math.fsum(group) / len(group) for group in left.values())
    return max(0.0, scatter / len(left) * share / signal) if signal > 0 else None


def terms_beside(reader: RunReader) -> dict[str, float]:
    """The settings of a run that move the policy beside its objective. The gains count the objective alone."""
    settings = reader.genesis.get("config", {}).get("regularize", {})
    return {f"regularize.{name}": settings[name] for name in ("kl", "entropy") if settings.get(name)}


def trains_on_perfect_groups(reader: RunReader) -> bool:
    """Whether the run's objective moves the policy where every rollout succeeds; else those are not recorded."""
    row = row_of_run(reader)
    size = max(4, row.min_group)
    return bool(on_policy(row, [1.0] * size, [1] * size).any())


def judged_groups(reader: RunReader, since: int) -> dict[tuple[int | None, int | None], list[bool]]:
    """By step and task, which of the rollouts that a judge could judge were right."""
    judged: dict[tuple[int | None, int | None], list[bool]] = defaultdict(list)
    for row in reader.rollout_rows():
        if row.status != "failed" and (row.step or 0) >= since:
            judged[row.step, row.task].append(row.status == "correct")
    return judged


def tune(
    reader: RunReader,
    *,
    metric_name: str,
    family: str = "A",
    group: int | None = None,
    noises: Sequence[float] = (),
    since: int = 0,
) -> dict[str, Any]:
    """The best member of a family for a metric, for each noise, in plain values.

    One Λ and one scatter are taken for all prompts. `scored_terms` does without that, and chooses worse from the scores
    of a run's few groups (docs/lab/results.md, *measured*).

    Args:
        metric_name: `log p` or `pass@k`.
        family: A to D.
        group: rollouts per task of the next run; None for the largest group of this one.
        noises: tr Cov(score | success) / |∇log(p/(1−p))|²; by default what the run measured, or `NOISES`.
        since: the first step to count.
    Raises: ConfigError E005 for a metric or family that does not exist; RunError E410 for a run that has not
        ended, E411 for one that has no group to count.
    """
    of = known_metric(metric_name)
    require_family(family)
    require_finished(reader)
    by_task = count_successes(reader, since)
    counts: Counter[Posterior] = sum(by_task.values(), Counter())
    size, total = group or max(seen.successes + seen.failures for seen in counts), sum(counts.values())
    measured = None if noises else measured_noise(reader, since)
    tried = noises or (NOISES if measured is None else (measured,))
    largest = max(seen.successes + seen.failures for seen in counts)
    return {
        "run": str(reader.folder),
        "metric": of.name,
        "family": family,
        "group": size,
        "groups": total,
        "measured": measured,
        "solved": sum(n * s.successes / (s.successes + s.failures) for s, n in counts.items()) / total,
        "counts": [
            {"successes": s.successes, "failures": s.failures, "groups": n}
            for s, n in sorted(counts.items(), key=lambda item: (item[0].successes, item[0].failures))
        ],
        "beside": terms_beside(reader),
        "best": [best_for(by_task, of, family, size, noise) for noise in tried],
        "scale": scale_of_run(reader, counts, largest),
    }


def known_metric(name: str) -> Metric:
    try:
        return metric(name)
    except ValueError as error:
        raise ConfigError("E005", str(error), where="--metric", fix="--metric pass@4") from error


def require_family(name: str) -> None:
    try:
        family_parameters(name, 1)
    except ValueError as error:
        raise ConfigError("E005", str(error), where="--family", fix="--family A") from error


def require_finished(reader: RunReader) -> None:
    if reader.status is not RunStatus.FINISHED:
        raise RunError(
            "E410",
            f"the run is {reader.status} after {reader.steps} steps",
            where=str(reader.folder),
            why="an unfinished run has counts for only some of its tasks",
            fix=f"gnomon resume {shlex.quote(str(reader.folder))}",
        )


def count_successes(reader: RunReader, since: int) -> dict[int | None, Counter[Posterior]]:
    """The success counts of a run's tasks. Raises: RunError E411 where there are none."""
    counts = task_counts(reader, since)
    if not counts:
        raise RunError(
            "E411",
            "the run has no groups to count",
            where=str(reader.folder),
            why=f"no group has verdicts in step {since} or later; the run has {reader.steps} finished steps",
        )
    return counts


def best_for(by_task: Counts, of: Metric, family: str, group: int, noise: float) -> dict[str, Any]:
    """The member of a family with the largest gain at a noise, and the gains of all: shares of the best possible.

    `low` and `high` bound what it gains over REINFORCE, as shares of the best possible: 5 % and 95 % of draws of the
    tasks with replacement. `chosen` is its parameter if `low` is above 0, else 0: REINFORCE, as there is no evidence.
    """
    counts: Counter[Posterior] = sum(by_task.values(), Counter())
    terms = {seen: gain_terms({seen: 1.0}, group=group, of=of, noise=noise) for seen in counts}
    worth, tried = mean_terms(terms, counts), family_parameters(family, group)
    curve = family_gains(family, worth, tried)
    share = {member.parameter: member.share for member in curve}
    best = best_member(family, worth, tried)
    low, high = gain_bounds(by_task, terms, family, best.parameter)
    return {
        "noise": noise,
        "parameter": best.parameter,
        "low": low,
        "high": high,
        "chosen": best.parameter if low > 0 else 0.0,
        "scale": list(best_scale(worth)),
        "share": best.share,
        "reinforce": share[0.0],
        "maxrl": share[1.0],
        "curve": [[member.parameter, member.share] for member in curve],
    }


def mean_terms(terms: Mapping[Posterior, GainTerms], counts: Mapping[Posterior, int]) -> GainTerms:
    """The mean of terms over groups."""
    total = sum(counts.values())

    def mean(name: str) -> tuple[float, ...]:
        parts = [[n * value for value in getattr(terms[seen], name)] for seen, n in counts.items()]
        return tuple(math.fsum(column) / total for column in zip(*parts, strict=True))

    return GainTerms(sensitivity=mean("sensitivity"), noise=mean("noise"))


def gain_bounds(
    by_task: Counts, terms: Mapping[Posterior, GainTerms], family: str, parameter: float
) -> tuple[float, float]:
    """Quantiles of what a member gains over REINFORCE, as shares of the best possible, over draws of the tasks."""
    draw, tasks, found = random.Random(0), list(by_task.values()), []
    for _ in range(RESAMPLES):
        counts: Counter[Posterior] = Counter()
        for task in draw.choices(tasks, k=len(tasks)):
            counts.update(task)
        worth = mean_terms(terms, counts)
        chosen, plain = family_gains(family, worth, [parameter, 0.0])
        found.append(chosen.share - plain.share)
    found.sort()
    cut = int(QUANTILE * RESAMPLES)
    return found[cut], found[-1 - cut]


def tune_text(facts: Mapping[str, Any]) -> str:
    """The choice for a reader."""
    lines = [
        f"{facts['metric']}, family {facts['family']}, groups of {facts['group']}: "
        f"{facts['groups']} groups, {facts['solved']:.0%} of their rollouts correct",
        "noise   parameter   gain   REINFORCE   MaxRL   over REINFORCE",
        *(
            f"{row['noise']:<7.4g} {row['parameter']:<11g} {row['share']:<6.3f} {row['reinforce']:<11.3f} "
            f"{row['maxrl']:<7.3f} {row['low']:.3f} to {row['high']:.3f}"
            for row in facts["best"]
        ),
        "gain: improvement per step, relative to the best possible weights by number of successes.",
        "over REINFORCE: what it gains more than parameter 0 does, 5 % and 95 % of draws of the tasks.",
        "noise: variance of the score of a success over the squared gradient of its log-odds; "
        + ("this run did not record it, --noise sets it." if facts["measured"] is None else "measured in this run."),
        *(
            f"left out: {name} = {value:g}, which moved the policy of this run beside its objective."
            for name, value in facts["beside"].items()
        ),
    ]
    single = facts["best"][0] if len(facts["best"]) == 1 else None
    if facts["scale"] is not None:
        shown = single["scale"] if single is not None and facts["scale"]["group"] == facts["group"] else None
        lines += ["", *scale_text(facts["scale"], shown)]
    if single is not None:
        if single["chosen"] != single["parameter"]:
            lines.append(f"parameter {single['parameter']:g} is not shown to gain more than 0, which is kept.")
        options = f"objective=rl2ml objective.family={facts['family']} "
        chosen = f"objective.parameter={single['chosen']:g} rollout.group={facts['group']}"
        recipe = shlex.quote(f"{facts['run']}/recipe.toml")
        lines.append(f"next: gnomon train {recipe} {options}{chosen}")
    return "\n".join(lines)
