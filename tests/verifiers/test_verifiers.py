"""The judge's tools under any text: total, linear in time, exact, and never running what they read."""

import ast
import operator
from collections.abc import Callable
from contextlib import suppress
from fractions import Fraction
from pathlib import Path
from time import process_time

import pytest
from hypothesis import given
from hypothesis import strategies as st

import gnomon.verifiers
from gnomon.types import Status
from gnomon.verifiers import Expression, Extraction, Malformed, Strictness, evaluate, extract, integer
from gnomon.verifiers.expression import MAX_DEPTH, MAX_LENGTH
from gnomon.verifiers.extract import MAX_REPLY, MAX_SLOT
from gnomon.verifiers.hostile import hostile

CHARACTERS = st.characters()  # every code point, lone surrogates included
PIECES = st.sampled_from(["<answer>", "</answer>", "<think>", "</think>", "<answer", ">", " ", "\n", "4"])
REPLIES = st.lists(PIECES | st.text(CHARACTERS, max_size=5), max_size=25).map("".join)
Sign = Callable[[Fraction, Fraction], Fraction]
SIGNS: dict[str, Sign] = {"+": operator.add, "-": operator.sub, "*": operator.mul, "/": operator.truediv}
Tree = int | tuple["Tree", str, "Tree"]
TREES: st.SearchStrategy[Tree] = st.recursive(
    st.integers(0, 10**6), lambda deeper: st.tuples(deeper, st.sampled_from("+-*/"), deeper), max_leaves=12
)


@given(REPLIES, st.sampled_from(Strictness))
def test_every_reply_has_an_extraction(reply: str, strictness: Strictness) -> None:
    found = extract(reply, strictness)
    assert isinstance(found, Extraction)
    assert (found.text is None) != (found.status is None)
    if found.text is not None:
        assert found.span is not None and reply[slice(*found.span)] == found.text != ""
    if found.text is not None and strictness is not Strictness.LENIENT:  # A last line may hold anything.
        assert "<answer>" not in found.text and "</answer>" not in found.text


@given(REPLIES)
def test_a_looser_strictness_accepts_what_a_stricter_one_accepts(reply: str) -> None:
    """Each accepts more than the one before; the white-space-only slot of `exact` is the one exception."""
    ladder = (Strictness.EXACT, Strictness.TRIMMED, Strictness.ONLY, Strictness.LAST, Strictness.LENIENT)
    found = [extract(reply, strictness).text for strictness in ladder]
    exact = (found[0] or "").strip() or None
    for strict, loose in zip([exact, *found[1:]], found[1:], strict=False):
        assert strict is None or strict == loose


@given(st.text(CHARACTERS, max_size=60) | st.text("0123456789+-*/() .", max_size=60))
def test_every_text_is_an_expression_or_malformed(text: str) -> None:
    try:
        assert isinstance(evaluate(text), Expression)
    except Malformed as problem:
        assert str(problem).isprintable() and str(problem)


@given(st.text(CHARACTERS, max_size=30) | st.text("0123456789-−", max_size=30))
def test_every_text_is_an_integer_or_malformed(text: str) -> None:
    try:
        assert abs(integer(text)) < 10**18
    except Malformed as problem:
        assert str(problem)


@given(st.integers(-(10**18) + 1, 10**18 - 1))
def test_an_integer_reads_back(value: int) -> None:
    assert integer(str(value)) == value


def written(tree: Tree) -> str:
    return str(tree) if isinstance(tree, int) else f"({written(tree[0])}{tree[1]}{written(tree[2])})"


def worth(tree: Tree) -> Fraction:
    return Fraction(tree) if isinstance(tree, int) else SIGNS[tree[1]](worth(tree[0]), worth(tree[2]))


def leaves(tree: Tree) -> tuple[int, ...]:
    return (tree,) if isinstance(tree, int) else leaves(tree[0]) + leaves(tree[2])


@given(TREES)
def test_values_are_those_of_fractions(tree: Tree) -> None:
    text = written(tree)
    try:
        expected = worth(tree)
    except ZeroDivisionError:
        with pytest.raises(Malformed, match="division by zero"):
            evaluate(text)
        return
    found = evaluate(text)
    assert found.value == expected
    assert found.numbers == leaves(tree)


