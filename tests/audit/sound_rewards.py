"""Sound rewards as people write them for TRL, verl, verifiers and reasoning-gym, and tasks to try them on.

An audit must stop no run over one of them. They are lenient where their like is: a reward that reads the last number of
a reply, that looks for the answer in the reasoning too, that catches every exception, or that pays a tenth for the
form. None of them pays a policy that does not solve the task.
"""

from __future__ import annotations

import ast
import asyncio
import json
import math
import random
import re
import string
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Callable
from fractions import Fraction
from types import SimpleNamespace
from typing import Any

from gnomon.integrations.rewards import Foreign, RubricReward, TrlReward, VerlScore
from gnomon.types import Message, Task

HERE = __name__


def asked(question: str, answer: Any, reply: str, **info: Any) -> Task:
    message = Message(role="user", content=question)
    return Task(
        id=str(len(question)) + question[-24:], messages=(message,), answer=answer, info={"reply": reply, **info}
    )


# Tasks.


def gsm8k(count: int) -> tuple[Task, ...]:
    """Sums in words, whose right reply ends with four hashes and a number."""
    rng = random.Random("gsm8k")
    rows = [(rng.randint(12, 99), rng.randint(3, 11), rng.randint(2, 9)) for _ in range(count)]
    return tuple(
        asked(
            f"Ann has {a} apples, buys {b} bags of {c} apples and eats one. How many are left? End with #### number.",
            str(a + b * c - 1),
            f"{b} bags hold {b * c} apples. {a} + {b * c} - 1 = {a + b * c - 1}.\n#### {a + b * c - 1}",
        )
        for a, b, c in rows
    )  # fmt: skip


def boxed(count: int) -> tuple[Task, ...]:
    """Fractions, roots, pairs and powers, in a box."""
    rng = random.Random("boxed")
    tasks = []
    for place in range(count):
        a, b, c = rng.randint(2, 30), rng.randint(31, 60), rng.randint(2, 9)
        share = Fraction(a, b)
        question, gold = (
            (f"Write {a} divided by {b} in lowest terms.", rf"\frac{{{share.numerator}}}{{{share.denominator}}}"),
            (f"Simplify the root of {c * c * 7}.", rf"{c}\sqrt{{7}}"),
            (f"Where do y = x + {a} and y = {b} meet?", f"({b - a}, {b})"),
            (f"What is {a} times {b}?", str(a * b)),
            (f"Expand x times x to the {c}, with {a} before it.", f"{a}x^{{{c + 1}}}"),
        )[place % 5]
        tasks.append(asked(rf"{question} Put the answer in \boxed{{}}.", gold, rf"So it must be \boxed{{{gold}}}."))
    return tuple(tasks)


def tagged(count: int) -> tuple[Task, ...]:
    """Whole numbers between answer tags, after reasoning between tags of its own."""
    rng = random.Random("tagged")
    pairs = [(rng.randint(100, 999), rng.randint(100, 999)) for _ in range(count)]
    return tuple(
        asked(
            f"What is {a} + {b}? Think between <think> tags and answer between <answer> tags.", str(a + b),
            f"<think>\nHundreds first, then the rest.\n</think>\n<answer>\n{a + b}\n</answer>",
        )
        for a, b in pairs
    )  # fmt: skip


CITIES = {
    "France": "Paris", "Italy": "Rome", "Spain": "Madrid", "Japan": "Tokyo", "Egypt": "Cairo", "Peru": "Lima",
    "Kenya": "Nairobi", "Norway": "Oslo", "Cuba": "Havana", "Chile": "Santiago", "Ghana": "Accra", "Iran": "Tehran",
    "Poland": "Warsaw", "Greece": "Athens", "Russia": "Moscow", "Austria": "Vienna", "Hungary": "Budapest",
    "Ireland": "Dublin", "Sweden": "Stockholm", "Finland": "Helsinki", "Portugal": "Lisbon", "Canada": "Ottawa",
    "Turkey": "Ankara", "the Netherlands": "Amsterdam",
}  # fmt: skip


def cities(count: int) -> tuple[Task, ...]:
    """Names between answer tags."""
    rows = list(CITIES.items())[:count]
    return tuple(
        asked(f"What is the capital of {land}? Answer as <answer>name</answer>.", city, f"<answer>{city}</answer>")
        for land, city in rows
    )


