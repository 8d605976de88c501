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
    from gnomon.rendering import choose
    from gnomon.rendering.published import chat_template

    try:
        folder = present_folder(str(recipe.get("policy.path", "tiny")))
        tokenizer = Tokenizer(folder)
        usual, forced = choose(tokenizer), choose(tokenizer, name)  # type: ignore[arg-type]
        own = chat_template(folder) is not None
    except GnomonError:
        return ""
    if type(usual) is type(forced):
        return ""
    asks = f"the chat template of the model folder asks for {type(usual).__name__}" if own else (
        "the model folder has no chat template, so nothing says that the model knows these markers"
    )  # fmt: skip
    return f"policy.renderer={name} is forced, and {asks}"
