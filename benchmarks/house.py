"""The size and shape of the source: what a stranger must read, and where it is tangled.

    python benchmarks/house.py            as a table
    python benchmarks/house.py --json     as data, to compare two versions

A circle is a set of modules that import each other when they are imported; to import `a.b` also runs `a/__init__`.
The files of a prompt are those whose code runs in one step of `countdown`, from the prompt to its gradient, in this
process.
"""

from __future__ import annotations

import argparse
import ast
import asyncio
import json
import re
import sys
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from types import FrameType
from typing import Any

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "gnomon"
BESIDE = (ROOT / "src" / "gnomon_ray", ROOT / "src" / "gnomon_tinker", ROOT / "lab" / "src" / "gnomon_lab")
"""Packages that the core does without."""
SETTINGS = (
    "rollout.in_flight", "rollout.lag", "policy.lora.rank", "policy.dtype", "optim.lr", "engine.type", "learner",
    "launch.type", "rollout.refill", "eval.samples",
)  # fmt: skip
"""Ten settings: the files that read them, and those that name them, in a fix or a sentence too."""
PARTICIPLES = frozenset(
    [
        "found",
        "trained",
        "asked",
        "passed",
        "made",
        "held",
        "given",
        "told",
        "said",
        "heard",
        "known",
        "seen",
        "shown",
        "wanted",
        "read",
        "written",
        "built",
        "taken",
        "left",
        "kept",
        "named",
        "drawn",
        "spent",
        "judged",
        "chosen",
        "sampled",
        "measured",
    ]
)
"""Names that say what happened to a value and not what it is."""
MAKERS = ("gnomon.run.makers.", "gnomon.config.placement")
"""Modules that may know the concrete class of an engine or a learner, or the text of the setting that chooses it."""
CHOOSING = re.compile(r"(?:.*\.)?(?:(?<!dtypes\.)learner|engine\.type|launch\.type)")
"""A value of such a setting in code."""
PARTS = ({"sample", "load"}, {"forward_backward", "optim_step"})
"""Methods of an engine, and of a learner."""
BY_SCRIPT = re.compile(
    r"(reference|reference-curves|mistakes|models|gallery|objective-names|objectives|reasoning-gym-trust)\.md|objectives/"
)
"""Pages of docs/ that a script writes."""


def trees(folder: Path = SOURCE) -> dict[str, ast.Module]:
    """Every module of a package by its dotted name."""
    return {
        ".".join(file.relative_to(folder.parent).with_suffix("").parts).removesuffix(".__init__"): ast.parse(
            file.read_text(encoding="utf-8")
        )
        for file in sorted(folder.rglob("*.py"))
    }


def imports(tree: ast.Module, modules: Mapping[str, ast.Module]) -> Iterator[str]:
    """The modules that a module imports as it is imported itself."""
    waiting: list[ast.stmt] = list(tree.body)
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name in modules)
        elif isinstance(node, ast.ImportFrom) and node.module:
            for alias in node.names:
                inner = f"{node.module}.{alias.name}"
                yield from (name for name in (inner if inner in modules else node.module,) if name in modules)
        elif isinstance(node, ast.Try):
            waiting += node.body
        elif isinstance(node, ast.If):
            waiting += node.orelse if "TYPE_CHECKING" in ast.dump(node.test) else node.body + node.orelse


def around(module: str) -> set[str]:
    """The packages that a module lies in."""
    parts = module.split(".")
    return {".".join(parts[:depth]) for depth in range(1, len(parts))}


def circles(graph: Mapping[str, set[str]]) -> list[list[str]]:
    """The sets of modules that reach each other, by Tarjan's algorithm."""
    order: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    result: list[list[str]] = []

    def visit(node: str) -> None:
        order[node] = low[node] = len(order)
        stack.append(node)
        for after in graph[node]:
            if after not in order:
                visit(after)
                low[node] = min(low[node], low[after])
            elif after in stack:
                low[node] = min(low[node], order[after])
        if low[node] == order[node]:
            cut = stack.index(node)
            if len(stack) - cut > 1:
                result.append(sorted(stack[cut:]))
            del stack[cut:]

    sys.setrecursionlimit(10_000)
    for node in graph:
        if node not in order:
            visit(node)
    return result


