"""Rows with images: named files, bytes and parts of messages, with ids that hold the image's hash."""

import json
from base64 import b64encode
from pathlib import Path
from typing import Any

import pytest

from gnomon.envs import Dataset
from gnomon.envs.check import check_env
from gnomon.envs.drawing import Canvas
from gnomon.errors import ConfigError
from gnomon.images import Image
from gnomon.store.codec import decode, encode
from gnomon.types import Completion, Finish, Group, Part, Rollout, Status, Stop, Task, Turn, Verdict

ASKED = "How many colours?"


def drawn(number: int) -> bytes:
    canvas = Canvas(16)
    canvas.fill("red", lambda x, y: x + 16 * y < number + 9)
    return canvas.png()


def folder(place: Path, count: int = 40, **more: Any) -> dict[str, Any]:
    """A folder with rows, and the options that read it."""
    (place / "pictures").mkdir()
    rows = [{"prompt": ASKED, "image": f"pictures/{n}.png", "answer": f"{n % 3}"} for n in range(count)]
    for n in range(count):
        (place / "pictures" / f"{n}.png").write_bytes(drawn(n))
    (place / "rows.jsonl").write_text("".join(json.dumps(row | more) + "\n" for row in rows))
    return {"path": str(place / "rows.jsonl"), "image": "image", "verifier": "number"}


def every(env: Dataset) -> list[Task]:
    return [task for split in ("train", "test") for task in env.tasks(split)]


def test_rows_name_their_images_and_equal_questions_with_other_images_are_other_tasks(tmp_path: Path) -> None:
    env = Dataset(**folder(tmp_path))
    tasks = every(env)
    assert len({task.id for task in tasks}) == len({task.messages[-1].images for task in tasks}) == 40
    assert len(env.tasks("test")) > 0
    task = next(task for task in tasks if task.info["row"] == 7)
    assert task.messages[-1].images == (Image.of(drawn(7)),) and ASKED in task.messages[-1].content
    check_env(env)


@pytest.mark.parametrize(
    "part",
    [
        {"type": "image", "image": "pictures/0.png"},
        {"type": "image", "image": {"path": "pictures/0.png", "bytes": None}},
        {"type": "image_url", "image_url": {"url": "data:image/png;base64," + b64encode(drawn(0)).decode()}},
    ],
)
def test_a_message_has_images_as_parts(tmp_path: Path, part: dict[str, Any]) -> None:
    asked = [{"role": "user", "content": [part, {"type": "text", "text": ASKED}]}]
    env = Dataset(**folder(tmp_path) | {"image": ""})
    (message,) = env.question_messages({"prompt": asked})
    assert message.content == ASKED and message.images == (Image.of(drawn(0)),)


@pytest.mark.parametrize(
    "damage, why",
    [
        (lambda path: path.unlink(), "No such file"),
        (lambda path: path.write_bytes(b"GIF89a"), "GIF"),
        (lambda path: path.write_bytes(drawn(3)[:20]), "cut off"),
    ],
)
def test_an_image_that_cannot_be_used_is_refused_before_the_run_with_its_file(
    tmp_path: Path, damage: Any, why: str
) -> None:
    options = folder(tmp_path)
    damage(tmp_path / "pictures" / "3.png")
    with pytest.raises(ConfigError, match=rf"E188(.|\n)*3\.png \(.*rows\.jsonl, row 3\)(.|\n)*{why}"):
        Dataset(**options).tasks("train")


@pytest.mark.needs("PIL")
def test_a_damaged_image_is_an_error_with_its_row(tmp_path: Path) -> None:
    options = folder(tmp_path)
    (tmp_path / "pictures" / "3.png").write_bytes(drawn(3)[:-30])
    task = next(task for task in every(Dataset(**options)) if task.info["row"] == 3)
    with pytest.raises(ConfigError, match=r"E188(.|\n)*3\.png \(.*rows\.jsonl, row 3\)(.|\n)*damaged"):
        task.messages[-1].images[0].pixels()


def test_a_column_without_images_and_an_address_are_refused(tmp_path: Path) -> None:
    options = folder(tmp_path, count=4)
    with pytest.raises(ConfigError, match=r"E153(.|\n)*fix: env.image=image"):
        Dataset(**options | {"image": "picture"}).tasks("train")
    (tmp_path / "rows.jsonl").write_text(json.dumps({"prompt": ASKED, "image": "https://x/y.png", "answer": "1"}))
    with pytest.raises(ConfigError, match=r"E153(.|\n)*never fetched"):
        Dataset(**options).tasks("train")


def test_a_record_has_the_hash_of_an_image_and_not_its_bytes(tmp_path: Path) -> None:
    task = every(Dataset(**folder(tmp_path)))[0]
    image = task.messages[-1].images[0]
    done = Completion(token_ids=(1,), logprobs=(-1.0,), text="1", finish=Finish.EOS, version=0)
    turn = Turn(prompt_ids=(image.token, image.token, 3), completion=done, messages=task.messages)
    verdict = Verdict(status=Status.WRONG, parts=(Part(name="correct", value=0.0),))
    rollout = Rollout(task=task, sample=0, turns=(turn,), verdict=verdict, stop=Stop.DONE)
    records = list(encode(Group(task=task, index=0, rollouts=(rollout,)), kind="rollout", step=0))
    assert records[0].body["messages"][-1]["images"] == [image.sha256]
    (group,) = decode(records)
    assert group.task.messages == task.messages and group.rollouts[0].turns[0].prompt_ids == turn.prompt_ids
