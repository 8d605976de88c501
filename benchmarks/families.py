"""Which decoder families of transformers train, and by which forward pass: a small random model of each.

python benchmarks/families.py results.jsonl [FAMILY …]     measures families, and adds a line of each
python benchmarks/families.py results.jsonl --write        writes docs/models.md and the list of packed families
python benchmarks/families.py --speed FAMILY …             prints tokens per second of processor time, by both passes
"""

from __future__ import annotations

import asyncio
import json
import signal
import sys
import time
import warnings
from collections.abc import Mapping, Sequence
from contextlib import suppress
from math import isfinite
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch
import transformers
from transformers import AutoConfig, AutoModelForCausalLM
from transformers.utils import logging

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "tests"))

from gnomon.engines import sample_all  # noqa: E402
from gnomon.engines.embedded import Embedded  # noqa: E402
from gnomon.errors import GnomonError  # noqa: E402
from gnomon.learners.local import LocalLearner  # noqa: E402
from gnomon.models.cached import caching_of  # noqa: E402
from gnomon.models.packed import Packed  # noqa: E402
from gnomon.models.padded import Padded  # noqa: E402
from gnomon.models.policy import Policy, Whole  # noqa: E402
from gnomon.models.precision import Precision  # noqa: E402
from gnomon.models.scoring import Completed, packed_logp, text_logp  # noqa: E402
from gnomon.objectives import objective  # noqa: E402
from gnomon.types import Request, Sampling  # noqa: E402
from learners.sequences import batch_of_four, credited  # noqa: E402
from models.characters import tokenizer  # noqa: E402
from models.small import NAMES, PROMPTS, TEXTS, alone, small  # noqa: E402

GRADIENT = LOGP = 1e-5
"""Largest relative difference of a gradient, and of a log-probability in float32, which norms compute in always."""
DECODED = 1e-4
"""Largest difference between sampling and scoring. Some models of transformers sum a recurrent state in another order
when they decode."""
WIDE: dict[str, Any] = {
    "hidden_size": 256, "intermediate_size": 512, "moe_intermediate_size": 512, "num_hidden_layers": 4, "head_dim": 32,
    "num_attention_heads": 8, "num_key_value_heads": 2, "num_local_experts": 8, "num_experts_per_tok": 2,
    "linear_num_key_heads": 4, "linear_num_value_heads": 8, "linear_key_head_dim": 32, "linear_value_head_dim": 32,
    "vocab_size": 102, "max_position_embeddings": 512, "bos_token_id": None, "eos_token_id": None, "pad_token_id": 0,
}  # fmt: skip
"""Sizes of models whose speed is measured."""
NO_TEXT = "reads and writes codes of audio"
DRAFTS = "drafts for another model, from what that one computes"
UNMADE = {
    "gemma3n": "transformers needs timm for its images; `gemma3n_text` is its text model",
    **dict.fromkeys(("gemma4_assistant", "gemma4_unified_assistant"), DRAFTS),
    **dict.fromkeys(("musicgen", "musicgen_melody"), NO_TEXT),
}
"""Why no small model of text can be made of a family."""
PATIENCE = 8
"""Seconds in which a small model is made."""


def measured(name: str) -> dict[str, Any]:
    """What one family does, by both forward passes."""
    start, found = time.monotonic(), {"family": name}
    signal.alarm(PATIENCE)
    try:
        model = small(name)
    except Late:
        model = None
    signal.alarm(0)
    if model is None:
        return found | {"reason": UNMADE.get(name, "no small model can be made of it")}
    with TemporaryDirectory() as folder:
        model.save_pretrained(folder)
        tokenizer().save(str(Path(folder, "tokenizer.json")))
        for whole in (Packed, Padded):
            try:
                found[whole.__name__] = by(Path(folder), whole, model)
            except GnomonError as error:
                found[whole.__name__] = {"reason": f"{error.code}: {error.what}. {error.why}"}
            except Exception as error:
                found[whole.__name__] = {"reason": f"{type(error).__name__}: {error}"[:200]}
    return found | {"seconds": round(time.monotonic() - start, 1)}


def by(folder: Path, whole: Whole, model: Any) -> dict[str, Any]:
    """The figures of one forward pass. Raises: AssertionError where one is too large."""
    policy = Policy.load(folder, whole=whole)
    with torch.no_grad():
        wanted = torch.cat([alone(model, text) for text in TEXTS])
    texts = [Completed(text, torch.arange(len(text)) > 0) for text in TEXTS]
    found = {"logp": float((text_logp(policy, texts) - wanted).abs().max()), "gradient": gradient(folder, whole)}
    engine = Embedded(policy)
    found["mismatch"] = engine.measure(PROMPTS, rows=3, tokens=48, reach=250)
    learner, row = LocalLearner(policy), objective("rloo")
    learner.forward_backward(credited(learner, batch_of_four(), row), row)
    learner.optim_step(1e-3)
    policy.save(folder / "out")
    again = Policy.load(folder / "out", whole=whole)
    found["loaded"] = float((text_logp(again, texts) - text_logp(policy, texts)).abs().max())
    assert max(found["logp"], found["loaded"]) < LOGP and found["gradient"] < GRADIENT, str(found)
    assert found["mismatch"] <= (DECODED if whole is Padded else 0), str(found)
    return found if policy.packs else found | {"decodes": caching_of(policy).value}


