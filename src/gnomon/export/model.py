"""A trained policy for other software: a model folder, or the adapter that a run trained, with tokenizer and card."""

from __future__ import annotations

import atexit
import json
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import uuid4

import tomli_w
import torch
from transformers import GenerationConfig

from gnomon.config import RunConfig, recorded_recipe, resolve
from gnomon.errors import ConfigError
from gnomon.models import smollm2
from gnomon.models.folder import SHIPPED, SMOLLM2, chat_template
from gnomon.models.hub import cache_folder, hub_name, parse_name
from gnomon.models.policy import Policy
from gnomon.models.precision import Precision
from gnomon.models.scoring import score
from gnomon.models.tokenizer import Tokenizer
from gnomon.rendering import Plain, Renderer, choose
from gnomon.rendering.choose import writes
from gnomon.rendering.plain import TEMPLATE
from gnomon.rendering.published import Published
from gnomon.run.saved import checkpoint, trained_policy
from gnomon.run.subject import split_step
from gnomon.store import RunReader
from gnomon.store.checkpoints import Checkpoint
from gnomon.store.checkpoints import load as load_checkpoint
from gnomon.store.layout import RECIPE

__all__ = ["Export", "export", "weights_of"]

SHARD = "5GB"
"""Largest weights file; larger models are written as several with an index."""
DTYPES = ("float32", "bfloat16", "float16")
COMPARED = 32
"""Most recorded rollouts whose log-probabilities are compared before and after a merge."""
PAPERS = ("LICENSE*", "NOTICE*", "USE_POLICY*")
"""Files of the base model's folder that must travel with its weights."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Export:
    """What was written."""

    folder: Path
    step: int
    """Finished training steps of the checkpoint."""
    dtype: str
    files: Mapping[str, int]
    """Size in bytes by name."""
    merge_gap: float | None = None
    """Of an adapter that was merged: the largest difference in log-probability that rounding made, over recorded
    tokens."""


def export(name: str, folder: Path, dtype: str = "", *, merged: bool = False) -> Export:
    """Write the policy of `RUN` (its newest checkpoint) or `RUN:STEP` as a folder in the format of the hub.

    Of a run that trained an adapter it is an adapter folder of PEFT; `merged` makes it a model folder. The folder is
    complete or absent, and holds no optimiser state. `generation_config.json` samples as in training.

    Args: dtype: of a model folder, one of `DTYPES`; empty for the run's `policy.dtype`. An adapter is float32.
    Raises: ConfigError E050 when the folder holds files, E051 for another dtype, E053 for `merged` without an adapter;
        RunError E185 when the run has no such checkpoint, E186 when its base model has changed, E404 when there is no
        run.
    """
    run, step = split_step(name)
    require_free(name, folder)
    with RunReader(run) as reader:
        source = load_checkpoint(checkpoint(run, step), ())
        config, _ = resolve([recorded_recipe(run / RECIPE)])
        dtype = chosen_dtype(config, dtype, merged)
        fresh = folder.absolute().parent / f".{folder.name}-{uuid4().hex[:8]}"
        try:
            fresh.mkdir(parents=True)
            gap = write_model(reader, config, source, fresh, dtype, merged)
            if folder.exists():
                folder.rmdir()
            fresh.rename(folder)
        finally:
            shutil.rmtree(fresh, ignore_errors=True)
    sizes = {path.name: path.stat().st_size for path in sorted(folder.iterdir())}
    return Export(folder=folder, step=source.step, dtype=dtype, files=sizes, merge_gap=gap)


def weights_of(name: str) -> Path:
    """The checkpoint of `RUN` or `RUN:STEP` as a model folder; of a run that trained an adapter, merged until this
    process ends.

    Raises: RunError E185.
    """
    run, step = split_step(name)
    with RunReader(run) as reader:
        adapter = reader.genesis.get("config", {}).get("policy", {}).get("lora", {}).get("rank", 0)
    if not adapter:
        return checkpoint(run, step)
    aside = Path(tempfile.mkdtemp(prefix="gnomon-"))
    atexit.register(shutil.rmtree, aside, ignore_errors=True)
    return export(name, aside / "model", merged=True).folder


def require_free(name: str, folder: Path) -> None:
    """Raises: ConfigError E050 where the folder is a file or holds files."""
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise ConfigError(
            "E050",
            "the export folder is not empty",
            where=str(folder),
            why="an export never overwrites files",
            fix=f"gnomon export {name} {folder}-2",
        )


def chosen_dtype(config: RunConfig, dtype: str, merged: bool) -> str:
    """The dtype of what is written. Raises: ConfigError E051, E053."""
    adapter = config.policy.trains_adapter
    if merged and not adapter:
        raise ConfigError(
            "E053", "the run has no adapter to merge", where="--merged", why="it trained every weight of its model",
            fix="leave out --merged",
        )  # fmt: skip
    if dtype not in ("", *DTYPES):
        raise ConfigError(
            "E051",
            f"weights cannot be written as {dtype!r}",
            where="--dtype",
            fix=f"--dtype {' or --dtype '.join(DTYPES)}",
        )
    if adapter and not merged:
        if dtype not in ("", "float32"):
            raise ConfigError(
                "E051", f"an adapter cannot be written as {dtype!r}", where="--dtype", why="adapters are float32",
                fix=f"leave out --dtype, or merge the adapter into its base model: --merged --dtype {dtype}",
            )  # fmt: skip
        return "float32"
    return dtype or config.dtypes.learner


def write_model(
    reader: RunReader, config: RunConfig, source: Checkpoint, fresh: Path, dtype: str, merged: bool
) -> float | None:
    """Fill the folder. Returns: what merging an adapter changed, in nats."""
    exact = Precision() if merged else Precision.only(getattr(torch, dtype))
    policy, gap = trained_policy(reader, config, source.path, exact), None
    renderer = choose(policy.tokenizer, config.policy.renderer)
    if merged:
        gap = merge(policy, reader, Precision.only(getattr(torch, dtype)))
    settings = generation(policy, config)
    if policy.adapter:
        policy.save(fresh)
        policy.adapter.write_config(fresh, base=config.policy.path)
    else:
        policy.model.generation_config = settings
        policy.model.save_pretrained(fresh, max_shard_size=SHARD)
        policy.tokenizer.save(fresh)
    settings.save_pretrained(fresh)
    if isinstance(renderer, Plain):
        set_template(fresh, TEMPLATE)
    for path in papers(config):
        shutil.copyfile(path, fresh / path.name)
    kind = weights_text(policy, dtype, gap)
    (fresh / "README.md").write_text(card(reader, config, source, policy, kind, prompts_text(fresh, renderer)), "utf-8")
    return gap


def merge(policy: Policy, reader: RunReader, precision: Precision) -> float:
    """Add an adapter to float32 weights, once, and round them. Returns: the largest change of the log-probability of
    recorded tokens."""
    prompts, rows = recorded_rows(reader)
    before = score(policy, prompts, rows)
    policy.merge()
    policy.model.to(precision.compute)
    return float((score(policy, prompts, rows) - before).abs().max())


def recorded_rows(reader: RunReader) -> tuple[list[tuple[int, ...]], list[tuple[int, tuple[int, ...]]]]:
    """Prompts and completions of the last held-out rollouts, at most `COMPARED` of them: first turns, in order."""
    step = max(record.step or 0 for kind in ("baseline", "evaluation") for record in reader.records(kind))
    rollouts = [rollout for group in reader.groups(step, "held_out") for rollout in group.rollouts if rollout.turns]
    turns = [rollout.turns[0] for rollout in rollouts[:COMPARED]]
    return [turn.prompt_ids for turn in turns], [(i, turn.completion.token_ids) for i, turn in enumerate(turns)]


def generation(policy: Policy, config: RunConfig) -> GenerationConfig:
    """The distribution that was trained: at the run's temperature and truncation, up to the run's limit."""
    base: GenerationConfig = policy.model.generation_config
    return GenerationConfig(
        do_sample=True,
        temperature=config.rollout.temperature,
        top_k=config.rollout.top_k,
        top_p=config.rollout.top_p,
        max_new_tokens=config.rollout.max_tokens,
        bos_token_id=policy.tokenizer.bos,
        eos_token_id=sorted(policy.tokenizer.eos) or None,
        pad_token_id=base.pad_token_id,
    )


def set_template(folder: Path, template: str) -> None:
    """Make it the one chat template of a folder."""
    (folder / "chat_template.jinja").write_text(template, "utf-8")
    path = folder / "tokenizer_config.json"
    facts = json.loads(path.read_text("utf-8")) if path.is_file() else {"tokenizer_class": "PreTrainedTokenizerFast"}
    facts.pop("chat_template", None)
    path.write_text(json.dumps(facts, indent=1, ensure_ascii=False) + "\n", "utf-8")


def papers(config: RunConfig) -> Iterator[Path]:
    """Licence files of the model that the run began with, where its folder is still there."""
    name = hub_name(config.policy.path)
    base = (cache_folder(name) if name else None) or Path(config.policy.path)
    base = smollm2.cache_folder() if config.policy.path == SMOLLM2 else base
    if config.policy.path not in SHIPPED and base.is_dir():
        for pattern in PAPERS:
            yield from sorted(path for path in base.glob(pattern) if path.is_file())


def weights_text(policy: Policy, dtype: str, gap: float | None) -> str:
    """What the folder holds, for the card."""
    if policy.adapter:
        adapter = policy.adapter.adapter
        return f"The folder holds a LoRA adapter of rank {adapter.rank} (alpha {adapter.alpha}) in float32."
    if gap is None:
        return f"Weights are {dtype}."
    return (
        f"Weights are {dtype}: a LoRA adapter was merged into them once, in float32. The merge changed the "
        f"log-probabilities of recorded tokens by up to {gap:.2g} nats."
    )


def use_text(policy: Policy, config: RunConfig) -> list[str]:
    """How to load and sample, as Python."""
    stop = f", stop_strings={config.rollout.stop!r}, tokenizer=tokenizer" if config.rollout.stop else ""
    adapted = [
        "from peft import PeftModel",
        "",
        'model = PeftModel.from_pretrained(model, "FOLDER")',
    ]
    return [
        "from transformers import AutoModelForCausalLM, AutoTokenizer",
        "",
        'tokenizer = AutoTokenizer.from_pretrained("FOLDER")',
        f'model = AutoModelForCausalLM.from_pretrained("{"BASE" if policy.adapter else "FOLDER"}")',
        *(adapted if policy.adapter else []),
        'messages = [{"role": "user", "content": "..."}]',
        'inputs = tokenizer.apply_chat_template(messages, add_generation_prompt=True, return_tensors="pt", '
        "return_dict=True)",
        f"output = model.generate(**inputs{stop})",
        'print(tokenizer.decode(output[0, inputs["input_ids"].shape[1]:]))',
    ]


def card(reader: RunReader, config: RunConfig, source: Checkpoint, policy: Policy, weights: str, prompts: str) -> str:
    """`README.md`: what was trained on what, how well it does, how to load it, and the recipe that repeats it."""
    recipe, hub = public(config.model_dump()), parse_name(config.policy.path)
    env, base = recipe["env"]["type"], hub.repo if hub else recipe["policy"]["path"]
    return "\n".join(
        [
            "---",
            f"library_name: {'peft' if policy.adapter else 'transformers'}",
            "pipeline_tag: text-generation",
            "tags: [gnomon, reinforcement-learning, rlvr]",
            *([f"base_model: {hub.repo}"] if hub else []),
            "---",
            "",
            f"# {base} trained on {env}",
            "",
            f"A language model trained by reinforcement learning with verifiable rewards: environment `{env}`, "
            f"objective `{config.objective.type}`, {source.step} steps of {config.rollout.prompts} prompts × "
            f"{config.rollout.group} rollouts. {weights} The base model's licence applies.",
            "",
            "| held-out tasks | step | " + " | ".join(f"pass@{k}" for k in config.eval.pass_at) + " | mean length |",
            "|---|---:|" + "---:|" * (len(config.eval.pass_at) + 1),
            *evaluations(reader, config, source.step),
            "",
            "Intervals are 95 %, over different tasks.",
            "",
            "## Use",
            "",
            "```python",
            *use_text(policy, config),
            "```",
            "",
            prompts,
            "",
            "## The run",
            "",
            f"- fingerprint `{source.fingerprint}` after step {source.step}",
            *(f"- base model `{name}`: sha256 `{value}`" for name, value in sorted(reader.genesis["policy"].items())),
            f"- sampler and learner: {tier_text(reader.manifest)}",
            "",
            "The recipe, with only the last part of absolute paths:",
            "",
            "```toml",
            tomli_w.dumps(recipe).strip(),
            "```",
            "",
        ]
    )


def evaluations(reader: RunReader, config: RunConfig, step: int) -> Iterator[str]:
    """A table row for every measurement up to a step."""
    for kind in ("baseline", "evaluation"):
        for record in reader.records(kind):
            if record.step is None or record.step > step:
                continue
            rates = [record.body["pass_at"][str(k)] for k in config.eval.pass_at]
            cells = [f"{rate['value']:.3f} [{rate['low']:.3f}, {rate['high']:.3f}]" for rate in rates]
            yield f"| {rates[0]['n']} | {record.step} | {' | '.join(cells)} | {record.body['length']:.1f} |"


def prompts_text(folder: Path, renderer: Renderer) -> str:
    """Whether the exported chat template writes what the policy was trained on."""
    if isinstance(renderer, Plain):
        return "The chat template writes each message on a line of its own, as in training."
    template = chat_template(folder)
    if isinstance(renderer, Published) or (template and writes(renderer, template, Tokenizer(folder))):
        return "The chat template is the base model's; prompts in training were written by it."
    return (
        f"Prompts in training were written by Gnomon's renderer `{type(renderer).__name__}`. "
        "The chat template in this folder writes other text."
    )


def tier_text(manifest: Mapping[str, Any]) -> str:
    """How far sampler and learner were apart when the run began."""
    if manifest.get("tier") == "exact":
        return "equal log-probabilities in every bit"
    return f"log-probabilities up to {manifest.get('logp_mismatch', float('nan')):.2g} apart"


def public(values: Mapping[str, Any]) -> dict[str, Any]:
    """Settings with every absolute path reduced to its last part: a card must not tell where somebody keeps files."""
    return {
        key: public(value)
        if isinstance(value, Mapping)
        else value.rpartition("/")[2]
        if isinstance(value, str) and value.startswith("/")
        else value
        for key, value in values.items()
    }