def choices(count: int) -> tuple[Task, ...]:
    """One of four letters."""
    rng = random.Random("choices")
    tasks = []
    for _ in range(count):
        a, b = rng.randint(10, 99), rng.randint(10, 99)
        right = rng.randrange(4)
        offered = [a + b + step for step in (-10, -1, 1, 10)]
        offered[right] = a + b
        lines = "\n".join(f"{letter}) {value}" for letter, value in zip("ABCD", offered, strict=True))
        tasks.append(asked(f"What is {a} + {b}?\n{lines}", "ABCD"[right], f"Adding them up.\nAnswer: {'ABCD'[right]}"))
    return tuple(tasks)


def countdown(count: int) -> tuple[Task, ...]:
    """An equation that uses each number once."""
    rng = random.Random("countdown")
    tasks = []
    for _ in range(count):
        a, b, c = rng.sample(range(2, 50), 3)
        equation = f"{a} * {b} - {c}"
        tasks.append(
            asked(
                f"Using the numbers {[a, b, c]}, make an equation that equals {a * b - c}. Each number once.",
                {"target": a * b - c, "numbers": [a, b, c]}, f"<think>try</think>\n<answer>{equation}</answer>",
                target=a * b - c, nums=[a, b, c],
            )
        )  # fmt: skip
    return tuple(tasks)


def orders(count: int) -> tuple[Task, ...]:
    """A sentence as a JSON object."""
    rng = random.Random("orders")
    names = string.ascii_lowercase
    rows = [
        ("".join(rng.sample(names, 5)).title(), rng.randint(2, 90), rng.choice(("tea", "rice"))) for _ in range(count)
    ]
    return tuple(
        asked(
            f"{name} orders {n} bags of {item}. As JSON with name, amount and item.",
            json.dumps({"name": name, "amount": n, "item": item}),
            f'```json\n{{"name": "{name}", "amount": {n}, "item": "{item}"}}\n```',
        )
        for name, n, item in rows
    )  # fmt: skip


def programs(count: int) -> tuple[Task, ...]:
    """A program from standard input to standard output."""
    rng = random.Random("programs")
    tasks = []
    for _ in range(count):
        a, b = rng.randint(2, 40), rng.randint(41, 99)
        cases = [(str(n), str(n * a + b)) for n in (0, 3, 17)]
        tasks.append(
            asked(
                f"Read n and print n times {a} plus {b}.", json.dumps(cases),
                f"```python\nprint(int(input()) * {a} + {b})\n```",
            )
        )  # fmt: skip
    return tuple(tasks)


# In the style of TRL: lists in, lists out.


def contents(completions: Any) -> list[str]:
    return [completion if isinstance(completion, str) else completion[0]["content"] for completion in completions]


def last_box(text: str) -> str | None:
    """What the last box holds, braces counted."""
    start = text.rfind("\\boxed{")
    if start < 0:
        return None
    depth, begin = 0, start + len("\\boxed")
    for place in range(begin, len(text)):
        depth += (text[place] == "{") - (text[place] == "}")
        if depth == 0:
            return text[begin + 1 : place]
    return None


def boxed_exact(completions, solution, **kwargs):
    """The text of the last box is the solution, spaces aside."""
    found = [last_box(content) for content in contents(completions)]
    return [
        float(f is not None and f.replace(" ", "") == s.replace(" ", "")) for f, s in zip(found, solution, strict=True)
    ]


def verified(content: str, sol: str) -> float | None:
    from latex2sympy2_extended import NormalizationConfig
    from math_verify import LatexExtractionConfig, parse, verify

    main = threading.current_thread() is threading.main_thread()  # Its limits work by signal.
    gold = parse(f"${sol}$", parsing_timeout=10 if main else None)
    if not gold:
        return None
    config = LatexExtractionConfig(
        normalization_config=NormalizationConfig(units=True), boxed_match_priority=0, try_extract_without_anchor=False
    )
    answer = parse(
        content, extraction_config=[config], extraction_mode="first_match", parsing_timeout=10 if main else None
    )
    return float(verify(gold, answer, timeout_seconds=5 if main else None))


def accuracy_math_verify(completions, solution, **kwargs):
    """Math-verify on the whole reply; None where the solution cannot be parsed."""
    return [verified(content, sol) for content, sol in zip(contents(completions), solution, strict=True)]


def reasoning_accuracy(completions, solution, **kwargs):
    """The same, on what follows the reasoning; 0 where it does not end."""
    return [
        verified(content.rpartition("</think>")[2], sol) if "</think>" in content else 0.0
        for content, sol in zip(contents(completions), solution, strict=True)
    ]