def gradient(folder: Path, whole: Whole) -> float:
    """The relative difference of the gradient of a pass from that of transformers, both in float64; in float32 for
    models that compute in no finer dtype, or are not finite in one."""
    with suppress(GnomonError, RuntimeError):
        if isfinite(gap := relative(folder, whole, torch.float64)):
            return gap
    return relative(folder, whole, torch.float32)


def relative(folder: Path, whole: Whole, dtype: torch.dtype) -> float:
    """As `gradient`, in this dtype."""
    policy = Policy.load(folder, Precision.only(dtype), whole=whole)
    rows = [(0, tuple(text[4:].tolist())) for text in TEXTS]
    prompt = tuple(TEXTS[0][:4].tolist())
    packed_logp(policy, [prompt], rows)[0].sum().backward()  # type: ignore[no-untyped-call]
    own = {name: value.grad.clone() for name, value in policy.state().items() if value.grad is not None}
    policy.model.zero_grad()
    policy.model.set_attn_implementation("eager")
    if policy.model._can_set_experts_implementation():
        policy.model.set_experts_implementation("eager")
    for _, row in rows:
        alone(policy.model, torch.tensor(prompt + row))[len(prompt) - 1 :].sum().backward()
    gap = sum(float((own[name] - policy.state()[name].grad).square().sum()) for name in own) ** 0.5
    return gap / sum(float(value.square().sum()) for value in own.values()) ** 0.5


def page(results: Sequence[Mapping[str, Any]]) -> str:
    """The table of docs/models.md."""
    lines = []
    for each in results:
        exact, own = each.get("Packed", {}), each.get("Padded", {})
        if "logp" in exact:
            lines.append(f"| `{each['family']}` | packed | exact | |")
        elif "logp" in own:
            lines.append(f"| `{each['family']}` | transformers | measured, {own['mismatch']:.1g} | {own['decodes']} |")
        elif own:
            refused = own["reason"].startswith(("E303", "E308"))
            reason = own["reason"].partition(": {")[0].replace("|", "/")
            lines.append(f"| `{each['family']}` | {'refused' if refused else 'fails'} | | {reason} |")
        else:
            lines.append(f"| `{each['family']}` | not tested | | {each['reason']} |")
    return "\n".join(lines)


def packed_families(results: Sequence[Mapping[str, Any]]) -> list[str]:
    return sorted(each["family"] for each in results if "logp" in each.get("Packed", {}))


def write(results: Sequence[Mapping[str, Any]]) -> None:
    """Write the page and the list."""
    path, mark = ROOT / "docs/models.md", "| family |"
    head = path.read_text("utf-8").partition(mark)[0]
    table = f"{mark} forward pass | tier in float32 on a CPU | sampling decodes together |\n|---|---|---|---|\n"
    path.write_text(f"{head}{table}{page(results)}\n", "utf-8")
    (ROOT / "src/gnomon/models/packed_families.txt").write_text("\n".join(packed_families(results)) + "\n", "utf-8")


def speeds(name: str) -> None:
    """Print how fast a model of width 256 with four layers is: 4 prompts of 100 tokens, 8 replies of 64 to each."""
    config = AutoConfig.for_model(name, **WIDE)
    with TemporaryDirectory() as folder:
        torch.manual_seed(3)
        AutoModelForCausalLM.from_config(config).save_pretrained(folder)
        tokenizer().save(str(Path(folder, "tokenizer.json")))
        for whole in (Packed, Padded):
            try:
                policy = Policy.load(Path(folder), whole=whole)
            except GnomonError as error:
                print(f"{name} {whole.__name__}: {error.code}")
                continue
            prompts = [tuple(torch.randint(2, 100, (100,), generator=torch.Generator().manual_seed(n)).tolist())
                       for n in range(4)]  # fmt: skip
            requests = [
                Request(prompt_ids=prompt, key=bytes([row]) * 16, sampling=Sampling(max_tokens=64))
                for prompt in prompts for row in range(8)
            ]  # fmt: skip
            engine = Embedded(policy)
            asyncio.run(sample_all(engine, requests[:8]))  # Warm, and with its cache examined.
            start = time.process_time()
            found = asyncio.run(sample_all(engine, requests))
            sampled = sum(len(each.token_ids) for each in found) / (time.process_time() - start)
            rows = [(at // 8, each.token_ids) for at, each in enumerate(found)]
            start = time.process_time()
            packed_logp(policy, prompts, rows)[0].sum().backward()  # type: ignore[no-untyped-call]
            trained = sum(len(row) for _, row in rows) / (time.process_time() - start)
            print(f"{name} {whole.__name__}: samples {sampled:.0f} and trains {trained:.0f} tokens/s", flush=True)


class Late(BaseException):
    """No exception that a family's own handling catches."""


def late(*_: object) -> None:
    raise Late


def main(results: Path, names: Sequence[str]) -> None:
    signal.signal(signal.SIGALRM, late)
    warnings.simplefilter("ignore")
    logging.set_verbosity_error()
    torch.set_num_threads(1)
    if str(results) == "--speed":
        for name in names:
            speeds(name)
        return
    before = [json.loads(line) for line in results.read_text("utf-8").splitlines()] if results.exists() else []
    known = {each["family"]: each for each in before}
    if list(names) == ["--write"]:
        write([known[name] for name in sorted(known)])
        return
    print(f"transformers {transformers.__version__}, {len(NAMES)} families")
    for name in names or sorted(NAMES.keys() - known.keys()):
        found = measured(name)
        print(json.dumps(found), flush=True)
        with results.open("a", encoding="utf-8") as file:
            file.write(json.dumps(found) + "\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
