"""Published data sets in small: their files, columns, types and splits on the hub, with rows of our own."""

from __future__ import annotations

import json
from collections.abc import Mapping
from io import BytesIO
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

__all__ = ["DATA"]

Rows = list[dict[str, Any]]
TEXT, WHOLE = pa.string(), pa.int64()


def files(parts: Mapping[str, tuple[Rows, pa.Schema]], splits: Mapping[str, Mapping[str, str]]) -> dict[str, bytes]:
    """A repository.

    Args: parts: rows by the path of their file; splits: patterns of files, by configuration and split.
    """
    card = ["---", "configs:"]
    for config, named in splits.items():
        card += [f"- config_name: {config}", "  data_files:"]
        card += [line for split, path in named.items() for line in (f"  - split: {split}", f"    path: {path}")]
    found = {"README.md": "\n".join([*card, "---", ""]).encode()}
    for path, (rows, schema) in parts.items():
        body = BytesIO()
        pq.write_table(pa.Table.from_pylist(rows, schema), body)
        found[path] = body.getvalue()
    return found


def gsm8k() -> dict[str, bytes]:
    def rows(start: int, count: int) -> Rows:
        return [
            {
                "question": f"Mia sold {n} clips in April, and {2 * n} in May. How many did she sell?",
                "answer": f"In May she sold {n}*2 = <<{n}*2={2 * n}>>{2 * n}.\nTogether {n}+{2 * n} = "
                f"<<{n}+{2 * n}={3 * n}>>{3 * n} clips.\n#### {3 * n:,}",
            }
            for n in range(start, start + count)
        ]

    schema = pa.schema({"question": TEXT, "answer": TEXT})
    named = {split: f"{split}-00000-of-00001.parquet" for split in ("train", "test")}
    return files(
        {
            f"{config}/{named[split]}": (rows(start, count), schema)
            for config in ("main", "socratic")
            for split, start, count in (("train", 300, 40), ("test", 400, 12))
        },
        {config: {split: f"{config}/{split}-*" for split in named} for config in ("main", "socratic")},
    )


def hendrycks() -> dict[str, bytes]:
    def rows(start: int, count: int) -> Rows:
        return [
            {
                "problem": f"What is $\\frac{{{n}}}{{2}}$ as a fraction in lowest terms?",
                "solution": f"We have $\\frac{{{n}}}{{2}} = \\boxed{{\\frac{{{n}}}{{2}}}}$.",
                "answer": f"\\frac{{{n}}}{{2}}",
                "subject": "Prealgebra",
                "level": n % 5 + 1,
                "unique_id": f"train/prealgebra/{n}.json",
            }
            for n in range(start, start + 2 * count, 2)
        ]

    schema = pa.schema({name: TEXT for name in ("problem", "solution", "answer", "subject")})
    schema = schema.append(pa.field("level", WHOLE)).append(pa.field("unique_id", TEXT))
    splits = {"train": (rows(1, 40), schema), "test": (rows(201, 12), schema)}
    return files(
        {f"data/{split}-00000-of-00001.parquet": part for split, part in splits.items()},
        {"default": {split: f"data/{split}-*" for split in splits}},
    )


def dapo() -> dict[str, bytes]:
    message = pa.list_(pa.struct({"content": TEXT, "role": TEXT}))
    schema = pa.schema(
        {
            "prompt": TEXT, "solution": TEXT, "data_source": TEXT, "source_prompt": message, "ability": TEXT,
            "reward_model": pa.struct({"ground_truth": TEXT, "style": TEXT}), "extra_info": pa.struct({"index": TEXT}),
        }
    )  # fmt: skip
    rows = [
        {
            "prompt": f"Find the sum of all positive integers $n$ with $n^2 = {n * n}$.",
            "solution": str(n),
            "data_source": "math_dapo",
            "source_prompt": [{"content": f"Solve: the sum of all $n$ with $n^2 = {n * n}$.", "role": "user"}],
            "ability": "MATH",
            "reward_model": {"ground_truth": str(n), "style": "rule-lighteval/MATH_v2"},
            "extra_info": {"index": f"0000-{n}"},
        }
        for n in range(5, 75)
    ]
    return files(
        {f"{config}/train-00000-of-00001.parquet": (rows, schema) for config in ("all", "cn", "en")},
        {config: {"train": f"{config}/train-*"} for config in ("all", "cn", "en")},
    )


