"""Which member of an RL2ML family a run's own successes speak for, by metric."""

from __future__ import annotations

import math
import shlex
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

from gnomon.errors import ConfigError, RunError
from gnomon.metrics import current
from gnomon.objectives import (
    Belief,
    Metric,
    Posterior,
    best_member,
    family_gains,
    family_parameters,
    gain_terms,
    metric,
    objective,
)
from gnomon.objectives.edge_cases import on_policy
from gnomon.store import RunReader, RunStatus

__all__ = ["NOISES", "success_counts", "tune", "tune_text"]

NOISES = (1.0, 4.0, 16.0, 64.0)
"""How far the score of a success may scatter, where a run does not say."""


def success_counts(reader: RunReader, since: int = 0) -> Counter[Posterior]:
    """How many groups of a run had so many successes and failures; where the judge broke counts for neither.

    Args: since, the first step to count.
    """
    judged = judged_groups(reader, since)
    return Counter(Posterior(sum(found), len(found) - sum(found)) for found in judged.values())


def measured_noise(reader: RunReader, since: int = 0) -> float | None:
    """τ of a run whose objective counts successes: the scatter of their scores over |∇log(p/(1−p))|².

    A step records both moments as means over its groups with two successes or more. The first is |∇log p|², which is
    (1−p)² times what is sought; (1−p)² is taken as those groups' own counts suggest.
    None where no step recorded them, or where chance makes the first appear to be nothing.
    """
    steps = [record for record in reader.records(kind="step") if (record.step or 0) >= since]
    metrics = {record.step: current(record.body["metrics"]) for record in steps}
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
    options = dict(reader.genesis.get("config", {}).get("objective", {}))
    row = objective(options.pop("type", "rl2ml"), **options)
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
    of a run's few groups (docs/results.md, *measured*).

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
    counts = counted(reader, since)
    size, total = group or max(seen.successes + seen.failures for seen in counts), sum(counts.values())
    measured = None if noises else measured_noise(reader, since)
    tried = noises or (NOISES if measured is None else (measured,))
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
        "best": [best_for(counts, of, family, size, noise) for noise in tried],
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


def counted(reader: RunReader, since: int) -> Counter[Posterior]:
    """The success counts of a run. Raises: RunError E411 where there are none."""
    counts = success_counts(reader, since)
    if not counts:
        raise RunError(
            "E411",
            "the run has no groups to count",
            where=str(reader.folder),
            why=f"no group has verdicts in step {since} or later; the run has {reader.steps} finished steps",
        )
    return counts


def best_for(counts: Counter[Posterior], of: Metric, family: str, group: int, noise: float) -> dict[str, Any]:
    """The member of a family with the largest gain at a noise, and the gains of all: shares of the best possible."""
    beliefs: dict[Belief, float] = {seen: float(n) for seen, n in counts.items()}
    worth, tried = gain_terms(beliefs, group=group, of=of, noise=noise), family_parameters(family, group)
    curve = family_gains(family, worth, tried)
    share = {member.parameter: member.share for member in curve}
    best = best_member(family, worth, tried)
    return {
        "noise": noise,
        "parameter": best.parameter,
        "share": best.share,
        "reinforce": share[0.0],
        "maxrl": share[1.0],
        "curve": [[member.parameter, member.share] for member in curve],
    }


def tune_text(facts: Mapping[str, Any]) -> str:
    """The choice for a reader."""
    lines = [
        f"{facts['metric']}, family {facts['family']}, groups of {facts['group']}: "
        f"{facts['groups']} groups, {facts['solved']:.0%} of their rollouts correct",
        "noise   parameter   gain   REINFORCE   MaxRL",
        *(
            f"{row['noise']:<7.4g} {row['parameter']:<11g} {row['share']:<6.3f} {row['reinforce']:<11.3f} "
            f"{row['maxrl']:.3f}"
            for row in facts["best"]
        ),
        "gain: improvement per step, relative to the best possible weights by number of successes.",
        "noise: variance of the score of a success over the squared gradient of its log-odds; "
        + ("this run did not record it, --noise sets it." if facts["measured"] is None else "measured in this run."),
        *(
            f"left out: {name} = {value:g}, which moved the policy of this run beside its objective."
            for name, value in facts["beside"].items()
        ),
    ]
    if len(facts["best"]) == 1:
        options = f"objective=rl2ml objective.family={facts['family']} "
        chosen = f"objective.parameter={facts['best'][0]['parameter']:g} rollout.group={facts['group']}"
        recipe = shlex.quote(f"{facts['run']}/recipe.toml")
        lines.append(f"next: gnomon train {recipe} {options}{chosen}")
    return "\n".join(lines)
