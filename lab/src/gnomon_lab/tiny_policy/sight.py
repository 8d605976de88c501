"""A small policy that sees, in minutes: a vision tower and a language model from nothing, taught drawn tasks.

`python -m gnomon_lab.tiny_policy.sight FOLDER [count_shapes | read_clock | maze]` writes its model folder.
"""

from __future__ import annotations

import json
import random
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file
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
from gnomon.envs.maze import Maze
from gnomon.envs.read_clock import ReadClock
from gnomon.envs.turns import MultiTurn
from gnomon.images import Image
from gnomon.keys import Key
from gnomon.models.image_reader import reader_of
from gnomon.models.tokenizer import Tokenizer
from gnomon.rendering import Transcript, choose
from gnomon.types import Origin, Task
from gnomon_lab.tiny_policy.build import LETTERS, MARKS, tokenizer

__all__ = ["LESSONS", "Lessons", "train_sighted"]

IMAGE = "<image>"
TEMPLATE = (
    "{% for message in messages %}{% for part in message['content'] %}{% if part['type'] == 'image' %}<image>"
    "{% else %}{{ part['text'] }}{% endif %}{% endfor %}"
    "{{ '\n' if message['role'] == 'user' else eos_token }}{% endfor %}"
)
TOWER = ("vision_tower.", "vision_tower.vision_model.")
"""How names of its weights begin where transformers writes them, and in folders of the hub, which vLLM reads."""
WIDTH, LAYERS, HEADS = 64, 2, 4
BATCH, RATE = 32, 2e-3
"""Tasks of a step, and the highest learning rate."""
Drawn = SingleTurn | MultiTurn
Lesson = tuple[Tensor, Tensor, Tensor]
"""[L] tokens of a conversation, [L] those of them that are learned and -100 elsewhere, and the pixels of its images."""


@dataclass(frozen=True, kw_only=True)
class Lessons:
    """How a policy is taught an environment before it is trained there."""

    env: Drawn
    """With images of one size."""
    words: tuple[str, ...] = ()
    """The environment's settings, as words of `gnomon train`, and those that its training needs."""
    steps: int = 500
    tasks: int = 1024
    """Train tasks that are taught."""
    guesses: float = 0.5
    """Fraction of the answers in the last fifth of the steps that are another task's, or any legal move, so that
    rewards have something to teach."""


LESSONS = {
    "count_shapes": Lessons(env=CountShapes(others=0), words=("env.others=0",)),
    "read_clock": Lessons(env=ReadClock(sides=(32,), step=30), words=("env.sides=[32]", "env.step=30"), steps=800),
    "maze": Lessons(env=Maze(), words=("steps=80", "eval.every=20"), steps=300, tasks=6400),
}


def train_sighted(folder: Path, lessons: Lessons, seed: int = 0) -> Path:
    """Write a model folder, trained on solutions of train tasks."""
    env, steps = lessons.env, lessons.steps
    tasks = [env.tasks("train")[index] for index in range(lessons.tasks)]
    size = tasks[0].messages[-1].images[0].pixels().width
    write_folder(folder, size)
    teacher = Teacher(folder, env, tasks)
    torch.manual_seed(Key(seed).at("init").integer())
    model = blank(size)
    optimizer = torch.optim.AdamW(model.parameters(), lr=RATE, betas=(0.9, 0.98), weight_decay=0.01)
    for step in range(steps):
        rng = Key(seed).at("sight", step=step).random()
        guesses = lessons.guesses if 5 * step > 4 * steps else 0.0
        taught = [teacher.lesson(rng.randrange(len(tasks)), rng, guesses) for _ in range(BATCH)]
        nats = 0.0
        for _, some in groupby(sorted(taught, key=turns), turns):  # Of about one length each.
            loss = loss_of(model, list(some)) / BATCH
            loss.backward()  # type: ignore[no-untyped-call]
            nats += float(loss.detach())
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        for group in optimizer.param_groups:
            group["lr"] = RATE * min(1.0, (step + 1) / 50, (steps - step) / (steps / 2))
        optimizer.step()
        optimizer.zero_grad()
        if (step + 1) % 100 == 0:
            print(f"step {step + 1}/{steps}  nats per episode {nats:.3f}", flush=True)
    model.save_pretrained(folder)
    file = folder / "model.safetensors"
    save_file({name.replace(*TOWER): value for name, value in load_file(file).items()}, file, {"format": "pt"})
    return folder


