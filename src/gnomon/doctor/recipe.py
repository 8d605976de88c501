"""What is wrong with a recipe or an environment before anything is trained."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from gnomon.audit import Severity, preflight
from gnomon.config import RunConfig, leaves, resolve
from gnomon.doctor.finding import Finding
from gnomon.doctor.rollout import foreign
from gnomon.envs.base import Env
from gnomon.errors import ConfigErrors
from gnomon.run.find import check_env_config, check_policy_config, make_env
from gnomon.run.subject import layers
from gnomon.run.trial import limits_of

__all__ = ["examine_recipe"]

TRAIN, TEST = 4096, 512
"""Tasks of each split that are compared."""


def examine_recipe(what: str, words: Sequence[str] = ()) -> list[Finding]:
    """Findings about a recipe (`.toml`) or an environment with settings: mistakes, the audit's findings, leaks.

    It runs the environment's code, as `gnomon train` does.
    """
    try:
        config, _ = resolve(layers(what, words), [check_env_config, check_policy_config])
    except ConfigErrors as error:
        return [
            Finding(
                name=f"recipe.{problem.code}",
                sentence=". ".join(filter(None, (problem.what, problem.where and f"at {problem.where}", problem.why))),
                fix=problem.fix,
            )
            for problem in error.errors
        ]
    env = make_env(config.env)
    return [*leaks(env), *few_tasks(env, config), *forced_renderer(config), *audit_findings(env, config)]


def leaks(env: Env) -> Iterator[Finding]:
    """Held-out tasks that are also train tasks."""
    train, test = env.tasks("train"), env.tasks("test")
    ids = {train[index].id for index in range(min(TRAIN, len(train)))}
    count = min(TEST, len(test))
    shared = [index for index in range(count) if test[index].id in ids]
    if shared:
        yield Finding(
            name="data.leak",
            sentence=f"{len(shared)} of {count} held-out tasks are also train tasks, such as test task {shared[0]}",
            fix="remove these tasks from the train rows",
        )


def few_tasks(env: Env, config: RunConfig) -> Iterator[Finding]:
    """A step that asks for more tasks than there are."""
    there = len(config.rollout.tasks) or len(env.tasks("train"))
    if there < config.rollout.prompts:
        yield Finding(
            name="data.few_tasks",
            sentence=f"a step draws {config.rollout.prompts} different tasks, and there are {there}",
            fix=f"rollout.prompts={there}",
        )
    if len(env.tasks("test")) < config.eval.tasks:
        held_out = len(env.tasks("test"))
        yield Finding(
            name="data.few_held_out",
            sentence=f"eval.tasks is {config.eval.tasks}, and there are {held_out} held-out tasks",
            fix=f"eval.tasks={held_out}",
        )


def forced_renderer(config: RunConfig) -> Iterator[Finding]:
    """A renderer that is not the one of the model folder."""
    if why := foreign(leaves(config.model_dump())):
        yield Finding(name="rollout.template", sentence=why, fix="policy.renderer=auto")


def audit_findings(env: Env, config: RunConfig) -> Iterator[Finding]:
    """What the audit before a run finds, but for notes."""
    report = preflight(
        env, acknowledge=config.audit.acknowledge, max_tokens=config.rollout.max_tokens,
        limits=limits_of(config.workers),
    )  # fmt: skip
    for finding in report.findings:
        if finding.severity is not Severity.NOTE and not finding.acknowledged:
            reply = f"; such as the reply {finding.evidence.reply[:80]!r}" if finding.evidence.reply else ""
            yield Finding(name=f"judge.{finding.rule}", sentence=f"{finding.what}{reply}", fix=finding.fix)
