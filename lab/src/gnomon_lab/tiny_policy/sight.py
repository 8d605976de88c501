"""A small policy that sees, in a minute: a vision tower and a language model from nothing, taught to count shapes.

`python -m gnomon_lab.tiny_policy.sight FOLDER` writes its model folder.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy
from torch.nn.utils.rnn import pad_sequence
from transformers import (
    CLIPImageProcessorPil,
    CLIPVisionConfig,
    LlamaConfig,
    LlavaConfig,
    LlavaForConditionalGeneration,
)

from gnomon.envs.base import SingleTurn
from gnomon.envs.count_shapes import CELL, CountShapes
from gnomon.keys import Key
from gnomon.models.image_reader import reader_of
from gnomon.models.tokenizer import Tokenizer
from gnomon.rendering import choose, joined
from gnomon.types import Task
from gnomon_lab.tiny_policy.build import LETTERS, MARKS, tokenizer

__all__ = ["sighted"]

IMAGE = "<image>"
TEMPLATE = (
    "{% for message in messages %}{% for part in message['content'] %}{% if part['type'] == 'image' %}<image>"
    "{% else %}{{ part['text'] }}{% endif %}{% endfor %}"
    "{{ '\n' if message['role'] == 'user' else eos_token }}{% endfor %}"
)
WIDTH, LAYERS, HEADS = 64, 2, 4
POOL, BATCH, RATE = 1024, 32, 2e-3
"""Train tasks that are taught, tasks of a step, and the highest learning rate."""
Lesson = tuple[Tensor, Tensor]
"""[L] tokens of a prompt, and its pixels."""


def sighted(folder: Path, steps: int = 500, guesses: float = 0.5, seed: int = 0, env: SingleTurn | None = None) -> Path:
    """Write a model folder, trained on solutions of train tasks.

    Args: guesses: fraction of the solutions in the last fifth of the steps that are of another task, so that rewards
        have something to teach; env: with images of one size.
    """
    env = env or CountShapes(others=0)
    tasks = [env.tasks("train")[index] for index in range(POOL)]
    size = tasks[0].messages[-1].images[0].pixels().width
    write_folder(folder, size)
    taught = list(lessons(folder, tasks))
    torch.manual_seed(Key(seed).at("init").integer())
    model, code = blank(size), Tokenizer(folder)
    optimizer = torch.optim.AdamW(model.parameters(), lr=RATE, betas=(0.9, 0.98), weight_decay=0.01)
    for step in range(steps):
        rng = Key(seed).at("sight", step=step).random()
        places = [rng.randrange(POOL) for _ in range(BATCH)]
        wrong = guesses if 5 * step > 4 * steps else 0.0
        answers = [env.solution(tasks[rng.randrange(POOL) if rng.random() < wrong else place]) for place in places]
        replies = [torch.tensor([*code.encode(env.framed(answer)), min(code.eos)]) for answer in answers]
        loss = loss_of(model, [taught[place] for place in places], replies)
        loss.backward()  # type: ignore[no-untyped-call]
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        for group in optimizer.param_groups:
            group["lr"] = RATE * min(1.0, (step + 1) / 50, (steps - step) / (steps / 2))
        optimizer.step()
        optimizer.zero_grad()
        if (step + 1) % 100 == 0:
            print(f"step {step + 1}/{steps}  nats per reply {float(loss.detach()):.3f}", flush=True)
    model.save_pretrained(folder)
    return folder


def lessons(folder: Path, tasks: Sequence[Task]) -> Iterator[Lesson]:
    """The prompts of tasks, and the pixels of their images."""
    reader, renderer = reader_of(folder), choose(Tokenizer(folder))
    assert reader is not None
    for task in tasks:
        prompt = [reader.token_id if token < 0 else token for token in joined(renderer.start(task.messages))]
        yield torch.tensor(prompt), reader.inputs(task.messages[-1].images[0])["pixel_values"]


def loss_of(model: LlavaForConditionalGeneration, taught: Sequence[Lesson], replies: Sequence[Tensor]) -> Tensor:
    """Mean negative log-likelihood of the replies."""
    rows = [torch.cat([prompt, reply]) for (prompt, _), reply in zip(taught, replies, strict=True)]
    wanted = [torch.cat([prompt * 0 - 100, reply]) for (prompt, _), reply in zip(taught, replies, strict=True)]
    ids, labels = pad_sequence(rows, batch_first=True), pad_sequence(wanted, batch_first=True, padding_value=-100)
    scores = model(input_ids=ids, pixel_values=torch.cat([pixels for _, pixels in taught]), use_cache=False).logits
    return cross_entropy(scores[:, :-1].flatten(0, 1), labels[:, 1:].flatten(), reduction="sum") / len(taught)


def write_folder(folder: Path, size: int) -> None:
    """Everything but the weights. Args: size: pixels of a side."""
    folder.mkdir(parents=True, exist_ok=True)
    encoder = tokenizer()
    encoder.add_special_tokens([IMAGE])
    encoder.save(str(folder / "tokenizer.json"))
    (folder / "chat_template.jinja").write_text(TEMPLATE, "utf-8")
    words = {"tokenizer_class": "PreTrainedTokenizerFast", "eos_token": MARKS[1], "pad_token": MARKS[0]}
    (folder / "tokenizer_config.json").write_text(json.dumps(words, indent=1) + "\n", "utf-8")
    square = {"height": size, "width": size}
    CLIPImageProcessorPil(size={"shortest_edge": size}, crop_size=square).save_pretrained(folder)
    counts = {"patch_size": CELL, "vision_feature_select_strategy": "default", "num_additional_image_tokens": 1}
    (folder / "processor_config.json").write_text(json.dumps(counts, indent=1) + "\n", "utf-8")
    config_of(size).save_pretrained(folder)


def config_of(size: int) -> LlavaConfig:
    part = {"hidden_size": WIDTH, "intermediate_size": 4 * WIDTH, "num_hidden_layers": LAYERS} | {
        "num_attention_heads": HEADS
    }
    letters = len(MARKS) + len(LETTERS)
    return LlavaConfig(
        vision_config=CLIPVisionConfig(**part, image_size=size, patch_size=CELL),
        text_config=LlamaConfig(
            **part, num_key_value_heads=HEADS, vocab_size=letters + 1, max_position_embeddings=1024
        ),
        image_token_index=letters,
        vision_feature_layer=-1,
        eos_token_id=MARKS.index("<eos>"),
    )


def blank(size: int) -> LlavaForConditionalGeneration:
    """The untrained model."""
    return LlavaForConditionalGeneration(config_of(size)).float()


if __name__ == "__main__":
    sighted(Path(sys.argv[1]))
