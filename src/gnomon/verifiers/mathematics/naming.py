r"""The name of a value: `x = …`, `f(x) = …`, `x \in …`, `(x, y) = …`."""

from __future__ import annotations

from gnomon.verifiers.mathematics.node import Node, walk
from gnomon.verifiers.mathematics.value import variables

__all__ = ["asked_total", "members", "name_of", "same_name", "strip_name"]

FUNCTIONS = frozenset("fghpqrstuFGHPQRST") | {r"\phi", r"\sigma", r"\tau", r"\zeta", r"\mu", r"\psi", r"\Gamma"}
"""Letters that name a function if a bracket follows."""


def strip_name(node: Node) -> tuple[str, Node]:
    """The name of a value, if it has one, and the value."""
    if node.kind != "relation":
        return "", node
    signs, sides = node.text.split(), node.parts
    name = name_of(sides[0]) or _function(sides[0], sides[1])
    if signs in (["="], ["\\in"], ["\\approx"]) and name and _free(sides[0], sides[1]):
        return name, sides[1]
    if signs == ["="] and sides[1].kind == "name" and name_of(sides[1]) and _free(sides[1], sides[0]):
        return name_of(sides[1]), sides[0]
    if len(signs) > 1 and set(signs) <= {"=", "\\approx"} and (name or _asked(sides[0])):
        # `x = 6 \cdot 7 = 42` and `m+n = 40+2 = 42` are one answer if their sides are equal.
        rest = 2 if name and _asked(sides[1]) else 1
        if name and rest == 1:
            return name, Node("relation", sides[1:], " ".join(signs[1:]))
        if not any(variables(side) for side in sides[rest:]):
            value = Node("relation", sides[rest:], " ".join(signs[rest:])) if len(sides) > rest + 1 else sides[rest]
            return name or "+".join(sorted(variables(sides[0]))), value
    return "", node


def asked_total(node: Node) -> Node | None:
    """The number in `m+n = 293`, where a question asks for `m+n`; None for any other node."""
    if node.kind != "relation" or node.text != "=" or not _asked(node.parts[0]) or variables(node.parts[1]):
        return None
    return node.parts[1]


def _function(left: Node, right: Node) -> str:
    """`x()` for x(t), if t occurs on the right side."""
    if left.kind != "product" or [part.kind for part in left.parts] != ["name", "name"]:
        return ""
    return f"{left.parts[0].text}()" if left.parts[1].text in variables(right) else ""


def _asked(node: Node) -> bool:
    """Whether a side is a formula of several variables, which a question can ask for: `m+n`, `ab`."""
    return not name_of(node) and node.kind in ("sum", "product", "quotient", "power") and len(variables(node)) > 1


def members(node: Node) -> Node:
    r"""`n \in \{2, 3\}` as the set of `n = 2` and `n = 3`; any other node as it is."""
    if node.kind != "relation" or node.text != "\\in" or node.parts[1].kind != "set" or not name_of(node.parts[0]):
        return node
    return Node("set", tuple(Node("relation", (node.parts[0], value), "=") for value in node.parts[1].parts))


def name_of(node: Node) -> str:
    """The name on a left side: `x`, `a_1`, `f()` for f(x), `x,y` for (x, y); empty for any other side."""
    if node.kind == "name":
        return node.text if variables(node) and node.text not in ("reals", "integers") else ""
    if node.kind == "tuple" and all(part.kind == "name" for part in node.parts):
        return ",".join(part.text for part in node.parts)
    if node.kind == "call" and node.text == "abs" and name_of(node.parts[0]).isupper():
        return name_of(node.parts[0])
    if node.kind == "product" and all(part.kind == "name" and part.text[:1].isupper() for part in node.parts):
        letters = "".join(part.text for part in node.parts)  # A segment, such as AB.
        return letters if len(letters) > 1 and letters[0] not in "P" else f"{letters[0]}()"
    if node.kind == "quotient" and all(_differential(part) for part in node.parts):
        return node.parts[0].parts[1].text + "'"  # dy/dx
    if node.kind in ("quotient", "ratio") and all(name_of(part) for part in node.parts):
        return ":".join(name_of(part) for part in node.parts)
    if node.kind == "product" and len(node.parts) == 2 and node.parts[1].kind in ("name", "number"):
        function = node.parts[0]
        base = function.parts[0] if function.kind == "power" else function
        if base.kind == "name" and base.text.partition("_")[0].rstrip("'") in FUNCTIONS:
            return f"{base.text}^-1()" if function.kind == "power" else f"{base.text}()"
    return ""


def same_name(answer: str, right: str) -> bool:
    """Whether two names can refer to the same value: y and f(x) can, dy/dx and f'(x) can."""
    if not answer or not right or answer == right:
        return True
    if answer.count("'") != right.count("'"):
        return False
    answer, right = answer.replace("'", ""), right.replace("'", "")
    return answer.removesuffix("()") == right.removesuffix("()") or ("y" in (answer, right) and "()" in answer + right)


def _differential(node: Node) -> bool:
    return (
        node.kind == "product" and len(node.parts) == 2 and node.parts[0].text == "d" and node.parts[1].kind == "name"
    )


def _free(left: Node, right: Node) -> bool:
    """Whether the name does not occur in its own value."""
    if left.kind == "tuple":
        return right.kind in ("tuple", "list")
    own = next(part.text for part in walk(left) if part.kind == "name")
    return own not in variables(right)
