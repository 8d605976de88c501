"""Audit the rewards that other packages ship: the table of docs/rewards.md.

    pip install --no-deps verl==0.9.1 openrlhf==0.11.2 ms-swift==4.6.0 skyrl-gym==0.4.0 trl==1.16.0 areal==1.0.4 \\
        mathruler==0.1.0 lm-eval==0.4.13 lighteval==0.13.0 opencompass==0.5.4 deepeval==4.3.1
    pip install math-verify==0.9.0 antlr4-python3-runtime==4.11.0 pylatexenc colorlog nest-asyncio tqdm
    python benchmarks/rewards_audit.py [NAME …]

Of a package, only the file with the reward is loaded. The tasks are 24 sums of two numbers; a right reply has the form
that the reward asks for.
"""

from __future__ import annotations

import importlib
import json
import random
import subprocess
import sys
import tempfile
from collections.abc import Callable
from functools import cache
from importlib.machinery import ModuleSpec
from importlib.util import module_from_spec
from pathlib import Path
from types import ModuleType
from typing import Any

HASH, BOXED, BARE = "It is {0}.\n#### {0}", "The sum is \\boxed{{{0}}}.", "{0}"
TAGS, ANSWER = "<think>I add.</think><answer>{0}</answer>", "I add.\nAnswer: {0}"
TAGGED_BOX = "<think>I add.</think>\\boxed{{{0}}}"
Call = Callable[[Any, str, str], Any]
REWARDS: dict[str, tuple[str, str]] = {}
"""Package and version, and form of a right reply, by the name of the function below."""


@cache
def loaded(path: str) -> ModuleType:
    """A file of a package. The packages around it are empty: to import them would import their trainers."""
    folder = next(folder for folder in sys.path if Path(folder, path).is_file())
    parts = Path(path.removesuffix("/__init__.py")).with_suffix("").parts
    for depth in range(1, len(parts)):
        name = ".".join(parts[:depth])
        if name not in sys.modules:
            sys.modules[name] = module_from_spec(ModuleSpec(name, None, is_package=True))
            sys.modules[name].__path__ = [str(Path(folder, *parts[:depth]))]
    if parts[0] == "swift":  # It imports the type of an argument.
        sys.modules["swift.infer_engine"] = ModuleType("swift.infer_engine")
        sys.modules["swift.infer_engine"].__dict__["InferRequest"] = object
    return importlib.import_module(".".join(parts))


def reward(name: str, package: str, form: str, path: str, call: Call) -> None:
    """Make a function of verl's signature of it, which `gnomon audit verl:FILE:NAME` can call."""

    def compute_score(data_source: str, solution_str: str, ground_truth: str, extra_info: Any = None) -> float:
        return float(call(loaded(path), solution_str, ground_truth))

    REWARDS[name] = package, form
    globals()[name] = compute_score


V, S, G = "verl/utils/reward_score", "swift/rewards/orm.py", "skyrl_gym/envs"
T, A, L = "trl/rewards/accuracy_rewards.py", "areal/reward/__init__.py", "lm_eval/tasks"
VERL, SWIFT, SKYRL = "verl 0.9.1", "ms-swift 4.6.0", "skyrl-gym 0.4.0"
TRL, AREAL, LM_EVAL = "trl 1.16.0", "areal 1.0.4", "lm-eval 0.4.13"
reward("verl_gsm8k", VERL, HASH, f"{V}/gsm8k.py", lambda m, r, a: m.compute_score(r, a))
reward("verl_gsm8k_flexible", VERL, HASH, f"{V}/gsm8k.py", lambda m, r, a: m.compute_score(r, a, method="flexible"))
reward("verl_math_reward", VERL, BOXED, f"{V}/math_reward.py", lambda m, r, a: m.compute_score(r, a))
reward("verl_math_dapo", VERL, ANSWER, f"{V}/math_dapo.py", lambda m, r, a: m.compute_score(r, a)["acc"])
reward("verl_math_dapo_strict", VERL, BOXED, f"{V}/math_dapo.py", lambda m, r, a: m.compute_score(r, a, True)["acc"])
reward("verl_math_verify", VERL, BOXED, f"{V}/math_verify.py",
       lambda m, r, a: m._verify_in_subprocess(f"\\boxed{{{a}}}", r))  # fmt: skip
reward("verl_geo3k", VERL, TAGGED_BOX, f"{V}/geo3k.py", lambda m, r, a: m.compute_score(r, a))
reward("verl_search_em", VERL, TAGS, f"{V}/search_r1_like_qa_em.py", lambda m, r, a: m.compute_score(r, {"target": a}))
reward("verl_search_subem", VERL, TAGS, f"{V}/search_r1_like_qa_em.py",
       lambda m, r, a: m.compute_score_subem(r, {"target": a}))  # fmt: skip
reward("swift_accuracy", SWIFT, BOXED, S, lambda m, r, a: m.MathAccuracy()([r], [a])[0])
reward("swift_accuracy_tags", SWIFT, TAGS, S, lambda m, r, a: m.MathAccuracy()([r], [a])[0])
reward("skyrl_gsm8k", SKYRL, HASH, f"{G}/gsm8k/utils.py", lambda m, r, a: m.compute_score(r, a))
reward("skyrl_aime", SKYRL, ANSWER, f"{G}/aime/utils.py", lambda m, r, a: m.compute_score(r, a)["acc"])
reward("skyrl_search", SKYRL, TAGS, f"{G}/search/utils.py", lambda m, r, a: m.compute_score(r, {"target": a}))
reward("skyrl_search_subem", SKYRL, TAGS, f"{G}/search/utils.py",
       lambda m, r, a: m.compute_score_subem(r, {"target": a}))  # fmt: skip
