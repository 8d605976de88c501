"""Whether a server computes with the weights of a folder, by the log-probabilities that it returns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

from gnomon.engines.completions import Completions
from gnomon.engines.receipt import DEVIATIONS, WHOLE, Share, deviations, difference, root_mean_square, share_of
from gnomon.errors import ModelError

__all__ = ["Answer", "ServedWeights", "check_weights", "served_text"]

NEAR, FAR = 2.0, 5.0
"""Differences from the folder, in multiples of what rounding to bfloat16 changes: up to the first one, the folder is
served; from the second one on, it is not."""


class Answer(StrEnum):
    SERVED = "served"
    NOT_SERVED = "not served"
    UNKNOWN = "cannot tell"


@dataclass(frozen=True, slots=True, kw_only=True)
class ServedWeights:
    """What a comparison of a server with a folder shows. Differences are root mean squares, in nats per token."""

    answer: Answer
    reason: str
    model: str
    """Name under which the server has the model."""
    tokens: int
    difference: float
    """Between the server and the folder."""
    rounding: float
    """What rounding to bfloat16 changes, by comparison of the folder with itself."""
    old_difference: float | None = None
    """Between the server and the old folder."""
    share: Share | None = None
    """Of the change from the old folder to the new one, in the server's change from the old folder; `None` if the two
    folders have the same log-probabilities."""

    def body(self) -> dict[str, Any]:
        """As JSON."""
        fields = asdict(self) | {"answer": self.answer.value}
        fields["share"] = self.share and {"value": self.share.value, "error": self.share.error}
        return fields


def check_weights(
    url: str,
    folder: str | Path,
    *,
    old: str | Path | None = None,
    model: str = "",
    key: str = "",
    seconds: float = 120.0,
) -> ServedWeights:
    """Compare a server's log-probabilities with those of a model folder.

    The folder's are computed here, in float32 on the CPU, and once more in bfloat16, which shows what rounding changes.

    Args:
        url: of a server that returns log-probabilities of a prompt at `/v1/completions`.
        folder: the model that should be served.
        old: a folder that may be served in its place, such as the version before. With it, much smaller differences
            between the two are found.
        model: the name under which the server has the model; by default the first one that it lists.
        key: the server's key, sent as a bearer token.
        seconds: limit of each read from the server.
    Raises: ConfigError E093; ModelError E345, and as `model_folder`; ResourceError E550, E551, E552.
    """
    server = Completions(url, model=model, key=key, seconds=seconds)
    texts = texts_of(folder)
    if old is not None and texts_of(old) != texts:
        raise ModelError(
            "E345",
            "the two folders cannot be compared",
            where=f"{folder} and {old}",
            why="their tokenizers turn the same text into different tokens",
            fix="repeat the command without --old",
        )
    logps = [logp for text in texts for logp in server.logprobs(text)]
    new, rounded = local(folder, texts, "float32"), local(folder, texts, "bfloat16")
    before = None if old is None else local(old, texts, "float32")
    gap, rounding = root_mean_square(difference(logps, new)), root_mean_square(difference(rounded, new))
    change = [] if before is None else difference(new, before)
    share = share_of(difference(logps, before), change) if before is not None and any(change) else None
    answer, reason = decide_version(logps, new, before, rounding)
    return ServedWeights(
        answer=answer,
        reason=reason,
        model=server.model,
        tokens=len(logps),
        difference=gap,
        rounding=rounding,
        old_difference=None if before is None else root_mean_square(difference(logps, before)),
        share=share,
    )


def decide_version(
    logps: Sequence[float], new: Sequence[float], old: Sequence[float] | None, rounding: float
) -> tuple[Answer, str]:
    """The answer, and the reason for it.

    With an old folder, each answer is wrong with probability exp(−5.5²/2) = 2.7e-7 at most, as in `Receipts`.
    """
    gap = root_mean_square(difference(logps, new))
    if gap >= FAR * rounding:
        return (
            Answer.NOT_SERVED,
            f"the server differs from the folder {gap / rounding:.1f} times as much as rounding does",
        )
    if old is None:
        if gap <= NEAR * rounding:
            return Answer.SERVED, "the server differs from the folder as rounding does"
        return Answer.UNKNOWN, (
            f"the server differs from the folder {gap / rounding:.1f} times as much as rounding does: it may quantise "
            "the weights, or have a version near to the folder's. Pass the other version with --old"
        )
    served, changed = difference(logps, old), difference(new, old)
    if not any(changed):
        return Answer.UNKNOWN, "the two folders have the same log-probabilities"
    new_excluded = deviations([WHOLE * d - e for e, d in zip(served, changed, strict=True)], changed) >= DEVIATIONS
    old_excluded = (
        deviations([e - (1 - WHOLE) * d for e, d in zip(served, changed, strict=True)], changed) >= DEVIATIONS
    )
    match new_excluded, old_excluded:
        case False, True:
            return Answer.SERVED, "the server changed from the old folder as the new one did"
        case True, False:
            return Answer.NOT_SERVED, "the server has the old folder's weights"
        case True, True:
            return (
                Answer.NOT_SERVED,
                "the server has a part of the change from the old folder, or a version between them",
            )
    return Answer.UNKNOWN, "the two folders differ less than the server's rounding: serve one in float32"


def texts_of(folder: str | Path) -> list[tuple[int, ...]]:
    """Two token sequences: the sentences of a text, and the same sentences in reversed order."""
    from gnomon.models.folder import model_folder
    from gnomon.models.tokenizer import Tokenizer
    from gnomon.models.weights import PROSE

    tokenizer, sentences = Tokenizer(model_folder(str(folder))), PROSE.split(". ")
    return [tokenizer.encode(". ".join(order)) for order in (sentences, sentences[::-1])]


def local(folder: str | Path, texts: Sequence[Sequence[int]], dtype: str) -> list[float]:
    """Log-probabilities of every token but the first of each text, of the model in a folder."""
    import torch

    from gnomon.models.folder import model_folder
    from gnomon.models.policy import Policy
    from gnomon.models.precision import Precision
    from gnomon.models.scoring import score

    policy = Policy.load(model_folder(str(folder)), Precision.only(getattr(torch, dtype)))
    rows = [(index, tuple(text[1:])) for index, text in enumerate(texts)]
    values: list[float] = score(policy, [tuple(text[:1]) for text in texts], rows).tolist()
    return values


def served_text(served: ServedWeights) -> str:
    """The comparison as lines of text."""
    lines = [f"{served.answer.value}: {served.reason}", f"model      {served.model}, {served.tokens} tokens"]
    lines.append(
        f"difference {served.difference:.3g} nats from the folder; rounding to bfloat16 changes {served.rounding:.3g}"
    )
    if served.old_difference is not None:
        lines.append(f"old folder {served.old_difference:.3g} nats from it")
    if served.share is not None:
        lines.append(
            f"share      {served.share.value:.3f} ± {served.share.error:.3f} of the change from the old folder"
        )
    return "\n".join(lines)
