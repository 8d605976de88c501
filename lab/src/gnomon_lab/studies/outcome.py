"""What came out of a study: the differences of every claim, their intervals, and the verdict by rule."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from gnomon.comparison.statistics import Estimate, estimate, judge_above, judge_within
from gnomon.errors import RunError
from gnomon.types import Conclusion
from gnomon_lab.studies.design import Claim, Study
from gnomon_lab.studies.folder import Cell, StudyFolder
from gnomon_lab.studies.rates import chosen_rates

__all__ = [
    "WITHDRAWN", "Decided", "Outcome", "brier", "decide", "first_decided", "outcome", "result_of", "unrewarded",
    "verdict_of", "write_result",
]  # fmt: skip

WITHDRAWN = "withdrawn"
UNREWARDED = "no arm was ever rewarded"

Measured = Mapping[str, Mapping[int, Mapping[str, float] | None]]
"""By arm and seed, every measure; None where the run crashed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Decided:
    """A claim after its runs."""

    claim: Claim
    values: Mapping[int, float]
    """By seed, the difference or the measure itself."""
    estimate: Estimate
    verdict: Conclusion
    crashed: Sequence[str]
    """Runs that crashed and that the claim counts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    verdict: Conclusion
    claims: Sequence[Decided]
    seeds: Sequence[int]
    measured: Measured


def cells_of(study: Study, seeds: Sequence[int]) -> list[Cell]:
    """All arms with these seeds, seed by seed, so that arms can be compared early."""
    return [Cell(arm, seed) for seed in seeds for arm in study.arms]


def measured_of(folder: StudyFolder, seeds: Sequence[int]) -> dict[str, dict[int, dict[str, float] | None]]:
    """Raises: RunError E427 where a measure cannot be taken, E430 for numbers of another study."""
    found: dict[str, dict[int, dict[str, float] | None]] = {}
    for cell in cells_of(folder.study, seeds):
        try:
            found.setdefault(cell.arm, {})[cell.seed] = folder.measures_of(cell)
        except RunError:
            raise
        except Exception as error:  # A measure is the user's code.
            raise RunError(
                "E427",
                "a measure of the study cannot be taken",
                where=str(folder.run(cell)),
                why=f"{type(error).__name__}: {error}",
            ) from error
    return found


def first_decided(study: Study, measured: Callable[[Sequence[int]], Measured]) -> Outcome:
    """The outcome at the first look that decides the study, or at the last.

    Args: measured: called with the seeds of each look.
    """
    for count in study.looks or [len(study.seeds)]:
        seeds = study.seeds[:count]
        found = outcome(study, measured(seeds), seeds)
        if found.verdict is not Conclusion.INCONCLUSIVE:
            break
    return found


def outcome(study: Study, measured: Measured, seeds: Sequence[int]) -> Outcome:
    """The verdict after these seeds: PASS if every claim passes, FAIL if one fails, else INCONCLUSIVE."""
    claims = [decide(study, claim, measured, seeds) for claim in study.claims]
    verdicts = {found.verdict for found in claims}
    whole = next(
        (verdict for verdict in (Conclusion.FAIL, Conclusion.INCONCLUSIVE) if verdict in verdicts), Conclusion.PASS
    )
    return Outcome(verdict=whole, claims=claims, seeds=seeds, measured=measured)


def decide(study: Study, claim: Claim, measured: Measured, seeds: Sequence[int]) -> Decided:
    """One claim after these seeds."""
    arms = [arm for arm in (claim.arm, claim.than) if arm]
    crashed = [str(Cell(arm, seed)) for arm in arms for seed in seeds if measured[arm][seed] is None]
    values: dict[int, float] = {}
    for seed in seeds:
        one, other = (value(study, claim, measured, arm, seed) if arm else 0.0 for arm in (claim.arm, claim.than))
        values[seed] = one - other
    numbers = list(values.values())
    if not all(map(math.isfinite, numbers)):
        blank = Estimate(
            mean=math.nan, low=-math.inf, high=math.inf, deviation=math.nan, seeds=len(seeds), level=1 - study.share
        )
        return Decided(claim=claim, values=values, estimate=blank, verdict=Conclusion.INCONCLUSIVE, crashed=crashed)
    return Decided(
        claim=claim,
        values=values,
        estimate=estimate(numbers, study.share),
        verdict=exactly(claim, numbers) if study.exact else conclude(claim, numbers, study.share),
        crashed=crashed,
    )


def value(study: Study, claim: Claim, measured: Measured, arm: str, seed: int) -> float:
    """A measure of a run; for one that crashed what the study says, or not a number."""
    found = measured[arm][seed]
    return study.crashed.get(claim.measure, math.nan) if found is None else found[claim.measure]


def conclude(claim: Claim, values: Sequence[float], alpha: float) -> Conclusion:
    return (
        judge_above(values, claim.above, alpha) if claim.within is None else judge_within(values, claim.within, alpha)
    )


def exactly(claim: Claim, values: Sequence[float]) -> Conclusion:
    """Whether a claim on exact numbers holds for all of them."""
    holds = (x > claim.above if claim.within is None else abs(x) < claim.within for x in values)
    return Conclusion.PASS if all(holds) else Conclusion.FAIL


def brier(prediction: Mapping[str, float], verdict: Conclusion) -> float:
    """Σ (p − outcome)² over the three verdicts: 0 for certainty that was right, 2 for certainty that was wrong."""
    return math.fsum((chance - (name == verdict)) ** 2 for name, chance in prediction.items())


def unrewarded(study: Study, result: Mapping[str, Any]) -> bool:
    """Whether no run of a result measured anything but 0: its pass lines then compare nothing."""
    runs = [numbers for seeds in result["measured"].values() for numbers in seeds.values()]
    return not study.exact and all(numbers and not any(numbers.values()) for numbers in runs)


def verdict_of(study: Study, result: Mapping[str, Any]) -> str:
    """The verdict of a result in words; withdrawn where no arm was ever rewarded."""
    return f"{WITHDRAWN}: {UNREWARDED}" if unrewarded(study, result) else str(result["verdict"])


def write_result(folder: StudyFolder, found: Outcome) -> dict[str, Any]:
    """Write `result.json`: the same numbers give the same bytes."""
    result = result_of(folder, found)
    text = json.dumps(result, indent=2, sort_keys=True, allow_nan=False)
    (folder.folder / "result.json").write_text(text + "\n", "utf-8")
    return result


def result_of(folder: StudyFolder, found: Outcome) -> dict[str, Any]:
    """The result in plain values."""
    study = folder.study
    result = {
        "question": study.question,
        "sha256": folder.hash,
        "verdict": found.verdict,
        "seeds": list(found.seeds),
        "prediction": dict(study.prediction),
        "brier": brier(study.prediction, found.verdict),
        "claims": [
            {
                "claim": str(each.claim),
                "verdict": each.verdict,
                "values": {str(seed): value for seed, value in each.values.items()},
                "crashed": list(each.crashed),
                **asdict(each.estimate),
            }
            for each in found.claims
        ],
        "measured": {
            arm: {str(seed): dict(values) if values is not None else None for seed, values in of_arm.items()}
            for arm, of_arm in found.measured.items()
        },
    }
    if study.rates:
        result["rates"] = dict(chosen_rates(folder))
    return dict(plain(result))


def plain(value: Any) -> Any:
    """The same without numbers that JSON does not have: None takes their place."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {key: plain(inner) for key, inner in value.items()}
    return [plain(inner) for inner in value] if isinstance(value, list) else value
