"""A study before its runs: the question, the arms, what is measured, and the line that decides."""

from __future__ import annotations

import contextlib
import hashlib
import importlib.util
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from gnomon.comparison.measures import Measure, final
from gnomon.comparison.statistics import ALPHA
from gnomon.config import RunConfig, Source, resolve
from gnomon.config.sources import SHORT, leaves, put
from gnomon.config.sources import load as recipe
from gnomon.errors import ConfigError, ConfigErrors
from gnomon.objectives.spelling import nearest
from gnomon.run.find import check_env_config, check_policy_config

__all__ = ["Arm", "Claim", "Study", "load", "numbers_of", "sha256", "sha256_of"]

TRIAL_TASKS = 1_000_003
"""Seed of the tasks on which learning rates are tried."""
CHECKS = [check_env_config, check_policy_config]
ALWAYS: Any = {"threads": 1, "optim": {"micro_batch": 3072}}
"""In the place of defaults that follow the machine: runs lie side by side, and a study is repeated in every bit."""
Settings = Mapping[str, object]
Numbers = Callable[..., Mapping[str, float]]
"""A function of the seed that returns every measure. If it has a parameter `folder`, it gets the path of an empty
folder, which the study keeps, for its runs."""
Arm = Settings | Numbers
"""Settings over the base recipe, one run for each seed; or a function."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """A measure of an arm, less that of another arm with the same seed, lies above a line or within a margin."""

    measure: str
    arm: str
    than: str = ""
    """The other arm; empty: the measure itself is compared with the line."""
    above: float = 0.0
    """Pass line. `than` and `arm` change places where less is better."""
    within: float | None = None
    """Margin of a claim of no difference; takes the place of `above`."""

    def __str__(self) -> str:
        what = f"{self.measure} of {self.arm}" + (f" minus that of {self.than}" if self.than else "")
        return f"{what} > {self.above:g}" if self.within is None else f"abs({what}) < {self.within:g}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Study:
    """A question with its answer's rule.

    Args:
        question: in one sentence that ends with a question mark.
        why: what depends on the answer.
        base: an environment or a recipe ending in .toml that all arms share; arms of functions have none.
        settings: of all arms, over the base.
        arms: by name.
        seeds: shared by all arms; 8 to 10 where runs are cheap. Unless given, 0 to 7, or 0 alone where `exact`.
        measures: by name; `final` is the held-out pass@1.
        claims: what decides; all must pass.
        prediction: chance of PASS, FAIL and INCONCLUSIVE as the author sees it, adding up to 1.
        rates: learning rates to try in every arm before its runs, or those of each arm by name; the best by held-out
            pass@1 becomes the arm's own.
        rate_seeds: seeds of these trials. They share none with `seeds`, and their tasks differ where the environment
            has an option `seed`.
        crashed: value of each measure where a run crashed. A claim without one that needs it is INCONCLUSIVE.
        looks: numbers of seeds after which the study may stop; each look takes an equal share of the error.
        exact: the numbers have no scatter, so that a claim holds or not; one seed will do.
        alpha: error rate of the study, which its claims share equally.
    """

    question: str
    why: str
    base: str = ""
    settings: Settings = field(default_factory=dict)
    arms: Mapping[str, Arm]
    seeds: Sequence[int] = ()
    measures: Mapping[str, Measure] = field(default_factory=lambda: {"final": final})
    claims: Sequence[Claim]
    prediction: Mapping[str, float]
    rates: Sequence[float] | Mapping[str, Sequence[float]] = ()
    rate_seeds: Sequence[int] = (101, 102, 103)
    crashed: Mapping[str, float] = field(default_factory=lambda: {"final": 0.0})
    looks: Sequence[int] = ()
    exact: bool = False
    alpha: float = ALPHA

    def __post_init__(self) -> None:
        if not self.seeds:
            object.__setattr__(self, "seeds", (0,) if self.exact else tuple(range(8)))

    @property
    def share(self) -> float:
        """Error rate of one claim at one look."""
        return self.alpha / len(self.claims) / max(1, len(self.looks))

    def rates_of(self, arm: str) -> Sequence[float]:
        """The learning rates to try in an arm; empty for none."""
        return self.rates.get(arm, ()) if isinstance(self.rates, Mapping) else self.rates

    def config(self, arm: str, seed: int, rate: float | None = None, *, trial: bool = False) -> RunConfig:
        """The configuration of one run.

        Args: rate: learning rate; None leaves it as it is; trial: the run is one of those that choose the rate.
        Raises: ConfigErrors with every wrong setting.
        """
        own = self.arms[arm]
        assert isinstance(own, Mapping)
        values: dict[str, Any] = {}
        for key, value in {**self.settings, **own, "seed": seed}.items():
            put(values, SHORT.get(key, key), value)
        if rate is not None:
            put(values, "optim.lr", rate)
        base = recipe(Path(self.base)) if self.base.endswith(".toml") else Source({"env": {"type": self.base}}, {})
        layers = [Source(ALWAYS, {}), base, Source(values, dict.fromkeys(leaves(values), f"arm {arm!r} of the study"))]
        if trial:
            with contextlib.suppress(ConfigErrors):  # An environment without this option.
                return resolve([*layers, Source({"env": {"seed": TRIAL_TASKS}}, {"env.seed": "the trials"})], CHECKS)[0]
        return resolve(layers, CHECKS)[0]


def load(path: Path, *, settings: bool = True) -> Study:
    """The study that a Python file defines as `study`; the file is run.

    Args: settings: whether the arms' settings are checked, which reads the models that they name.
    Raises: ConfigError E095 for a file without one, ConfigErrors with every mistake of the study.
    """
    spec = importlib.util.spec_from_file_location(f"gnomon_study_{path.stem}", path)
    if spec is None or spec.loader is None or not path.is_file():
        raise ConfigError("E095", f"{path} is not a Python file", where=str(path), fix="gnomon study --list")
    module = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except ConfigError:
        raise
    except Exception as error:  # The file is the user's code.
        why = f"{type(error).__name__}: {error}"
        raise ConfigError("E095", "the study cannot be read", where=str(path), why=why) from error
    study = vars(module).get("study")
    if not isinstance(study, Study):
        fix = "study = Study(question=…, why=…, base=…, arms=…, claims=…, prediction=…)"
        raise ConfigError("E095", f"{path.name} does not define the variable `study`", where=str(path), fix=fix)
    errors = mistakes(study, str(path))
    if settings and not errors:
        errors = wrong_settings(study)
    if errors:
        raise ConfigErrors(errors)
    return study


def sha256(path: Path) -> str:
    """Of the file of a study."""
    return sha256_of(path.read_bytes())


def sha256_of(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def numbers_of(study: Study, arm: str) -> Numbers | None:
    """The function of an arm that trains nothing; None for one of runs."""
    found = study.arms[arm]
    return None if isinstance(found, Mapping) else found


def mistakes(study: Study, where: str) -> list[ConfigError]:
    """What is wrong with the design of a study."""
    return [
        ConfigError("E096", what, where=where, why=why, fix=fix) for wrong, what, why, fix in checks(study) if wrong
    ]


def checks(study: Study) -> list[tuple[bool, str, str, str]]:
    """Conditions that must not hold: what is wrong, why, and a fix."""
    runs = [name for name in study.arms if numbers_of(study, name) is None]
    total = math.fsum(study.prediction.values())
    named: list[tuple[str, Mapping[str, Any], str]] = [
        (claim.measure, study.measures, "measure") for claim in study.claims if runs
    ]
    named += [(arm, study.arms, "arm") for arm in (study.rates if isinstance(study.rates, Mapping) else ())]
    named += [(arm, study.arms, "arm") for claim in study.claims for arm in (claim.arm, claim.than) if arm]
    unknown = [
        (True, f"there is no {kind} {name!r}", f"the study has {', '.join(known) or 'none'}", nearest(name, known))
        for name, known, kind in named
        if name not in known
    ]
    return [
        *unknown,
        (not study.arms, "the study has no arms", "", 'arms={"grpo": {"objective": "grpo"}, …}'),
        (
            bool(study.rates) and not set(study.seeds).isdisjoint(study.rate_seeds),
            "learning rates are chosen on seeds that also decide the study",
            "a learning rate that is best on these seeds by chance would favour its arm",
            "rate_seeds=(101, 102, 103)",
        ),
        (not study.claims, "the study has no claims", "", 'claims=[Claim(measure="final", arm=…, than=…)]'),
        (len(set(study.seeds)) < len(study.seeds), "a seed appears twice", "every seed counts once", "seeds=range(8)"),
        (
            len(study.seeds) < 2 and not study.exact,
            "the study has fewer than 2 seeds",
            "one seed does not show how much results vary between seeds, so no claim could be decided",
            "seeds=range(8)",
        ),
        (
            bool(runs) and not study.base,
            f"the arms {', '.join(runs)} are settings, and the study has no base",
            "settings change an environment or a recipe, which `base` names",
            'base="countdown"',
        ),
        (
            abs(total - 1) > 1e-9 or set(study.prediction) != {"PASS", "FAIL", "INCONCLUSIVE"},
            "the prediction does not give PASS, FAIL and INCONCLUSIVE probabilities that add up to 1",
            f"they add up to {total:g}",
            'prediction={"PASS": 0.6, "FAIL": 0.2, "INCONCLUSIVE": 0.2}',
        ),
        (
            bool(study.looks)
            and (list(study.looks) != sorted(set(study.looks)) or study.looks[-1] != len(study.seeds)),
            "looks does not increase up to the number of seeds",
            f"the study has {len(study.seeds)} seeds and looks after {list(study.looks)}",
            f"looks=({len(study.seeds) // 2}, {len(study.seeds)})",
        ),
    ]


def wrong_settings(study: Study) -> list[ConfigError]:
    """What the settings of the arms get wrong, each arm by its first seed."""
    found: list[ConfigError] = []
    for arm in study.arms:
        if numbers_of(study, arm) is not None:
            continue
        try:
            study.config(arm, study.seeds[0], next(iter(study.rates_of(arm)), None))
        except ConfigErrors as error:
            found += error.errors
        except ConfigError as error:
            found.append(error)
    return found
