"""Make the tiny base policy: `gnomon base build` trains it from nothing on synthetic scratch work."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cache
from pathlib import Path
from time import monotonic
from typing import Any

import torch
from tokenizers import AddedToken, Regex, decoders, models, pre_tokenizers
from tokenizers import Tokenizer as Encoder
from transformers import GPTNeoXConfig, GPTNeoXForCausalLM

from gnomon.envs import Arithmetic, CharCount, Countdown, Scramble
from gnomon.envs.fresh import Divided
from gnomon.keys import Key
from gnomon.models.attention import NAME
from gnomon.models.policy import Policy
from gnomon.models.scoring import pack_rows
from gnomon.models.tokenizer import Tokenizer
from gnomon.types import Task
from gnomon_lab.tiny_policy.scratch import write

__all__ = ["Course", "Phase", "Recipe", "build", "trial"]

MARKS = ("<pad>", "<eos>", "<answer>", "</answer>", "<think>", "</think>")
LETTERS = "\n" + "".join(map(chr, range(32, 127)))


@dataclass(frozen=True, kw_only=True)
class Phase:
    """A part of a course with a corpus of its own."""

    until: int
    """The step of the course it ends before."""
    named: bool
    """Whether countdown's scratch work names the value it found, or only says that there is one."""
    share: tuple[tuple[str, float], ...]
    """Of every environment in the documents."""


@dataclass(frozen=True, kw_only=True)
class Course:
    """One rise and fall of the learning rate, with optimizers of its own."""

    phases: tuple[Phase, ...]
    rate: float
    """Highest learning rates, as a share of the recipe's."""
    warmup: int
    decay: int
    """Steps at the end over which the rates fall to zero; they are constant before."""
    care: float
    """Share of careful work in the first three quarters of the steps; it falls to each task's habit by 85 %."""
    guess: float = 0.0
    """Least share of guesses in what is not careful."""

    @property
    def steps(self) -> int:
        return self.phases[-1].until


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """Everything that decides the weights, besides the thread count and the libraries' versions."""

    seed: int = 0
    tasks: int = 16
    """Tasks per step; each is written out `replies` times, so its prompt is computed once."""
    replies: int = 6
    rate: float = 3e-3
    matrix_rate: float = 2e-2
    courses: tuple[Course, ...] = (
        Course(
            phases=(
                Phase(
                    until=5250,
                    named=False,
                    share=(("arithmetic", 0.15), ("char_count", 0.1), ("countdown", 0.5), ("scramble", 0.25)),
                ),
                Phase(
                    until=9000,
                    named=True,
                    share=(("arithmetic", 0.2), ("char_count", 0.2), ("countdown", 0.4), ("scramble", 0.2)),
                ),
            ),
            rate=1.0,
            warmup=100,
            decay=6000,
            care=0.7,
        ),
        Course(
            phases=(
                Phase(
                    until=900,
                    named=True,
                    share=(("arithmetic", 0.1), ("char_count", 0.45), ("countdown", 0.35), ("scramble", 0.1)),
                ),
            ),
            rate=0.3,
            warmup=20,
            decay=880,
            care=0.85,
            guess=0.75,
        ),
    )
    """Each begins with the rounded weights of the one before."""
    care: float = 0.0
    """Least share of careful work, from the first step to the last."""
    slot: bool = True
    """Whether prompts ask for the answer slot and replies have it."""
    letters: tuple[int, int] = (3, 3)
    """Shortest and longest word to unscramble."""
    largest: int = 10
    """Largest number of a countdown."""
    fresh: bool = False
    """Whether the corpus has no task of the train split of an environment with the option `fresh`."""
    width: int = 128
    layers: int = 4
    heads: int = 4


def trial(steps: int, recipe: Recipe | None = None) -> Recipe:
    """The recipe cut down to one short course, to see it run."""
    whole = recipe or Recipe()
    first = whole.courses[0]
    phase = replace(first.phases[-1], until=steps)
    return replace(whole, courses=(replace(first, phases=(phase,)),))


def tokenizer() -> Encoder:
    """One token per printable character, newline, and a few marks."""
    table = {token: place for place, token in enumerate((*MARKS, *LETTERS))}
    encoder = Encoder(models.WordLevel(table, unk_token="<pad>"))
    encoder.add_special_tokens(list(MARKS[:2]))
    encoder.add_tokens([AddedToken(token, special=False) for token in MARKS[2:]])
    encoder.pre_tokenizer = pre_tokenizers.Split(Regex(r"[\s\S]"), "isolated")
    encoder.decoder = decoders.Fuse()
    return encoder


