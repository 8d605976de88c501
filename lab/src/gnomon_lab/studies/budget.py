"""What the runs of a study will cost in processor time, before the first of them."""

from __future__ import annotations

from collections.abc import Iterable
from multiprocessing.connection import Connection
from pathlib import Path

from gnomon.errors import GnomonError
from gnomon.machine import has_cuda
from gnomon.models.folder import SHIPPED
from gnomon_lab.studies.design import Study, load, numbers_of
from gnomon_lab.studies.folder import Cell
from gnomon_lab.studies.progress import duration

__all__ = ["planned_arms", "send_budget"]


def planned_arms(study: Study) -> list[str]:
    """The arms that train another policy than the one that ships, on the processor: their runs are worth a plan."""
    runs = [arm for arm in study.arms if numbers_of(study, arm) is None]
    configs = {arm: study.config(arm, study.seeds[0]) for arm in runs}
    on_cpu = {"cpu", "auto"} if not has_cuda() else {"cpu"}
    return [arm for arm, it in configs.items() if it.policy.path not in SHIPPED and it.policy.device in on_cpu]


def send_budget(connection: Connection, file: Path, cells: Iterable[Cell]) -> None:
    """In a process of its own, since a plan loads torch: send the text of a budget, or the error of a run too large."""
    try:
        connection.send(budget_text(load(file), list(cells)))
    except GnomonError as error:
        connection.send(error)


def budget_text(study: Study, cells: list[Cell]) -> str:
    """Seconds of each arm's run by `gnomon plan`, and of all runs together.

    Raises: ResourceError E507 for a run that does not fit the memory.
    """
    import torch

    from gnomon.plans.command import calibrate, require_fitting
    from gnomon.plans.devices import device, resident
    from gnomon.plans.lengths import supposed_lengths
    from gnomon.plans.plan import make_plan

    configs = {arm: study.config(arm, study.seeds[0]) for arm in dict.fromkeys(cell.arm for cell in cells)}
    torch.set_num_threads(max(config.threads for config in configs.values()))
    dtypes = {dtype for config in configs.values() for dtype in config.dtypes}
    here = calibrate(device("cpu", resident(), dtypes))
    seconds = {}
    for arm, config in configs.items():
        plan = make_plan(config, here, supposed_lengths(config))
        require_fitting(config, plan)
        seconds[arm] = 3600 * plan.hours
    each = ", ".join(f"{arm} {sum(cell.arm == arm for cell in cells)} x {of:.0f} s" for arm, of in seconds.items())
    total = sum(seconds[cell.arm] for cell in cells)
    return f"planned: {duration(total)} of processor time beside loading ({each})"