class Teacher:
    """Plays train tasks. Args: folder: of the policy that is taught, whose weights may be missing."""

    def __init__(self, folder: Path, env: Drawn, tasks: Sequence[Task]) -> None:
        reader = reader_of(folder)
        assert reader is not None
        self.env, self.tasks, self._reader, self._code = env, tasks, reader, Tokenizer(folder)
        self._renderer = choose(self._code)
        self._played: dict[int, Lesson] = {}
        """Without guesses."""
        self._seen: dict[str, Tensor] = {}
        """Pixels by the hash of their image."""

    def lesson(self, place: int, rng: random.Random, guesses: float) -> Lesson:
        """The conversation of an episode. Args: guesses: fraction of replies that are guessed."""
        if guesses:
            return self._play(self.tasks[place], rng, guesses)
        if place not in self._played:
            self._played[place] = self._play(self.tasks[place], rng, 0.0)
        return self._played[place]

    def _play(self, task: Task, rng: random.Random, guesses: float) -> Lesson:
        episode, images, done = self.env.start(task, Key(0)), list[Image](), False
        messages = episode.messages
        transcript = Transcript.begin(self._renderer, messages)
        while not done:
            images += [image for message in messages for image in message.images]
            reply = self._reply(task, episode, rng, rng.random() < guesses)
            transcript = transcript.with_completion([*self._code.encode(reply), min(self._code.eos)])
            step = episode.step(reply)
            messages, done = step.messages, step.done
            transcript = transcript if done else transcript.observe(messages)
        parts = [
            (self._reader.token_id if token < 0 else token, token if segment.origin is Origin.POLICY else -100)
            for segment in transcript.segments
            for token in segment.token_ids
        ]
        ids, wanted = torch.tensor(parts).unbind(1)
        return ids, wanted, torch.cat([self._pixels(image) for image in images])

    def _reply(self, task: Task, episode: Any, rng: random.Random, guess: bool) -> str:
        if isinstance(self.env, SingleTurn):
            return self.env.framed(self.env.solution(rng.choice(self.tasks) if guess else task))
        if guess:
            return f"<answer>{rng.choice(sorted(episode.ask.legal))}</answer>"
        return self.env.expert(task, episode)

    def _pixels(self, image: Image) -> Tensor:
        """[1, 3, S, S]."""
        if image.sha256 not in self._seen:
            self._seen[image.sha256] = self._reader.inputs(image)["pixel_values"]
        return self._seen[image.sha256]


def turns(lesson: Lesson) -> int:
    return len(lesson[2])


def loss_of(model: LlavaForConditionalGeneration, taught: Sequence[Lesson]) -> Tensor:
    """Negative log-likelihood of the replies of some episodes."""
    ids = pad_sequence([ids for ids, _, _ in taught], batch_first=True)
    labels = pad_sequence([wanted for _, wanted, _ in taught], batch_first=True, padding_value=-100)
    scores = model(input_ids=ids, pixel_values=torch.cat([pixels for *_, pixels in taught]), use_cache=False).logits
    return cross_entropy(scores[:, :-1].flatten(0, 1), labels[:, 1:].flatten(), reduction="sum")


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
            **part,
            num_key_value_heads=HEADS,
            vocab_size=letters + 1,
            max_position_embeddings=1024,
            initializer_range=WIDTH**-0.5,
        ),
        image_token_index=letters,
        vision_feature_layer=-1,
        eos_token_id=MARKS.index("<eos>"),
    )


def blank(size: int) -> LlavaForConditionalGeneration:
    """The untrained model."""
    return LlavaForConditionalGeneration(config_of(size)).float()


if __name__ == "__main__":
    train_sighted(Path(sys.argv[1]), LESSONS[sys.argv[2] if len(sys.argv) > 2 else "count_shapes"])