def tag_accuracy(completions, solution, **kwargs):
    """R1's accuracy: the last answer between tags, as it stands."""
    rewards = []
    for content, sol in zip(contents(completions), solution, strict=True):
        found = re.findall(r"<answer>(.*?)</answer>", content, re.DOTALL)
        rewards.append(1.0 if found and found[-1].strip() == sol.strip() else 0.0)
    return rewards


def think_format(completions, **kwargs):
    """Reasoning and an answer between their tags, and nothing else."""
    pattern = r"^<think>(?!.*<think>)(.*?)</think>\s*<answer>(?!.*<answer>)(.*?)</answer>\s*$"
    return [1.0 if re.match(pattern, content, re.DOTALL) else 0.0 for content in contents(completions)]


def tag_count(completions, **kwargs):
    """A quarter for each of four tags that stands there once."""
    tags = ("<think>\n", "\n</think>\n", "\n<answer>\n", "\n</answer>")
    return [sum(0.25 for tag in tags if content.count(tag) == 1) for content in contents(completions)]


def soft_overlong(completions, **kwargs):
    """DAPO's punishment, by characters: 0 up to 1,600, down to -1 at 2,000."""
    return [-min(1.0, max(0.0, (len(content) - 1600) / 400)) for content in contents(completions)]


def repetition(completions, **kwargs):
    """Up to -1 for words that come again in threes."""
    rewards = []
    for content in contents(completions):
        words = content.lower().split()
        grams = [tuple(words[place : place + 3]) for place in range(len(words) - 2)]
        rewards.append(-(1 - len(set(grams)) / len(grams)) if grams else 0.0)
    return rewards


def cosine_scaled(completions, solution, **kwargs):
    """Right: 1 down to 0.5 with the length. Wrong: -1 up to -0.5."""
    rewards = []
    for content, right in zip(contents(completions), tag_accuracy(completions, solution), strict=True):
        low, high = (0.5, 1.0) if right else (-0.5, -1.0)
        rewards.append(low + 0.5 * (high - low) * (1 + math.cos(min(1.0, len(content) / 4000) * math.pi)))
    return rewards


async def async_accuracy(completions, solution, **kwargs):
    """The tags' accuracy after a pause, as a service would answer."""
    await asyncio.sleep(0)
    return tag_accuracy(completions, solution)


def only_sums(completions, solution, **kwargs):
    """Accuracy where the solution is a number, and nothing to say elsewhere."""
    scores = tag_accuracy(completions, solution)
    return [score if sol.lstrip("-").isdigit() else None for score, sol in zip(scores, solution, strict=True)]


def integer_answer(completions, **kwargs):
    """Half for digits between the tags."""
    found = [re.findall(r"<answer>\s*(-?\d+)\s*</answer>", content) for content in contents(completions)]
    return [0.5 if numbers else 0.0 for numbers in found]


def plus_minus(completions, solution, **kwargs):
    """1 for right and -1 for wrong."""
    return [1.0 if score else -1.0 for score in tag_accuracy(completions, solution)]


def graded(completions, solution, **kwargs):
    """Two for right, -0.5 for wrong, -1 for no answer that can be read."""
    rewards = []
    for content, sol in zip(contents(completions), solution, strict=True):
        found = re.search(r"<answer>\s*(-?\d+)\s*</answer>\s*$", content)
        rewards.append(-1.0 if found is None else 2.0 if int(found[1][:20]) == int(sol) else -0.5)
    return rewards


def countdown_equation(completions, target, nums, **kwargs):
    """TRL's countdown: digits and four signs alone, each number once, and Python does the sum."""
    rewards = []
    for content, goal, numbers in zip(contents(completions), target, nums, strict=True):
        try:
            found = re.search(r"<answer>(.*?)<\/answer>\s*$", content)
            equation = found.group(1).strip()[:100]
            used = [int(n) for n in re.findall(r"\d+", equation)]
            plain = re.fullmatch(r"[\d+\-*/() ]+", equation) and not re.search(r"\*\s*\*|//|/\s+/", equation)
            if sorted(used) != sorted(numbers) or not plain:
                rewards.append(0.0)
                continue
            value = eval(equation, {"__builtins__": None}, {})
            rewards.append(1.0 if abs(float(value) - float(goal)) < 1e-5 else 0.0)
        except Exception:
            rewards.append(0.0)
    return rewards


def letter(completions, solution, **kwargs):
    """The last letter that follows "Answer:"."""
    found = [re.findall(r"Answer:\s*\(?([A-D])\)?(?![A-Za-z])", content) for content in contents(completions)]
    return [float(bool(f) and f[-1] == s) for f, s in zip(found, solution, strict=True)]


