"""Errors for messages that a renderer does not support."""

from __future__ import annotations

from gnomon.errors import ModelError

__all__ = ["no_place", "no_tools"]


def no_tools(renderer: str) -> ModelError:
    return ModelError(
        "E314",
        f"the {renderer} renderer does not support tools",
        why="models of this family were not trained on tool descriptions",
        fix="use a model of the chatml, qwen3, llama3 or harmony family, or describe the tools in the task",
    )


def no_place(renderer: str, what: str, fix: str) -> ModelError:
    return ModelError(
        "E315", f"the {renderer} renderer does not support {what}", why="the model was not trained on it", fix=fix
    )
