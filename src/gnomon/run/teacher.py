"""The reference policy that the settings name, and whether it reads the tokens of the policy. It needs no torch."""

from __future__ import annotations

from pathlib import Path

from gnomon.config import RunConfig
from gnomon.errors import ConfigError
from gnomon.models.folder import model_folder, table

__all__ = ["reference_folder", "require_same_tokens"]


def reference_folder(config: RunConfig) -> Path:
    """The folder of `policy.reference`.

    Raises: ModelError, as `model_folder`; ConfigError E180 for another tokenizer, E055 for a vocabulary of another size
        under the full KL penalty.
    """
    ours, theirs = model_folder(config.policy.path), model_folder(config.policy.reference)
    require_same_tokens(ours, theirs, "its reference", "the reference scores the tokens of the policy")
    sizes = [table(folder / "config.json").get("vocab_size") for folder in (ours, theirs)]
    if sizes[0] != sizes[1] and config.regularize.kl and config.regularize.estimator == "full":
        raise ConfigError(
            "E055",
            f"the policy has a vocabulary of {sizes[0]} tokens, and its reference one of {sizes[1]}",
            where="policy.reference",
            why="regularize.estimator=full compares whole next-token distributions",
            fix="regularize.estimator=k2, which compares the sampled tokens",
        )
    return theirs


def require_same_tokens(ours: Path, theirs: Path, whose: str, why: str) -> None:
    """Args: whose: the other model, as in `its opponent`. Raises: ConfigError E180 where the tokenizers differ."""
    if (ours / "tokenizer.json").read_bytes() != (theirs / "tokenizer.json").read_bytes():
        raise ConfigError(
            "E180",
            f"the policy and {whose} have different tokenizers",
            where=f"{ours} and {theirs}",
            why=f"{why}, which each tokenizer would decode to different text",
            fix="use policies that were trained from the same base",
        )