# In the style of verl: one reply, a number or a dict.


def gsm8k_strict(data_source, solution_str, ground_truth, extra_info=None):
    """The last number behind four hashes, in the last 300 characters."""
    found = re.findall(r"#### (\-?[0-9\.\,]+)", solution_str[-300:])
    return 1.0 if found and found[-1].replace(",", "").replace("$", "") == ground_truth else 0.0


def gsm8k_flexible(data_source, solution_str, ground_truth, extra_info=None):
    """The last number, wherever it stands."""
    found = [n for n in re.findall(r"(\-?[0-9\.\,]+)", solution_str[-300:]) if n not in ("", ".", ",")]
    return 1.0 if found and found[-1].replace(",", "").rstrip(".") == ground_truth else 0.0


def gsm8k_format(data_source, solution_str, ground_truth, extra_info=None):
    """The same behind four hashes, with a tenth for a number that is wrong."""
    found = re.findall(r"#### (\-?[0-9\.\,]+)", solution_str)
    return 0.0 if not found else 1.0 if found[-1].replace(",", "") == ground_truth else 0.1


def normalized(text: str) -> str:
    for old, new in ((r"\left", ""), (r"\right", ""), ("dfrac", "frac"), ("tfrac", "frac"), (r"\!", ""), (r"\$", "")):
        text = text.replace(old, new)
    return text.replace(" ", "").rstrip(".")


def math_reward(data_source, solution_str, ground_truth, extra_info=None):
    """The last box after Hendrycks' normalisation, with everything caught."""
    score = 0.0
    try:
        answer = last_box(solution_str)
        if answer is not None and normalized(answer) == normalized(ground_truth):
            score = 1.0
    except Exception as error:
        print(error)
    return score


def math_dapo(data_source, solution_str, ground_truth, extra_info=None):
    """DAPO's: 1 or -1, with accuracy and prediction beside the score."""
    answer = last_box(solution_str[-300:])
    right = answer is not None and normalized(answer) == normalized(ground_truth)
    return {"score": 1.0 if right else -1.0, "acc": right, "pred": answer}


def sympy_expression(data_source, solution_str, ground_truth, extra_info=None):
    """A number or a sum of numbers, which sympy works out and compares."""
    from sympy.parsing.sympy_parser import parse_expr

    found = re.findall(r"#### ([^\n]*)", solution_str)
    answer = found[-1].strip().replace(",", "") if found else ""
    if not re.fullmatch(r"-?(0|[1-9]\d{0,11})(\.\d{1,6})?( ?[+\-*/] ?[1-9]\d{0,11}){0,4}", answer):
        return 0.0
    return float(bool(parse_expr(answer) == parse_expr(ground_truth)))


def exact_match(data_source, solution_str, ground_truth, extra_info=None):
    """Search-R1's: the last tag, without case, articles and punctuation."""

    def plain(text: str) -> str:
        text = "".join(char for char in text.lower() if char not in string.punctuation)
        return " ".join(re.sub(r"\b(a|an|the)\b", " ", text).split())

    found = re.findall(r"<answer>(.*?)</answer>", solution_str, re.DOTALL)
    if random.randint(1, 64) == 1:
        print(f"golden answer: {ground_truth}")
    return 1.0 if found and plain(found[-1]) == plain(ground_truth) else 0.0


def geometry(data_source, solution_str, ground_truth, extra_info=None):
    """Nine tenths for the box, one tenth for reasoning between tags before it."""
    formed = re.fullmatch(r"<think>.*</think>.*\\boxed\{.*\}.*", solution_str, re.DOTALL) is not None
    return 0.9 * (last_box(solution_str) == ground_truth) + 0.1 * formed


GUARD = """
import sys

def denied(event, arguments):
    if event == "open" and (set(str(arguments[1])) & set("wax+") or (arguments[2] or 0) & 3):
        raise PermissionError(event)
    if event.partition(".")[0] in ("socket", "subprocess", "shutil", "os", "ctypes") and event not in ("os.listdir",):
        raise PermissionError(event)

sys.addaudithook(denied)
"""
"""What a program may not do: write files, connect, start processes."""


