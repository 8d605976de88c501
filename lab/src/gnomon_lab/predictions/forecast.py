"""The short forms in which a command line states a forecast."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

from gnomon.errors import ConfigError, ConfigErrors

__all__ = ["from_file", "from_options"]

NUMBER = r"[-+]?(?:\d+\.?\d*|\.\d+)(?:e[-+]?\d+)?"
INTERVAL = re.compile(rf"({NUMBER}):({NUMBER})")
QUANTILE = re.compile(rf"({NUMBER})=({NUMBER})")
REACHES = re.compile(rf"({NUMBER})@(\d{{1,9}})=({NUMBER})")
BEATS = re.compile(rf"(.+)=({NUMBER})")


def from_options(
    pass_at_1: str, length: str, level: float, reaches: list[str], beats: list[str]
) -> list[dict[str, Any]]:
    """The questions of a command line as plain values. Raises: ConfigErrors E081."""
    problems: list[ConfigError] = []
    found: list[dict[str, Any]] = []
    for option, metric, text in (("--pass-at-1", "pass@1", pass_at_1), ("--length", "length", length)):
        if text and (question := end_value(metric, text, level)) is None:
            problems.append(unread(option, text, f"{option} 0.5:0.7   or quantiles: {option} 0.1=0.4,0.5=0.6,0.9=0.7"))
        elif text:
            found.append(question or {})
    for text in reaches:
        if match := REACHES.fullmatch(text):
            value, step, p = match.groups()
            found.append({"kind": "reaches", "value": float(value), "step": int(step), "probability": float(p)})
        else:
            problems.append(unread("--reaches", text, "--reaches VALUE@STEP=PROBABILITY, such as 0.5@40=0.7"))
    for text in beats:
        if match := BEATS.fullmatch(text):
            found.append({"kind": "beats", "other": match[1], "probability": float(match[2])})
        else:
            problems.append(unread("--beats", text, "--beats RUN=PROBABILITY, such as runs/b=0.6"))
    if problems:
        raise ConfigErrors(problems)
    return found


def end_value(metric: str, text: str, level: float) -> dict[str, Any] | None:
    """An interval or quantiles of a metric at the end; None for text of neither form."""
    if match := INTERVAL.fullmatch(text):
        return {"kind": "interval", "metric": metric, "low": float(match[1]), "high": float(match[2]), "level": level}
    parts = [QUANTILE.fullmatch(part.strip()) for part in text.split(",")]
    if not all(parts):
        return None
    return {"kind": "quantiles", "metric": metric, "at": {part[1]: float(part[2]) for part in parts if part}}


def unread(option: str, text: str, fix: str) -> ConfigError:
    return ConfigError("E081", f"{text!r} is not a forecast", where=option, fix=fix)


def from_file(path: Path) -> list[dict[str, Any]]:
    """The `[[questions]]` of a TOML file. Raises: ConfigError E082."""
    try:
        found = tomllib.loads(path.read_text("utf-8")).get("questions", [])
    except (OSError, ValueError) as error:
        raise ConfigError("E082", "the questions cannot be read", where=str(path), why=str(error)) from error
    if not isinstance(found, list):
        raise ConfigError("E082", "the questions cannot be read", where=str(path), fix="write each under [[questions]]")
    return [number_types(question) for question in found]


def number_types(question: Any) -> Any:
    """Whole numbers as the fractions that a question asks for; TOML tells 1 from 1.0."""
    if not isinstance(question, dict):
        return question
    floats = ("low", "high", "level", "value", "probability")
    found: dict[str, Any] = {**question}
    if isinstance(levels := found.get("at"), dict):
        found["at"] = {key: float(value) if type(value) is int else value for key, value in levels.items()}
    return {key: float(value) if key in floats and type(value) is int else value for key, value in found.items()}