def countdown() -> dict[str, bytes]:
    numbers = ([a, b, c] for a in range(11, 17) for b in range(21, 26) for c in (3, 4))
    rows: Rows = [{"target": sum(each), "nums": each} for each in numbers]
    schema = pa.schema({"target": WHOLE, "nums": pa.list_(WHOLE)})
    return files({"data/train-00000-of-00001.parquet": (rows, schema)}, {"default": {"train": "data/train-*"}})


def mbpp() -> dict[str, bytes]:
    def rows(start: int, count: int) -> Rows:
        return [
            {
                "task_id": n,
                "text": f"Write a function to add {n} to a given number.",
                "code": f"def add_{n}(x):\r\n  return x + {n}",
                "test_list": [f"assert add_{n}({x}) == {x + n}" for x in (1, 2, 30)],
                "test_setup_code": "",
                "challenge_test_list": [],
            }
            for n in range(start, start + count)
        ]

    schema = pa.schema(
        {
            "task_id": pa.int32(), "text": TEXT, "code": TEXT, "test_list": pa.list_(TEXT), "test_setup_code": TEXT,
            "challenge_test_list": pa.list_(TEXT),
        }
    )  # fmt: skip
    splits = {"train": (601, 40), "test": (11, 12), "validation": (511, 9), "prompt": (1, 10)}
    return files(
        {f"full/{split}-00000-of-00001.parquet": (rows(*part), schema) for split, part in splits.items()},
        {"full": {split: f"full/{split}-*" for split in splits}},
    )


def math_500() -> dict[str, bytes]:
    rows: Rows = [
        {"problem": f"What is {n} + {n}?", "solution": f"It is $\\boxed{{{2 * n}}}$.", "answer": str(2 * n),
         "subject": "Algebra", "level": 1, "unique_id": f"test/algebra/{n}.json"}
        for n in range(12)
    ]  # fmt: skip
    return {"README.md": b"---\n---\n", "test.jsonl": json_lines(rows)}


def aime_2024() -> dict[str, bytes]:
    rows: Rows = [
        {"id": n, "problem": f"Find $m$ with $m - {n} = {n}$.", "solution": "", "answer": f"{2 * n:03}", "url": "",
         "year": "2024"}
        for n in range(60, 90)
    ]  # fmt: skip
    schema = pa.schema({"id": WHOLE} | dict.fromkeys(("problem", "solution", "answer", "url", "year"), TEXT))
    return files({"data/train-00000-of-00001.parquet": (rows, schema)}, {"default": {"train": "data/train-*"}})


def aime25() -> dict[str, bytes]:
    rows: Rows = [{"problem": f"Find $m + {n}$ for $m = 7$.", "answer": str(n + 7), "id": str(n)} for n in range(30)]
    card = "---\nconfigs:\n- config_name: default\n  data_files:\n  - split: test\n    path: test.jsonl\n---\n"
    return {"README.md": card.encode(), "test.jsonl": json_lines(rows)}


def gpqa() -> dict[str, bytes]:
    names = ["Question", "Correct Answer", *(f"Incorrect Answer {n}" for n in (1, 2, 3)), "Subdomain"]
    lines = [f'"How many electrons has element {n}, say?",{n},{n + 1},{n + 2},{n + 3},Physics' for n in range(1, 20)]
    body = "\n".join([",".join(names), *lines, ""]).encode()
    card = "---\nconfigs:\n- config_name: gpqa_diamond\n  data_files: gpqa_diamond.csv\n---\n"
    return {"README.md": card.encode(), "gpqa_diamond.csv": body}


def json_lines(rows: Rows) -> bytes:
    return "".join(json.dumps(row) + "\n" for row in rows).encode()


DATA = {
    "openai/gsm8k": gsm8k,
    "nlile/hendrycks-MATH-benchmark": hendrycks,
    "open-r1/DAPO-Math-17k-Processed": dapo,
    "Jiayi-Pan/Countdown-Tasks-3to4": countdown,
    "google-research-datasets/mbpp": mbpp,
    "HuggingFaceH4/MATH-500": math_500,
    "HuggingFaceH4/aime_2024": aime_2024,
    "math-ai/aime25": aime25,
    "Idavidrein/gpqa": gpqa,
}
"""Files by name of the data set."""