def blank(recipe: Recipe) -> GPTNeoXForCausalLM:
    """The untrained model."""
    torch.manual_seed(Key(recipe.seed).at("init").integer())
    config = GPTNeoXConfig(
        vocab_size=len(MARKS) + len(LETTERS),
        hidden_size=recipe.width,
        num_hidden_layers=recipe.layers,
        num_attention_heads=recipe.heads,
        intermediate_size=4 * recipe.width,
        max_position_embeddings=1024,
        attention_dropout=0.0,
        hidden_dropout=0.0,
        use_parallel_residual=False,
        initializer_range=0.05,
        rope_parameters={"rope_type": "default", "rope_theta": 100.0, "partial_rotary_factor": 1.0},
        bos_token_id=None,
        eos_token_id=MARKS.index("<eos>"),
        pad_token_id=MARKS.index("<pad>"),
        attn_implementation=NAME,
    )
    return GPTNeoXForCausalLM(config)


def documents(recipe: Recipe, number: int, step: int) -> Iterator[tuple[str, list[str]]]:
    """The prompts of a course's step, each with several replies; tasks of the train split only."""
    course = recipe.courses[number]
    place_of = {"course": number} if number else {}
    key = Key(recipe.seed).at("documents", step=step, **place_of)
    care = max(recipe.care, course.care * min(1.0, max(0.0, 8.5 - 10.0 * step / course.steps)))
    phase = next(phase for phase in course.phases if step < phase.until)
    names, shares = zip(*phase.share, strict=True)
    for place in range(recipe.tasks):
        rng = key.at("task", place=place).random()
        name = rng.choices(names, shares)[0]
        task = tasks_of(name, recipe)[rng.randrange(2**31)]
        replies = [write(name, task, rng, care, course.guess, phase.named) for _ in range(recipe.replies)]
        if not recipe.slot:
            replies = [reply.replace("<answer>", "").removesuffix("</answer>") for reply in replies]
        yield task.messages[0].content + "\n", replies


@cache
def tasks_of(name: str, recipe: Recipe) -> Sequence[Task]:
    """The tasks of a corpus: of the train split of a taught environment, or of what it leaves out."""
    # The corpus of words is wider than the environment's own default.
    own: dict[str, Any] = {"length": recipe.letters, "anagrams": 9} if name == "scramble" else {}
    own |= {"largest": recipe.largest} if name == "countdown" else {}
    return TAUGHT[name](hint=recipe.slot, fresh=recipe.fresh, **own).corpus()


TAUGHT: Mapping[str, Callable[..., Divided]] = {
    "arithmetic": Arithmetic,
    "char_count": CharCount,
    "countdown": Countdown,
    "scramble": Scramble,
}
"""The environments that a base is taught."""


def optimizers_of(policy: Policy, recipe: Recipe) -> tuple[torch.optim.Optimizer, torch.optim.Optimizer]:
    """Muon for the matrices of the blocks (Jordan et al. 2024), AdamW for all else."""
    state = policy.state()
    matrices = [p for name, p in state.items() if p.ndim == 2 and "layers" in name]
    others = [p for name, p in state.items() if not (p.ndim == 2 and "layers" in name)]
    muon = torch.optim.Muon(matrices, lr=recipe.matrix_rate, weight_decay=0.01, momentum=0.95)
    return muon, torch.optim.AdamW(others, lr=recipe.rate, betas=(0.9, 0.98), weight_decay=0.01, fused=True)


def loss_of(policy: Policy, batch: list[tuple[str, list[str]]]) -> tuple[torch.Tensor, int]:
    """Summed negative log-likelihood of the replies' tokens, and their number."""
    code = policy.tokenizer
    prompts = [code.encode(prompt) for prompt, _ in batch]
    end = (min(code.eos),)
    replies = [(group, code.encode(text) + end) for group, (_, texts) in enumerate(batch) for text in texts]
    work = pack_rows(policy, prompts, replies)
    scores = policy.logits(policy.states(work))
    return torch.nn.functional.cross_entropy(scores, work.target, reduction="sum"), len(work.target)