def duplicates(modules: Mapping[str, ast.Module]) -> list[list[str]]:
    """Functions of at least four statements whose bodies differ in nothing but names and texts."""
    alike: dict[str, list[str]] = defaultdict(list)
    for module, tree in modules.items():
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef) and sum(isinstance(n, ast.stmt) for n in ast.walk(node)) > 5:
                shape = re.sub(r"(id|arg|attr|name|value|asname)='[^']*'", r"\1", ast.dump(ast.Module(node.body, [])))
                alike[shape].append(f"{module}.{node.name}")
    return [names for names in alike.values() if len(names) > 1]


def prompt_files() -> list[str]:
    """The files of which code runs in one step, from the prompts to the gradient."""
    from gnomon.config import Source, resolve
    from gnomon.keys import Key
    from gnomon.rollout import pack
    from gnomon.rollout.failures import judged_groups
    from gnomon.run.parts import build

    config, _ = resolve([Source({"env": "countdown", "rollout": {"prompts": 2, "group": 16, "max_tokens": 24}}, {})])
    parts = build(config)
    asyncio.run(parts.actor.sync(parts.learner.publish(), 0))
    files: set[str] = set()

    def note(frame: FrameType, event: str, arg: Any) -> None:
        files.add(frame.f_code.co_filename)

    tasks = parts.env.tasks("train")
    sys.setprofile(note)
    groups = asyncio.run(parts.actor.collect([(i, tasks[i]) for i in range(2)], Key(0).at("rollouts", step=0)))
    batch = parts.credit(
        pack(judged_groups(groups), sampling=parts.actor.sampling, exact=parts.actor.exact), parts.learner
    )
    (part,) = batch.updates(1, 1, Key(0).at("updates", step=0))
    stats = parts.learner.forward_backward(part, parts.objective)
    sys.setprofile(None)
    assert stats["trained"].value, "all rewards are equal, so that the step has no gradient"
    return sorted(str(Path(file).relative_to(SOURCE)) for file in files if file.startswith(str(SOURCE)))


def concrete(modules: Mapping[str, ast.Module]) -> set[str]:
    """Names of the classes that are engines or learners, and no protocols."""
    classes = [node for tree in modules.values() for node in ast.walk(tree) if isinstance(node, ast.ClassDef)]
    names: set[str] = set()
    while True:
        more = {
            node.name
            for node in classes
            for bases in ({ast.unparse(base) for base in node.bases},)
            for methods in (
                {each.name for each in node.body if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef)},
            )
            if "Protocol" not in bases and (bases & names or any(own <= methods for own in PARTS))
        }
        if more <= names:
            return names
        names |= more


def place_tests(modules: Mapping[str, ast.Module]) -> Iterator[tuple[str, int, str]]:
    """Where code asks for the concrete class of an engine or a learner, or compares the text of the setting that
    chooses one: module, line and code."""
    names = concrete(modules)
    for module, tree in modules.items():
        for node in ast.walk(tree):
            asked: list[ast.expr] = []
            if isinstance(node, ast.Call) and ast.unparse(node.func) in ("isinstance", "issubclass"):
                asked = node.args[1:]
            elif isinstance(node, ast.MatchClass):
                asked = [node.cls]
            elif isinstance(node, ast.Compare):
                sides = [node.left, *node.comparators]
                texts = any(isinstance(each, ast.Constant) and isinstance(each.value, str) for each in walked(sides))
                if texts and any(CHOOSING.fullmatch(ast.unparse(side)) for side in sides):
                    yield module, node.lineno, ast.unparse(node)
                asked = sides
            if any(isinstance(each, ast.Name) and each.id in names for each in walked(asked)):
                yield module, node.lineno, ast.unparse(node)


def bare_names(tree: ast.Module) -> Iterator[str]:
    """The names of variables and parameters. `left` is left out where a function or class also has `right` or `top`."""
    for part in tree.body:
        names = [
            node.id if isinstance(node, ast.Name) else node.arg
            for node in ast.walk(part)
            if isinstance(node, ast.Name | ast.arg)
        ]
        sides = not {"right", "top"}.isdisjoint(names)
        yield from (name for name in names if not (sides and name == "left"))