def code_io(data_source, solution_str, ground_truth, extra_info=None):
    """The last program between fences, run on each input in a process with a limit."""
    found = re.findall(r"```python\n(.*?)```", solution_str, re.DOTALL)
    if not found:
        return 0.0
    for given, expected in json.loads(ground_truth):
        try:
            done = subprocess.run(
                [sys.executable, "-I", "-S", "-c", f"{GUARD}\nexec({found[-1]!r}, {{}})"],
                input=given, capture_output=True, text=True, timeout=0.5, env={}, cwd="/",
            )  # fmt: skip
        except (subprocess.TimeoutExpired, ValueError, OSError):
            return 0.0
        if done.returncode != 0 or done.stdout.strip() != expected:
            return 0.0
    return 1.0


def json_schema(data_source, solution_str, ground_truth, extra_info=None):
    """A fenced object: right if equal, a fifth if it has the keys and their kinds."""
    found = re.search(r"```json\s*(\{.*?\})\s*```", solution_str, re.DOTALL)
    try:
        value, gold = json.loads(found.group(1)), json.loads(ground_truth)
    except (AttributeError, ValueError, RecursionError):
        return {"score": 0.0, "valid": 0.0}
    valid = isinstance(value, dict) and {k: type(v) for k, v in value.items()} == {k: type(v) for k, v in gold.items()}
    return {"score": 1.0 if value == gold else 0.2 if valid else 0.0, "valid": float(valid)}


def truthful(data_source, solution_str, ground_truth, extra_info=None):
    """Full marks for the right letter, a tenth for a wrong one, nothing for no letter."""
    found = re.findall(r"Answer:\s*([A-D])\b", solution_str)
    return 1.0 if found and found[-1] == ground_truth else 0.1 if found else 0.0


# In the style of verifiers: rubrics of functions with weights.


def parse_answer(completion: Any) -> str | None:
    found = re.findall(r"<answer>(.*?)</answer>", completion[-1]["content"], re.DOTALL)
    return found[-1].strip() if found else None


def correct_answer(completion, answer):
    return 1.0 if parse_answer(completion) == answer else 0.0


async def format_reward(completion, **kwargs):
    return 1.0 if parse_answer(completion) is not None else 0.0


def similar(completion, answer):
    """Share of the letters that are right, place by place."""
    given = parse_answer(completion) or ""
    longest = max(len(given), len(answer))
    return sum(a == b for a, b in zip(given, answer, strict=False)) / longest


def word_f1(completion, answer):
    """F1 of the words."""
    given, gold = Counter((parse_answer(completion) or "").split()), Counter(answer.split())
    both = (given & gold).total()
    return 2 * both / (given.total() + gold.total())


def brief(completion, state):
    """What a short reply is worth."""
    return 1.0 if len(completion[-1]["content"]) < 400 else 0.0


xml_rubric = SimpleNamespace(funcs=[correct_answer, format_reward], weights=[1.0, 0.2])
quiet_rubric = SimpleNamespace(funcs=[correct_answer, format_reward, brief], weights=[1.0, 0.0, 0.0])
similar_rubric = SimpleNamespace(funcs=[similar], weights=[1.0])
f1_rubric = SimpleNamespace(funcs=[word_f1, format_reward], weights=[0.8, 0.2])


# In the style of reasoning-gym: partial credit by a scorer of one answer.


def gym_partial(data_source, solution_str, ground_truth, extra_info=None):
    """1 for the answer itself, a hundredth for an answer at all."""
    found = re.findall(r"<answer>(.*?)</answer>", solution_str, re.DOTALL)
    if not found or not found[-1].strip():
        return 0.0
    return 1.0 if found[-1].strip() == ground_truth else 0.01


def gym_float(data_source, solution_str, ground_truth, extra_info=None):
    """1 for a number that is close, a hundredth for a number."""
    found = re.findall(r"<answer>(.*?)</answer>", solution_str, re.DOTALL)
    try:
        value = float(found[-1].replace(",", "").strip())
    except (IndexError, ValueError):
        return 0.0
    return 1.0 if math.isclose(value, float(ground_truth), rel_tol=1e-9) else 0.01


def gym_literal(data_source, solution_str, ground_truth, extra_info=None):
    """The answer as a literal of Python, compared with the gold's; a tenth for the right kind."""
    found = re.findall(r"<answer>(.*?)</answer>", solution_str, re.DOTALL)
    try:
        value = ast.literal_eval(found[-1].strip()[:200])
    except (IndexError, ValueError, SyntaxError, RecursionError, MemoryError):
        return 0.0
    gold = ast.literal_eval(ground_truth)
    return 1.0 if type(value) is type(gold) and value == gold else 0.1 if type(value) is type(gold) else 0.0