def build(folder: Path, recipe: Recipe, report: int = 100) -> None:
    """Train the base and write it as a model folder, weights rounded to bfloat16 (half the size).

    Stopped at any moment, the same call goes on from the last report, to the same weights.

    Args: report: print a line and save every this many steps.
    """
    folder.mkdir(parents=True, exist_ok=True)
    tokenizer().save(str(folder / "tokenizer.json"))
    model = blank(recipe)
    model.config.save_pretrained(folder)
    policy = Policy(model, Tokenizer(folder))
    state = restore(folder, recipe)
    for number in range(state["course"], len(recipe.courses)):
        teach(policy, recipe, number, folder, state, report)
        policy.update({name: p.detach().to(torch.bfloat16) for name, p in policy.state().items()})
        state = {}
    write_folder(policy, folder, recipe)
    (folder / UNFINISHED).unlink(missing_ok=True)


def teach(
    policy: Policy, recipe: Recipe, number: int, folder: Path, state: Mapping[str, Any], report: int = 100
) -> None:
    """One course, or what is left of it."""
    course, optimizers = recipe.courses[number], optimizers_of(policy, recipe)
    start = state.get("step", 0)
    if start:
        policy.update(state["weights"])
        for optimizer, memory in zip(optimizers, state["optimizers"], strict=True):
            optimizer.load_state_dict(memory)
    began, total, seen = monotonic(), 0.0, 0
    for step in range(start, course.steps):
        loss, tokens = loss_of(policy, list(documents(recipe, number, step)))
        loss.backward()  # type: ignore[no-untyped-call]
        for parameter in policy.model.parameters():
            parameter.grad /= tokens
        total, seen = total + loss.item(), seen + tokens
        torch.nn.utils.clip_grad_norm_(policy.model.parameters(), 1.0)
        share = course.rate * min(1.0, (step + 1) / course.warmup, (course.steps - step) / course.decay)
        for optimizer, rate in zip(optimizers, (recipe.matrix_rate, recipe.rate), strict=True):
            for group in optimizer.param_groups:
                group["lr"] = rate * share
            optimizer.step()
            optimizer.zero_grad()
        if (step + 1) % report == 0:
            spent = monotonic() - began
            left = spent / (step + 1 - start) * (course.steps - step - 1)
            print(
                f"course {number + 1}/{len(recipe.courses)}  step {step + 1}/{course.steps}  "
                f"nats/token {total / seen:.4f}  {spent:.0f} s, {left:.0f} s left",
                flush=True,
            )
            total, seen = 0.0, 0
            keep(folder, recipe, policy, optimizers, number, step + 1)


UNFINISHED = "unfinished.pt"
"""What a build that was stopped goes on from."""


def keep(
    folder: Path, recipe: Recipe, policy: Policy, optimizers: Sequence[torch.optim.Optimizer], course: int, step: int
) -> None:
    """Save a build after this many steps of a course."""
    state = {"recipe": asdict(recipe), "course": course, "step": step, "weights": policy.state()}
    torch.save(state | {"optimizers": [o.state_dict() for o in optimizers]}, folder / f"{UNFINISHED}.new")
    (folder / f"{UNFINISHED}.new").replace(folder / UNFINISHED)


def restore(folder: Path, recipe: Recipe) -> Mapping[str, Any]:
    """What `keep` saved of a build of the same recipe; the beginning where there is none."""
    if (folder / UNFINISHED).is_file():
        state: dict[str, Any] = torch.load(folder / UNFINISHED)
        if state["recipe"] == asdict(recipe):
            print(f"going on after step {state['step']} of course {state['course'] + 1}")
            return state
    return {"course": 0}


def write_folder(policy: Policy, folder: Path, recipe: Recipe) -> None:
    halves = {name: p.detach().to(torch.bfloat16) for name, p in policy.state().items()}
    policy.model.save_pretrained(folder, state_dict=halves)
    for name in ("config.json", "generation_config.json"):
        path = folder / name
        if path.exists():
            path.write_text(path.read_text("utf-8").replace('"float32"', '"bfloat16"'), "utf-8")
    (folder / "recipe.json").write_text(json.dumps(asdict(recipe), indent=1) + "\n", "utf-8")
    (folder / "tokenizer_config.json").write_text(
        json.dumps({"tokenizer_class": "PreTrainedTokenizerFast", "eos_token": "<eos>", "pad_token": "<pad>"}, indent=1)
        + "\n",
        "utf-8",
    )
