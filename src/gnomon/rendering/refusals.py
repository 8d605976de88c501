"""What a renderer refuses to write, rather than to guess."""

from __future__ import annotations

from gnomon.errors import ModelError

__all__ = ["no_place", "no_tools"]


def no_tools(renderer: str) -> ModelError:
    return ModelError(
        "E314",
        f"the {renderer} renderer has no place for tools",
        why="the model was not trained on descriptions of tools, so none can be written for it",
        fix="a model of the chatml, qwen3, llama3 or harmony family, or a task that describes its tools in words",
    )


def no_place(renderer: str, what: str, fix: str) -> ModelError:
    return ModelError(
        "E315", f"the {renderer} renderer has no place for {what}", why="the model was never shown one there", fix=fix
    )
