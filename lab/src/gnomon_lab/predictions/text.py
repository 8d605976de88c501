"""Predictions, their scores and a person's calibration as text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from gnomon.errors import RunError
from gnomon.extensions import Panel
from gnomon.store import RunReader
from gnomon.terminal import one_line
from gnomon_lab.predictions.calibration import FEW, Calibration
from gnomon_lab.predictions.outcome import Answer, Scored, score
from gnomon_lab.predictions.register import Prediction

__all__ = ["calibration_text", "line_to_publish", "panel", "registered_text", "scored_text"]

UNITS = {"brier": "Brier", "log": "log score", "interval": "interval score", "pinball": "pinball loss"}


def line_to_publish(prediction: Prediction, sha256: str) -> str:
    return f"gnomon prediction sha256:{sha256} by {one_line(prediction.by)} for run {one_line(prediction.run)}"


def registered_text(prediction: Prediction, sha256: str, path: str) -> str:
    """What was registered, and the line that proves it to others."""
    asked = zip(prediction.questions, prediction.rules, strict=True)
    return "\n".join(
        [
            f"{path}   by {one_line(prediction.by)}, {prediction.at}",
            *(f"  {one_line(question.sentence)}\n    {one_line(rule)}" for question, rule in asked),
            "publish this line before the run begins, where others see it with a date:",
            line_to_publish(prediction, sha256),
        ]
    )


def scored_text(scored: Scored) -> str:
    """A line for the prediction, one for each question, one for the means."""
    lines = [f"prediction   by {one_line(scored.prediction.by)}, {scored.prediction.at}, sha256 {scored.sha256[:16]}"]
    lines.append(f"             {scored.attested}")
    for answer in scored.answers:
        happened = "   ".join(filter(None, outcome(answer)))
        lines.append(f"             {one_line(answer.question.sentence)}: {happened}")
    means = {name: value for name in ("brier", "log") if (value := scored.mean(name)) is not None}
    if means:
        lines.append(f"             mean {scores_text(means)}")
    return "\n".join(lines)


def panel(reader: RunReader) -> Panel | None:
    """The prediction of a run; None without one. A changed one is an `error`."""
    try:
        scored = score(reader)
    except RunError as error:
        why = f"{one_line(error.what)}: {one_line(error.why)}"
        facts = {"error": f"{error.what}: {error.why}"}
        return Panel(name="prediction", facts=facts, text=f"prediction   {why}", sentences=(facts["error"],))
    if scored is None:
        return None
    made = scored.prediction
    return Panel(
        name="prediction",
        facts=scored.body(),
        text=scored_text(scored),
        sentences=(f"Registered before the run by {made.by} ({made.at}), SHA-256 {scored.sha256}; {scored.attested}.",),
        head=("predicted", "outcome", "scores (smaller is better)"),
        rows=tuple((each.question.sentence, *outcome(each)) for each in scored.answers),
    )


def outcome(answer: Answer) -> tuple[str, str]:
    """What happened, and the scores of the answer."""
    if answer.state != "resolved":
        return f"{answer.state} ({one_line(answer.why)})", ""
    value = "" if answer.value is None else f"{answer.value:.4g}"
    why = f" ({one_line(answer.why)})" if answer.why else ""
    words = {True: "yes, ", False: "no, ", None: ""}[answer.happened]
    return f"{words}{value}{why}", scores_text(answer.scores)


def scores_text(scores: Mapping[str, float]) -> str:
    return ", ".join(f"{UNITS[name]} {value:.3f}" for name, value in scores.items())


def calibration_text(found: Sequence[Calibration]) -> str:
    return "\n".join(line for each in found for line in person_lines(each)) or "no prediction was found"


def person_lines(found: Calibration) -> list[str]:
    counts = ", ".join(f"{count} {state}" for state, count in found.states.items())
    lines = [f"{one_line(found.by)}   {found.runs} {'run' if found.runs == 1 else 'runs'}, questions: {counts}"]
    if found.brier is not None and found.log is not None and found.base_rate is not None:
        skill = "undefined, as every event had the same outcome" if found.skill is None else f"{found.skill:+.3f}"
        lines.append(f"  Brier {found.brier:.3f}, log score {found.log:.3f} (clipped at .01), means over runs")
        lines.append(f"  skill against the base rate ({found.base_rate:.2f}): {skill}")
    if found.events < FEW:
        lines.append(f"  calibration: too few events ({found.events} of at least {FEW})")
    for each in found.bins:
        lines.append(f"  stated {each.stated:.2f}   happened {each.happened}   {each.happened.n} events")
    for level, rate in found.coverage.items():
        lines.append(f"  intervals of {float(level):.0%}: {rate} held the value   {rate.n} intervals")
    lines += [f"  left out: {one_line(folder)}: {one_line(why)}" for folder, why in found.left_out.items()]
    return lines
