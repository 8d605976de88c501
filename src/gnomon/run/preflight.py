"""The audit before a run: what it finds stops the run, or is shown and kept in the manifest."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

from gnomon.audit import Axis, Finding, Severity, preflight
from gnomon.config import RunConfig, word_of
from gnomon.envs.base import Env
from gnomon.envs.blame import quote
from gnomon.errors import ConfigError, ConfigErrors
from gnomon.run.display import Show, Teller
from gnomon.run.objects import OBJECT
from gnomon.run.trial import definition_place, limits_of

__all__ = ["audit_receipt"]

BROKEN = (
    *("failure.raised", "failure.no_verdict", "failure.not_finite", "failure.out_of_range", "failure.no_end"),
    "availability.always_exceeded",
)
"""Findings that are errors of the code: whatever else was found follows from them, and none is a matter of opinion."""


FEWEST, MOST = 16, 40
"""Tasks of the audit: as many as the run draws, between these bounds, so that a short run has a short audit."""

SLOW = 60.0
"""Seconds after which the progress line names the setting that leaves an axis out."""


def audit_receipt(config: RunConfig, env: Env, teller: Teller, show: Show) -> dict[str, Any]:
    """The receipt of the audit before a run. Raises: ConfigErrors with a finding each, where one blocks.

    Args: show: shows the progress.
    """
    began = time.monotonic()

    def watch(axis: Axis, judged: int) -> None:
        slow = time.monotonic() - began > SLOW
        fix = word_of("audit.acknowledge", [*config.audit.acknowledge, axis.value])
        without = f"; {fix} leaves this axis out" if slow else ""
        show(f"{axis.value}, {judged:,} replies judged{without}")

    draws = config.budget.steps * config.rollout.prompts
    report = preflight(
        env, acknowledge=config.audit.acknowledge, tasks=min(max(FEWEST, draws), MOST),
        max_tokens=config.rollout.max_tokens, limits=limits_of(config.workers), watch=watch,
    )  # fmt: skip
    if report.blocking:
        broken = [finding for finding in report.blocking if finding.rule in BROKEN]
        rules = [*config.audit.acknowledge, *(finding.rule for finding in report.blocking)]
        refusals = once([refusal(finding, config.env.type, env, rules) for finding in broken or report.blocking])
        raise ConfigErrors([with_code(refusals[0], report.repair), *refusals[1:]] if report.repair else refusals)
    for finding in report.findings:
        if finding.severity is Severity.WARNING:
            teller.message(f"Audit: {finding.rule}: {finding.what}")
    return report.receipt()


def once(errors: Sequence[ConfigError]) -> list[ConfigError]:
    """The errors, without a fix that the last one repeats: the setting that accepts all findings is a long line."""
    *others, last = errors
    return [*(with_fix(each, "" if each.fix == last.fix else each.fix) for each in others), last]


def with_fix(error: ConfigError, fix: str) -> ConfigError:
    """The error with another fix."""
    return ConfigError(error.code, error.what, where=error.where, why=error.why, fix=fix)


def with_code(error: ConfigError, code: str) -> ConfigError:
    """The error with a reward that does not have these faults, before its own fix."""
    lines = "\n".join(f"      {line}".rstrip() for line in code.splitlines())
    return with_fix(error, f"use this reward:\n{lines}" + f"\n   or: {error.fix}" * bool(error.fix))


def refusal(finding: Finding, name: str, env: Env, rules: Sequence[str]) -> ConfigError:
    """A finding that stops a run, as an error; one that may be meant says how to accept all of them."""
    accept = f"gnomon audit {name} shows it; {word_of('audit.acknowledge', rules)} accepts it"
    if name.startswith(OBJECT):
        accept = f"audit={{'acknowledge': {list(rules)}}} in the call accepts it"
    where = quote(finding.where) or (definition_place(env) if name.startswith(OBJECT) else name)
    fix = finding.fix if finding.rule in BROKEN else accept
    return ConfigError("E124", f"{finding.rule}: {finding.what}", where=where, why=finding.why, fix=fix)