@given(st.lists(st.tuples(st.sampled_from("+-*/"), st.integers(1, 999)), max_size=20), st.integers(0, 999))
def test_precedence_is_the_usual_one(rest: list[tuple[str, int]], first: int) -> None:
    """Against Python's own parser, with every number a Fraction."""
    text = str(first) + "".join(sign + str(number) for sign, number in rest)
    tree = ast.parse(text, mode="eval").body

    def value(node: ast.expr) -> Fraction:
        if isinstance(node, ast.Constant):
            assert isinstance(node.value, int)
            return Fraction(node.value)
        assert isinstance(node, ast.BinOp)
        sign = {ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/"}[type(node.op)]
        return SIGNS[sign](value(node.left), value(node.right))

    assert evaluate(text).value == value(tree)


def test_the_caps_of_an_expression() -> None:
    assert evaluate("(" * MAX_DEPTH + "1" + ")" * MAX_DEPTH).value == 1
    with pytest.raises(Malformed, match="nested"):
        evaluate("(" * (MAX_DEPTH + 1) + "1" + ")" * (MAX_DEPTH + 1))
    assert evaluate("1" + "+1" * 255).value == 256
    assert evaluate("1".rjust(MAX_LENGTH)).value == 1
    with pytest.raises(Malformed, match="characters"):
        evaluate("1".rjust(MAX_LENGTH + 1))


def test_the_caps_of_an_extraction() -> None:
    assert extract(f"<answer>{'4' * MAX_SLOT}</answer>").text == "4" * MAX_SLOT
    assert extract(f"<answer>{'4' * (MAX_SLOT + 1)}</answer>").status is Status.MALFORMED
    answer = "<answer>4</answer>"
    assert extract(answer + " " * (MAX_REPLY - len(answer))).text == "4"
    assert extract(answer + " " * MAX_REPLY).status is Status.NO_ANSWER


def test_reasoning_that_never_closes_hides_an_answer_however_far_behind() -> None:
    assert extract("<think>" + "x" * (2 * MAX_REPLY) + "<answer>4</answer>").status is Status.NO_ANSWER
    assert extract("<think>" + "x" * (2 * MAX_REPLY) + "</think><answer>4</answer>").text == "4"


def test_a_strictness_may_be_spelled_and_a_wrong_one_is_refused() -> None:
    spelled: Strictness = "exact"  # type: ignore[assignment]
    assert extract("<answer>4</answer> so", spelled).status is Status.OUT_OF_PLACE
    unknown: Strictness = "loose"  # type: ignore[assignment]
    with pytest.raises(ValueError, match="loose"):
        extract("<answer>4</answer>", unknown)


def test_another_tag() -> None:
    assert extract("<move>e4</move>", tag="move").text == "e4"
    assert extract("<answer>e4</answer>", tag="move").status is Status.NO_ANSWER


@pytest.mark.parametrize(
    ("strictness", "text"),
    [(s, t) for s in Strictness for t in ("<answer>", "</answer>", "<answer>4</answer>", "<think>")],
)
def test_a_megabyte_of_tags_takes_no_time(strictness: Strictness, text: str) -> None:
    """About 10 ms when linear; a quadratic scan of a megabyte takes minutes."""
    began = process_time()
    extract(text * (1_000_000 // len(text)), strictness)
    assert process_time() - began < 1.0


def test_the_hostile_corpus() -> None:
    for entry in hostile():
        name, text = entry.name, entry.text
        for reply in (text, f"<answer>{text}</answer>"):
            for strictness in Strictness:
                began = process_time()
                found = extract(reply, strictness)
                for read in (evaluate, integer):
                    with suppress(Malformed):
                        read(found.text or text)
                assert process_time() - began < 1.0, name


def test_nothing_is_ever_run() -> None:
    """No call that could run a text, in the source of what reads texts.

    What carries functions to workers, and what calls functions of other libraries, reads none.
    """
    running = {"eval", "exec", "compile", "__import__", "getattr", "literal_eval", "parse_expr", "sympify"}
    sources = set(Path(gnomon.verifiers.__file__).parent.rglob("*.py"))
    sources = {path for path in sources if path.name not in ("pool.py", "worker.py", "carry.py")}
    sources = {path for path in sources if path.parent.name != "foreign"}
    assert len(sources) >= 3
    for path in sources:
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call):
                name = getattr(node.func, "id", getattr(node.func, "attr", ""))
                pattern = ast.unparse(node.func) == "re.compile"
                assert pattern or name not in running, f"{path.name}:{node.lineno}"
