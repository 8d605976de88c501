"""`gnomon audit`: exploits of a verifier."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated

import typer

from gnomon.commands.env_options import config_of, options_of
from gnomon.commands.streams import status_line
from gnomon.commands.words import Json, Settings
from gnomon.reading.lines import say
from gnomon.terminal import put

__all__ = ["audit"]


def audit(
    target: Annotated[str, typer.Argument(metavar="TARGET", help="A built-in environment, or your file.py:Class.")],
    settings: Settings = None,
    tasks: Annotated[
        str, typer.Option(metavar="N|FILE.jsonl", help="The number of tasks, or a file of tasks.")
    ] = "200",
    seed: Annotated[int, typer.Option(min=0, help="Seed of the audit.")] = 0,
    max_tokens: Annotated[
        int,
        typer.Option(
            min=1, metavar="N", help="Token limit of a reply. A fault that needs a longer reply does not block."
        ),
    ] = 4096,
    ack: Annotated[list[str] | None, typer.Option(metavar="RULE", help="Accept this finding; can be repeated.")] = None,
    repro: Annotated[
        Path | None, typer.Option(metavar="FOLDER", help="Write a script that reproduces each finding.")
    ] = None,
    sarif: Annotated[Path | None, typer.Option(metavar="FILE", help="Write the report as SARIF 2.1.0.")] = None,
    policy: Annotated[
        str, typer.Option(metavar="MODEL", help="Also measure what a right reply of this policy costs, in verdicts.")
    ] = "",
    as_json: Json = False,
) -> None:
    """Search a verifier for exploits. Exit code 0: nothing blocks training; 1: a finding blocks; 2: no audit."""
    from gnomon.audit import LIMITS, read_tasks, subject_of
    from gnomon.audit import audit as examine
    from gnomon.audit.text import report_text
    from gnomon.audit.text import sarif as as_sarif
    from gnomon.config import overrides, resolve
    from gnomon.run.find import check_env_config, check_policy_config, make_judge
    from gnomon.run.subject import env_of, name_of
    from gnomon.run.trial import limits_of

    words = [word for word in settings or [] if word.startswith("workers.")]
    settings = [word for word in settings or [] if word not in words]
    own = [f"policy={policy}", f"seed={seed}", *words]
    config = config_of(target, settings, own, [check_env_config, check_policy_config]) if policy else None
    limits = limits_of(resolve([overrides(words, 2)])[0].workers) if words else LIMITS
    supplied = () if tasks.isdigit() else read_tasks(Path(tasks))
    count = int(tasks) if tasks.isdigit() else len(supplied)
    kind, options = env_of(target)
    env = make_judge(kind, options | options_of(settings))
    subject = subject_of(env, supplied, count=count, name=name_of(target), source=name_of(target), limits=limits)
    with status_line() as show:
        report = examine(
            subject, seed=seed, max_tokens=max_tokens, acknowledge=ack or (),
            watch=lambda axis, judged: show(f"{axis.value}, {judged:,} replies judged"),
        )  # fmt: skip
    if config is not None and "card" in report.tables:
        from dataclasses import replace

        from gnomon.run.solving import solving

        report = replace(report, tables={**report.tables, "card": solving(config).on(report.tables["card"])})
    if repro is not None:
        repro.mkdir(parents=True, exist_ok=True)
        for finding in report.findings:
            (repro / f"{finding.rule}.py").write_text(finding.repro, "utf-8")
    if sarif is not None:
        sarif.parent.mkdir(parents=True, exist_ok=True)
        sarif.write_text(json.dumps(as_sarif(report), indent=1) + "\n", "utf-8")
    put(json.dumps(report.body(), indent=1)) if as_json else say(report_text(report))
    sys.exit(0 if report.passed else 1)
