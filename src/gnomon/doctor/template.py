"""Whether the renderer that a recipe names is the one of its model folder."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gnomon.errors import GnomonError

__all__ = ["foreign"]


def foreign(recipe: Mapping[str, Any]) -> str:
    """How a forced renderer differs from what the model folder asks for, as a sentence; empty where it does not.

    Empty too where the folder is no longer there.
    """
    name = str(recipe.get("policy.renderer", "auto"))
    if name == "auto":
        return ""
    from gnomon.models.folder import present_folder
    from gnomon.models.tokenizer import Tokenizer
    from gnomon.rendering.choose import departure

    try:
        folder = present_folder(str(recipe.get("policy.path", "tiny")))
        return departure(Tokenizer(folder), name)  # type: ignore[arg-type]
    except GnomonError:
        return ""
