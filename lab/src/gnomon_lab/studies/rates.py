"""A learning rate for each arm, chosen by runs on other tasks and other seeds than those that decide the study."""

from __future__ import annotations

import statistics
from collections.abc import Mapping

from gnomon.comparison.measures import final
from gnomon_lab.studies.design import Study, numbers_of
from gnomon_lab.studies.folder import Cell, StudyFolder

__all__ = ["chosen_rate", "chosen_rates", "rate_cells"]


def rate_cells(study: Study) -> list[Cell]:
    """The runs of the sweep, seed by seed; none for arms that are functions."""
    arms = [arm for arm in study.arms if numbers_of(study, arm) is None]
    return [Cell(arm, seed, rate) for seed in study.rate_seeds for arm in arms for rate in study.rates_of(arm)]


def chosen_rate(folder: StudyFolder, arm: str) -> float:
    """The rate with the highest mean of held-out pass@1 over the seeds of the sweep, the smallest of equals.

    A run that crashed counts as 0. The sweep must have ended.
    """
    study = folder.study
    means = {
        rate: statistics.fmean(final_rate(folder, Cell(arm, seed, rate)) for seed in study.rate_seeds)
        for rate in sorted(study.rates_of(arm))
    }
    return max(means, key=lambda rate: means[rate])


def chosen_rates(folder: StudyFolder) -> Mapping[str, float]:
    """By arm; empty for a study without a sweep."""
    return {arm: chosen_rate(folder, arm) for arm in dict.fromkeys(cell.arm for cell in rate_cells(folder.study))}


def final_rate(folder: StudyFolder, cell: Cell) -> float:
    return folder.read(cell, final) if not folder.crash(cell).exists() else 0.0