reward("openrlhf_math", "openrlhf 0.11.2", BOXED, "openrlhf/utils/math_utils.py",
       lambda m, r, a: m.grade_answer(m.extract_boxed_answer(r) or "", a))  # fmt: skip
reward("trl_accuracy", TRL, BOXED, T, lambda m, r, a: m.accuracy_reward([[{"content": r}]], [a])[0])
reward("trl_reasoning_accuracy", TRL, TAGGED_BOX, T,
       lambda m, r, a: m.reasoning_accuracy_reward([[{"content": r}]], [a])[0])  # fmt: skip
reward(
    "math_verify",
    "math-verify 0.9.0",
    BOXED,
    "math_verify/__init__.py",
    lambda m, r, a: m.math_metric(*[[m.LatexExtractionConfig(), m.ExprExtractionConfig()]] * 2)([a], [r])[0],
)
reward("areal_gsm8k", AREAL, BOXED, A, lambda m, r, a: m.gsm8k_reward_fn("", r, [], [], a))
reward("areal_geometry3k", AREAL, "It is [{0}].", A, lambda m, r, a: m.geometry3k_reward_fn("", r, [], [], a))
reward("areal_clevr", AREAL, "It is [{0}].", A, lambda m, r, a: m.clevr_count_70k_reward_fn("", r, [], [], a))
reward("mathruler", "mathruler 0.1.0", BOXED, "mathruler/grader.py",
       lambda m, r, a: m.grade_answer(m.extract_boxed_content(r), a))  # fmt: skip
reward("lm_eval_hendrycks", LM_EVAL, "The sum is ${0}$.", f"{L}/hendrycks_math/utils.py",
       lambda m, r, a: m.process_results({"solution": f"\\boxed{{{a}}}"}, [r])["exact_match"])  # fmt: skip
reward("lm_eval_aime", LM_EVAL, BOXED, f"{L}/aime/utils.py",
       lambda m, r, a: m.process_results({"answer": a}, [r])["exact_match"])  # fmt: skip
reward("lm_eval_hrm8k", LM_EVAL, "$\\boxed{{{0}}}$", f"{L}/hrm8k/default/utils.py",
       lambda m, r, a: m.process_results({"answer": a}, [r])["exact_match"])  # fmt: skip
reward("lm_eval_agieval", LM_EVAL, BOXED, f"{L}/agieval/utils.py",
       lambda m, r, a: m.is_equiv(m.parse_math_answer(r), a))  # fmt: skip
reward("lighteval_math", "lighteval 0.13.0", "\\boxed{{{0}}}", "lighteval/metrics/normalizations.py",
       lambda m, r, a: m.math_normalizer(r) == m.math_normalizer(f"\\boxed{{{a}}}"))  # fmt: skip
reward("lighteval_gsm8k", "lighteval 0.13.0", HASH, "lighteval/metrics/normalizations.py",
       lambda m, r, a: m.gsm8k_normalizer(r) == m.gsm8k_normalizer(f"#### {a}"))  # fmt: skip
reward("opencompass_agieval", "opencompass 0.5.4", BARE, "opencompass/datasets/agieval/math_equivalence.py",
       lambda m, r, a: m.is_equiv(r, a))  # fmt: skip
reward("deepeval_quasi_exact", "deepeval 4.3.1", BARE, "deepeval/scorer/scorer.py",
       lambda m, r, a: m.Scorer.quasi_exact_match_score(a, r))  # fmt: skip


def tasks(form: str, folder: Path) -> Path:
    """Sums, with a right reply of that form."""
    draw, file = random.Random(1), folder / "tasks.jsonl"
    rows = []
    for _ in range(24):
        a, b = draw.randint(10, 99), draw.randint(10, 99)
        rows.append({"prompt": f"What is {a} + {b}?", "answer": str(a + b), "reply": form.format(a + b)})
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return file


def audited(name: str) -> str:
    """A row of the table."""
    package, form = REWARDS[name]
    with tempfile.TemporaryDirectory() as folder:
        words = ["audit", f"verl:{Path(__file__)}:{name}", "--tasks", str(tasks(form, Path(folder))), "--json"]
        done = subprocess.run([sys.executable, "-m", "gnomon", *words], capture_output=True, text=True, check=False)
    if not done.stdout.strip():
        why = (done.stderr.splitlines() or [f"exit code {done.returncode}"])[0]
        return f"| {name} | {package} | not audited: {why} | |"
    report = json.loads(done.stdout)
    rules: dict[str, list[str]] = {"blocking": [], "warning": []}
    for finding in report["findings"]:
        rules.setdefault(finding["severity"], []).append(finding["rule"])
    shown = [
        ", ".join(f"`{rule}`" for rule in dict.fromkeys(rules[kind])) or "none" for kind in ("blocking", "warning")
    ]
    return f"| {name} | {package} | {shown[0]} | {shown[1]} |"


def main() -> None:
    print("| reward | package | blocking | warnings |\n|---|---|---|---|")
    for name in sys.argv[1:] or REWARDS:
        print(audited(name), flush=True)


if __name__ == "__main__":
    main()
