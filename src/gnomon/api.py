"""Train with one call from a script or a notebook. The result has the same bytes as with the command line."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack

from gnomon.config import RunConfig, Source, leaves, resolve
from gnomon.config.calls import fixes_in_python
from gnomon.envs import ENVS, Env, offers
from gnomon.errors import ConfigError, ConfigErrors, explain_missing_package
from gnomon.extensions import check_start
from gnomon.objectives.spelling import nearest
from gnomon.reading.folders import next_folder
from gnomon.run.extension import extension
from gnomon.run.find import check_env_config, check_policy_config
from gnomon.run.modules import require_outside
from gnomon.run.objects import spec_of
from gnomon.run.subject import with_checkpoints
from gnomon.store import Observer, require_free
from gnomon.store import RunReader as StoredRun

if TYPE_CHECKING:
    from gnomon.engines.base import Engine
    from gnomon.learners.base import Learner
    from gnomon.objectives import Objective
    from gnomon.rollout.order import Curriculum
    from gnomon.settings import Settings
    from gnomon.training.evaluate import Evaluation

__all__ = ["RunReader", "configure", "resume", "train"]

Tasks = Iterable[Any] | Mapping[str, Any]
"""Rows, or a mapping of the rows of `train` and `test`."""


class RunReader(StoredRun):
    """A run folder, open for reading, whose policy can be exported. `print` shows its summary."""

    def export(
        self, folder: str | Path, *, step: int | None = None, dtype: str = "", merged: bool = False
    ) -> dict[str, int]:
        """Write the policy as a folder that transformers, PEFT and vLLM load, and return its files with their bytes.

        Args: as in `gnomon export`; step: of a checkpoint, by default the newest.
        Raises: ConfigError E050 if the folder is not empty, E051, E053; RunError E185 without such a checkpoint.
        """
        from gnomon.export.model import export

        name = str(self.folder) if step is None else f"{self.folder}:{step}"
        return dict(export(name, Path(os.path.expanduser(folder)), dtype, merged=merged).files)


@fixes_in_python()
@explain_missing_package()
def train(
    what: str | Path | Env | Tasks | None = None,
    /,
    *,
    run: str | Path | None = None,
    reward: Callable[..., Any] | None = None,
    reward_range: tuple[float, float] = (0.0, 1.0),
    observers: Sequence[Observer | str] = (),
    quiet: bool = False,
    **settings: Unpack[Settings],
) -> RunReader:
    """Train a policy, and return the finished or interrupted run, open for reading. Works in notebooks too.

        gnomon.train("countdown", run="runs/a", steps=50)
        gnomon.train(MyEnv(), run="runs/b")
        gnomon.train([{"prompt": "2 + 2?", "answer": "4"}, …], reward=lambda completion, answer: …, run="runs/c")

    Ctrl-C, or the interrupt of a notebook's kernel, ends the run after the current step, with a checkpoint. `resume`
    continues it.

    Args:
        what: an environment: a shipped name, `package.module:Class`, `file.py:Class`, or an object. With a `reward`:
            tasks, as a list of rows, the path of a .jsonl or .parquet file, a data set of the `datasets` package, or a
            mapping of `train` and `test`. A row holds a `prompt` (a text or chat messages) and an `answer`.
        run: the folder to record in; it must not contain a run. Without it, the next free one under `runs`.
        reward: a function of a reply. Its parameter names decide its arguments: `completion`, `answer`, `prompt`,
            `task` or a column of the tasks. With a parameter `completions` it is called as TRL calls reward functions.
            It returns True, False or a number. All names: `gnomon.integrations.rewarded`.
        reward_range: the lowest and highest reward of that function; a correct reply earns the highest.
        observers: objects with `start`, `step`, `evaluation` and `finish`, such as `gnomon.monitoring.JsonLines`, and
            names of trackers, such as `tensorboard` or `wandb` (docs/observing.md).
        settings: tables as mappings (`optim={"lr": 3e-4}`), and the short names of the command line (`group=8`,
            `steps=50`, `model=FOLDER`, `lora=8`). `env={…}` are options of the environment. `objective`, `engine`,
            `learner` and `curriculum` are names or objects (docs/observing.md).
    Raises: ConfigErrors with all mistakes; RunError E401 if the folder contains a run.
    """
    require_outside()
    values, own = separate(settings, observers)
    config, env = configure(what, values, reward, reward_range)
    folder = (
        next_folder(type(env).__name__ if env else config.env.type) if run is None else Path(os.path.expanduser(run))
    )
    require_free(folder)
    check_start(folder, config, env)
    from gnomon.run.display import Display, Silent, loading

    with nullcontext(Silent()) if quiet else Display(config) as display:
        with loading(display.phase):
            from gnomon.run.start import start
        start(folder, config, display, env, **own).close()
    return RunReader(folder)


@fixes_in_python()
@explain_missing_package()
def resume(
    run: str | Path,
    what: str | Path | Env | Tasks | None = None,
    /,
    *,
    reward: Callable[..., Any] | None = None,
    reward_range: tuple[float, float] = (0.0, 1.0),
    objective: Objective | None = None,
    engine: Engine | None = None,
    learner: Learner | None = None,
    curriculum: Curriculum | None = None,
    observers: Sequence[Observer | str] = (),
    accept_divergence: bool = False,
    quiet: bool = False,
    **settings: Any,
) -> RunReader:
    """Continue a run that was stopped or killed. An exact run ends with the same bytes.

    With more steps, it extends a run: `gnomon.resume("runs/a", steps=200)`.

    Args:
        what: the environment or the tasks of the run, if they were passed as Python objects; `reward` and
            `reward_range` as in `train`.
        objective, engine, learner, curriculum: the run's, if they were passed as Python objects.
        observers: as in `train`. A run may be resumed with others, or none.
        accept_divergence: continue even if the run does not repeat the records after its checkpoint. The old
            records are kept as an attempt, and the run is no longer exact.
        settings: that change from here on: `steps`, `seconds`, `eval={…}`, `save={…}` (docs/resuming.md).
    Raises: RunError E403 for an exact run that does not repeat what it recorded, E413 for a setting that may not
        change.
    """
    require_outside()
    supplied = Source(settings, dict.fromkeys(leaves(settings), "the call of gnomon.resume"))
    with RunReader(run) as reader:  # E404, if it is no run.
        run = reader.folder
        config = extension(reader, supplied).config
    env = None if what is None else object_of(what, reward, reward_range)
    from gnomon.run.display import Display, Silent, loading

    with nullcontext(Silent()) if quiet else Display(config) as display:
        with loading(display.phase):
            from gnomon.run.own_parts import own_parts
            from gnomon.run.resume import resume as go_on
        own = own_parts(objective=objective, engine=engine, learner=learner, curriculum=curriculum, observers=observers)
        go_on(run, display, env, own, accept_divergence=accept_divergence, settings=supplied).close()
    return RunReader(run)


@fixes_in_python()
@explain_missing_package()
def evaluate(
    policy: str | Path,
    what: str | Env | Tasks,
    /,
    *,
    reward: Callable[..., Any] | None = None,
    reward_range: tuple[float, float] = (0.0, 1.0),
    quiet: bool = True,
    **settings: Unpack[Settings],
) -> Evaluation:
    """Measure a policy on held-out tasks; nothing is trained or written.

        gnomon.evaluate("runs/a", "countdown").pass_at[1]

    Args:
        policy: a run, RUN:STEP, a model folder, or a name such as `smollm2`.
        what: as in `train`, like `reward`, `reward_range` and `settings`.
    Returns: pass@k with intervals over tasks, the lengths, and the counts of verdicts.
    """
    require_outside()
    own: Any = settings.get("policy", {})
    if not isinstance(own, Mapping):
        fix = f"gnomon.evaluate({str(policy)!r}, {what!r}), without policy="
        raise one_mistake("E027", f"the policy is given twice: as the first argument and as policy={own!r}", fix=fix)
    policy_source = with_checkpoints([Source({"policy": {"path": str(policy)}}, {})])[-1]
    table = {**own, "path": policy_source.values["policy"]["path"]}
    config, env = configure(what, {**settings, "policy": table}, reward, reward_range)
    from gnomon.run.display import Display, Silent
    from gnomon.run.session import measure

    with nullcontext(Silent()) if quiet else Display(config, doing="held-out tasks") as display:
        return measure(config, display.progress, display.phase, env=env)[""]


def open(run: str | Path) -> RunReader:
    """A run, to read: its curves, rollouts and records. Raises: RunError E404 where there is none."""
    return RunReader(run)


def separate(settings: Mapping[str, Any], observers: Sequence[Observer | str]) -> tuple[dict[str, Any], dict[str, Any]]:
    """The settings of a call, in which every part that was passed as an object has a name, and those parts."""
    values = dict(settings)
    by_setting = {name: values.get(name) for name in ("objective", "engine", "learner", "curriculum")}
    parts = {name: part for name, part in by_setting.items() if not isinstance(part, str | Mapping | None)}
    if not parts and not observers:
        return values, {}
    from gnomon.run.own_parts import own_parts, part_name

    own = own_parts(**parts, observers=observers)
    return values | {name: part_name(part) for name, part in parts.items()}, {"own": own}


@fixes_in_python()
def configure(
    what: Any,
    settings: Mapping[str, Any],
    reward: Callable[..., Any] | None = None,
    reward_range: tuple[float, float] = (0.0, 1.0),
) -> tuple[RunConfig, Env | None]:
    """The configuration of a call, and the environment if it is an object."""
    supplied: dict[str, Any] = dict(settings)
    table = supplied.pop("env", {})
    if what is None:
        what, table = (table.get("type"), table) if isinstance(table, Mapping) else (table, {})
    elif not isinstance(table, Mapping):
        table = {"type": table}
    options = {key: value for key, value in table.items() if key != "type"}
    if what is None or table.get("type", what) != what:
        raise one_mistake(
            "E027", "there is no environment" if what is None
            else f"the environment is given twice: {what!r} and {table['type']!r}",
            fix='gnomon.train("countdown", run="runs/first", env={"largest": 4})',
        )  # fmt: skip
    env = object_of(what, reward, reward_range)
    if env is not None:
        env = with_options(env, options)
    supplied["env"] = {"type": what, **options} if env is None else spec_of(env)
    checks = [check_policy_config] if env else [check_env_config, check_policy_config]
    config, _ = resolve(
        [Source(supplied, dict.fromkeys([*supplied, *leaves(supplied)], "the call of gnomon.train"))], checks
    )
    return config, env


def object_of(what: Any, reward: Callable[..., Any] | None, reward_range: tuple[float, float]) -> Env | None:
    """The environment passed as an object, or made from tasks and a reward; None for a name."""
    if reward is not None:
        if isinstance(what, Env) or (isinstance(what, str) and what in ENVS):
            fix = "leave out reward=, or pass tasks instead of the environment"
            raise one_mistake("E027", "an environment judges its own replies and takes no reward=", fix=fix)
        from gnomon.integrations.rewarded import make_env

        try:
            rows = os.path.expanduser(what) if isinstance(what, str | Path) else what
            return make_env(rows, reward, reward_range)
        except ConfigError as error:
            raise ConfigErrors([error]) from error
    if isinstance(what, str):
        return None
    if isinstance(what, type):
        raise one_mistake(
            "E027", f"{what.__name__} is a class, not an environment", fix=f"pass an object: {what.__name__}()"
        )
    if not isinstance(what, Env):
        why = "an environment has tasks, start, reward_range and max_turns"
        fix = "for tasks, pass reward=f with def f(completion, answer): ..."
        missing = f"a {type(what).__name__} is not an environment, and tasks need reward="
        raise one_mistake("E027", missing, why=why, fix=fix)
    return what


def with_options(env: Env, options: Mapping[str, Any]) -> Env:
    """An environment object with other options. Raises: ConfigErrors E012 or E024."""
    if not options:
        return env
    names: list[str] = []
    if dataclasses.is_dataclass(env) and offers.spec(env) is None:  # Else the tasks and the reward are its fields.
        names = [field.name for field in dataclasses.fields(env) if field.init]
    for key in options:
        if key not in names:
            near = nearest(key, names)
            why = f"did you mean {near}?" if near else f"it has {', '.join(names) or 'no options'}"
            fix = f"env={{{near!r}: {options[key]!r}}}" if near else "leave it out"
            raise one_mistake("E012", f"unknown key env.{key}: {type(env).__name__} has no such option", why, fix)
    try:
        values = {key: tuple(value) if isinstance(value, list) else value for key, value in options.items()}
        return dataclasses.replace(env, **values)  # type: ignore[type-var]
    except (TypeError, ValueError) as error:
        raise one_mistake("E024", f"{type(env).__name__} does not accept these options", why=str(error)) from error


def one_mistake(code: str, what: str, why: str = "", fix: str = "") -> ConfigErrors:
    return ConfigErrors([ConfigError(code, what, where="the call of gnomon.train", why=why, fix=fix)])