def participle_functions(tree: ast.Module) -> Iterator[str]:
    """Functions that say what happened to a value, and neither what they do nor what they return. A property or check
    that answers yes or no may be named by its state."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and ast.unparse(node.returns or node) != "bool":
            name = node.name.strip("_")
            if name in PARTICIPLES - {"read"} or (name.endswith("ed") and not name.endswith("eed") and "_" not in name):
                yield name


def walked(nodes: Iterable[ast.expr]) -> Iterator[ast.AST]:
    return (each for node in nodes for each in ast.walk(node))


def reads(node: ast.AST, setting: str) -> bool:
    """Whether an expression is the value of a setting, and not its name in a sentence, a fix or a declaration."""
    if isinstance(node, ast.Attribute):
        tail = ".".join(setting.split(".")[-2:]) if "." in setting else f"config.{setting}"
        return f".{ast.unparse(node)}".endswith(f".{tail}")
    is_get = isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "get"
    return is_get and "recipe" in ast.unparse(node.func) and ast.unparse(node.args[0]) == repr(setting)


def words_of_docs() -> dict[str, list[int]]:
    """Pages and words: the core's that people write, those that scripts write, and the laboratory's."""
    result = {"written by hand": [0, 0], "written by scripts": [0, 0], "laboratory": [0, 0]}
    for page in (ROOT / "docs").rglob("*.md"):
        name = page.relative_to(ROOT / "docs").as_posix()
        by_script = "written by scripts" if BY_SCRIPT.match(name) else "written by hand"
        counts = result["laboratory" if name.startswith("lab/") else by_script]
        counts[0] += 1
        counts[1] += len(page.read_text(encoding="utf-8").split())
    return result


def measure() -> dict[str, Any]:
    import gnomon
    from gnomon.config import Source, leaves, resolve

    modules = trees()
    texts = {file: file.read_text(encoding="utf-8") for file in sorted(SOURCE.rglob("*.py"))}
    packages: dict[str, list[int]] = defaultdict(lambda: [0, 0])
    for file, text in texts.items():
        package = packages[file.relative_to(SOURCE).parts[0]] if file.parent != SOURCE else packages["(top)"]
        package[0] += text.count("\n")
        package[1] += 1
    graph = {
        name: {each for direct in imports(tree, modules) for each in {direct} | around(direct) - around(name)} - {name}
        for name, tree in modules.items()
    }
    names = Counter(name for tree in modules.values() for name in bare_names(tree))
    everywhere = {name: tree for folder in (SOURCE, *BESIDE) for name, tree in trees(folder).items()}
    asking = [module for module, _, _ in place_tests(everywhere)]
    run = prompt_files()
    return {
        "lines": sum(lines for lines, _ in packages.values()),
        "files": len(texts),
        "functions": sum(
            isinstance(n, ast.FunctionDef | ast.AsyncFunctionDef) for t in modules.values() for n in ast.walk(t)
        ),
        "settings": len(list(leaves(resolve([Source({"env": "countdown"}, {})])[0].model_dump()))),
        "public names": len(gnomon.__all__),
        "files of a prompt": len(run),
        "packages of a prompt": len({file.partition("/")[0] for file in run}),
        "circles": circles(graph),
        "duplicates": len(duplicates(modules)),
        "tests on engines and learners": sum(not module.startswith(MAKERS) for module in asking),
        "the same in makers": sum(module.startswith(MAKERS) for module in asking),
        "participles as names": sum(names[name] for name in PARTICIPLES),
        "functions named by a participle": sum(len(list(participle_functions(tree))) for tree in modules.values()),
        "place as a name": names["place"],
        "files that read a setting, and that name it": {
            name: [
                sum(any(reads(node, name) for node in ast.walk(tree)) for tree in modules.values()),
                sum(
                    bool(re.search(rf"\bconfig\.{name}\b" if "." not in name else rf"\b{re.escape(name)}\b", t))
                    for t in texts.values()
                ),
            ]
            for name in SETTINGS
        },
        "pages and words of docs": words_of_docs(),
        "packages beside the core": {
            folder.name: [
                sum(file.read_text(encoding="utf-8").count("\n") for file in folder.rglob("*.py")),
                len(list(folder.rglob("*.py"))),
            ]
            for folder in BESIDE
        },
        "packages": {name: packages[name] for name in sorted(packages, key=lambda name: -packages[name][0])},
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    facts = measure()
    if given.json:
        print(json.dumps(facts, indent=1))
        return
    for name, value in facts.items():
        if isinstance(value, dict):
            print(f"\n{name}")
            for key, count in value.items():
                print(f"  {key:<24}", *(f"{each:>8,}" for each in (count if isinstance(count, list) else [count])))
        elif name == "circles":
            print(f"{name:<32}{len(value):>8,}", *("\n  " + ", ".join(circle) for circle in value))
        else:
            print(f"{name:<32}", *(f"{each:>7,}" for each in (value if isinstance(value, list) else [value])))


if __name__ == "__main__":
    main()