def trl(*functions: Callable[..., Any], **options: Any) -> TrlReward:
    return TrlReward(functions=tuple(f"{HERE}:{function.__name__}" for function in functions), **options)


def verl(function: Callable[..., Any], **options: Any) -> VerlScore:
    return VerlScore(function=f"{HERE}:{function.__name__}", **options)


def rubric(name: str, **options: Any) -> RubricReward:
    return RubricReward(rubric=f"{HERE}:{name}", **options)


SOUND_REWARDS: dict[str, tuple[Callable[[], Foreign], Callable[[int], tuple[Task, ...]]]] = {
    # TRL.
    "trl: text of the last box": (lambda: trl(boxed_exact), boxed),
    "trl: math-verify": (lambda: trl(accuracy_math_verify), boxed),
    "trl: math-verify after the reasoning": (lambda: trl(reasoning_accuracy), lambda n: reasoned(boxed(n))),
    "trl: answer tags": (lambda: trl(tag_accuracy), tagged),
    "trl: accuracy and format": (lambda: trl(tag_accuracy, think_format, top=2.0), tagged),
    "trl: accuracy and format, weighed": (
        lambda: trl(tag_accuracy, think_format, weights=(1.0, 0.2), top=1.2), tagged,
    ),
    "trl: accuracy and counted tags": (lambda: trl(tag_accuracy, tag_count, weights=(2.0, 0.5), top=2.5), tagged),
    "trl: accuracy and integer": (lambda: trl(tag_accuracy, integer_answer, top=1.5), tagged),
    "trl: overlong": (lambda: trl(tag_accuracy, soft_overlong, low=-1.0), tagged),
    "trl: repetition": (lambda: trl(tag_accuracy, repetition, low=-1.0), tagged),
    "trl: cosine": (lambda: trl(cosine_scaled, low=-1.0), tagged),
    "trl: async": (lambda: trl(async_accuracy), tagged),
    "trl: None where it does not apply": (lambda: trl(tag_accuracy, only_sums, weights=(0.5, 0.5)), tagged),
    "trl: minus one for wrong": (lambda: trl(plus_minus, low=-1.0), tagged),
    "trl: two for right": (lambda: trl(graded, low=-1.0, top=2.0), tagged),
    "trl: countdown": (lambda: trl(countdown_equation, gold="unused"), countdown),
    "trl: multiple choice": (lambda: trl(letter), choices),
    "trl: names": (lambda: trl(tag_accuracy, conversational=False), cities),
    # verl.
    "verl: gsm8k, strict": (lambda: verl(gsm8k_strict), gsm8k),
    "verl: gsm8k, flexible": (lambda: verl(gsm8k_flexible), gsm8k),
    "verl: gsm8k, a tenth for the form": (lambda: verl(gsm8k_format), gsm8k),
    "verl: Hendrycks' mathematics": (lambda: verl(math_reward), boxed),
    "verl: DAPO's mathematics": (lambda: verl(math_dapo, low=-1.0), boxed),
    "verl: sympy works it out": (lambda: verl(sympy_expression), gsm8k),
    "verl: exact match of names": (lambda: verl(exact_match), cities),
    "verl: box and format": (lambda: verl(geometry), lambda n: reasoned(boxed(n))),
    "verl: programs": (lambda: verl(code_io), programs),
    "verl: JSON": (lambda: verl(json_schema), orders),
    "verl: a tenth for a letter": (lambda: verl(truthful), choices),
    # verifiers.
    "rubric: answer and format": (lambda: rubric("xml_rubric", top=1.2), tagged),
    "rubric: metrics of no weight": (lambda: rubric("quiet_rubric"), tagged),
    "rubric: similar letters": (lambda: rubric("similar_rubric"), cities),
    "rubric: F1 of the words": (lambda: rubric("f1_rubric"), cities),
    # reasoning-gym.
    "gym: a hundredth for an answer": (lambda: verl(gym_partial), tagged),
    "gym: a number that is close": (lambda: verl(gym_float), tagged),
    "gym: a literal": (lambda: verl(gym_literal), tagged),
}  # fmt: skip
"""What makes the reward, and what makes so many tasks of its kind."""


def reasoned(tasks: tuple[Task, ...]) -> tuple[Task, ...]:
    """The same tasks with reasoning before the right reply."""
    return tuple(
        Task(
            id=t.id,
            messages=t.messages,
            answer=t.answer,
            info={"reply": f"<think>\nWell.\n</think>\n{t.info['reply']}"},
        )
        for t in tasks
    )
