"""Resumes or extends a run in its folder."""

from __future__ import annotations

import shlex
from functools import partial
from pathlib import Path

from gnomon.config import Source
from gnomon.engines.base import Tier
from gnomon.envs.base import Env
from gnomon.run.data import require_same_data
from gnomon.run.display import Console, Guarded
from gnomon.run.exactness import tolerable_sources
from gnomon.run.extension import Extension, extension, genesis_settings
from gnomon.run.find import check_env_config, make_env
from gnomon.run.makers import engine_facts, make_schedule
from gnomon.run.manifest import changes, manifest, opening
from gnomon.run.objects import require_same_object
from gnomon.run.own_parts import NOTHING, OwnParts, require_own_parts, source_of
from gnomon.run.parts import open_parts
from gnomon.run.session import task_at, train_until_stopped
from gnomon.run.trust import signature, unsigned_code
from gnomon.store import Record, Recorded, Run, RunReader

__all__ = ["resume"]


SAME = Source({}, {})
"""No other settings."""
REGISTERED = ("prediction", "study")
"""SHA-256 of what was registered before the run began; the first record holds them."""


def resume(
    folder: Path,
    console: Console,
    env: Env | None = None,
    own: OwnParts = NOTHING,
    *,
    accept_divergence: bool = False,
    settings: Source = SAME,
) -> RunReader:
    """Continue a run from its newest good checkpoint.

    An exact run must repeat every byte that it recorded after the checkpoint. A run that varies, and any run with
    `accept_divergence`, keeps what it does not repeat as an attempt and goes on.

    Args:
        settings: that change from here on, as `extension` lets them.
    Raises: RunError E403 for an exact run that does not repeat what it recorded; as `extension`.
    """
    reader, teller = RunReader(folder), Guarded(console)
    other = extension(reader, settings, [check_env_config] if env is None else [])
    if reader.complete and not other.recipe:
        more = f"gnomon resume {shlex.quote(str(folder))} steps={2 * max(1, reader.steps)}"
        teller.message(f"{folder} is finished; there is nothing to resume. To extend it: {more}")
        return RunReader(folder)
    config = other.config
    began = reader.genesis["config"]["policy"].get("attention", "exact")  # `auto` may be another one on this machine.
    config = config.model_copy(update={"policy": config.policy.model_copy(update={"attention": began})})
    require_own_parts(config, own, folder)
    if env is None:
        env = make_env(config.env)
    else:
        require_same_object(env, config.env, folder)
    require_same_data(config, env, reader.manifest.get("data", {}), folder)
    with Run.resume(folder) as store, open_parts(config, env, teller.progress, own, phase=teller.phase) as parts:
        now = manifest(config, env, tier=parts.engine.tier.value, mismatch=parts.mismatch) | engine_facts(parts.engine)
        store.tolerate = tolerable_sources(reader, config, env, now, accept_divergence)
        store.rewind(0)
        first = opening(genesis_settings(reader, other.before, config), env)
        first |= {name: reader.genesis[name] for name in REGISTERED if name in reader.genesis}
        store.append([Record(kind="genesis", body=first)])  # E403 if recipe or model have changed.
        if other.recipe:
            signed = "" if unsigned_code(reader, config) else signature(other.recipe)
            store.extend(other.body, other.recipe, {"signed": signed})
            teller.message(f"Extended: {other.text}.{rate_text(other, reader.steps)}")
        if parts.engine.tier is Tier.MEASURED:
            for actor in (parts.actor, *parts.batches.actors, *(each.actor for each in parts.sets)):
                actor.earlier = Recorded(folder, partial(task_at, actor.env), store.note)
        for difference in changes(reader.manifest, now | {"objects": source_of(own)}):
            store.unfinished.clear()
            teller.message(f"Not as when the run began: {difference}.")
        train_until_stopped(store, config, parts, console, own.observers)
    return RunReader(folder)


def rate_text(other: Extension, done: int) -> str:
    """The last finished step whose learning rate would be another with this number of steps; empty if there is none."""
    steps, updates = other.config.budget.steps, other.config.optim.updates
    before, now = make_schedule(other.before), make_schedule(other.config)
    differs = (update for update in range(done * updates, 0, -1) if before(update) != now(update))
    if not (update := next(differs, 0)):
        return ""
    return (
        f" The learning rate decays until the last step: in step {(update - 1) // updates} it was "
        f"{before(update):.3g} instead of {now(update):.3g}. So the run differs from one that began with {steps} steps."
    )
