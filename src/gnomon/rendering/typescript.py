"""Tools as TypeScript declarations, the format of gpt-oss."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from gnomon.rendering.base import Origin, Tool
from gnomon.rendering.encoding import Piece

__all__ = ["namespace"]

SCALARS = {"string": "string", "number": "number", "integer": "number", "boolean": "boolean"}


def namespace(tools: Sequence[Tool]) -> Iterator[Piece]:
    """The `functions` namespace; nothing without tools."""
    if not tools:
        return
    yield Piece(Origin.TEMPLATE, "# Tools\n\n## functions\n\nnamespace functions {\n\n")
    for tool in tools:
        yield Piece(Origin.TOOL, _declaration(tool))
    yield Piece(Origin.TEMPLATE, "} // namespace functions")


def _declaration(tool: Tool) -> str:
    comment = "".join(f"// {line}\n" for line in tool.description.split("\n"))
    if not tool.parameters:
        return f"{comment}type {tool.name} = () => any;\n\n"
    return f"{comment}type {tool.name} = (_: {{\n{_properties(tool.parameters, '')}}}) => any;\n\n"


def _properties(schema: Mapping[str, Any], indent: str) -> str:
    required = schema.get("required") or ()
    text = ""
    for name, part in (schema.get("properties") or {}).items():
        described = part.get("description")
        text += f"{indent}// {described}\n" if described else ""
        default = f", // default: {_default(part)}" if "default" in part else ","
        text += f"{indent}{name}{'' if name in required else '?'}: {_type(part, indent)}{default}\n"
    return text


def _default(part: Mapping[str, Any]) -> str:
    """A default value: an enum choice without quotes, any other value as JSON."""
    return str(part["default"]) if part.get("enum") else json.dumps(part["default"], ensure_ascii=False)


def _type(part: Mapping[str, Any], indent: str) -> str:
    """The TypeScript type; `any` for schemas that the format cannot express."""
    kind = part.get("type")
    if isinstance(kind, list):
        return " | ".join(SCALARS.get(one, str(one)) for one in kind)
    if kind == "object":
        deeper = indent + "    "
        comment = f"{deeper}// {part['description']}\n" if part.get("description") else ""
        return f"{comment}{{\n{_properties(part, deeper)}{deeper}}}"
    if kind == "array":
        return f"{_type(part['items'], indent)}[]" if isinstance(part.get("items"), Mapping) else "Array<any>"
    choices = part.get("enum")
    text = " | ".join(f'"{choice}"' for choice in choices) if choices else SCALARS.get(str(kind), "any")
    return f"{text} | null" if part.get("nullable") else text
