"""Images of a run: in its folder by hash, beside the prompt in the viewer, and named in the terminal."""

from pathlib import Path

from starlette.testclient import TestClient

from gnomon.envs.count_shapes import CountShapes
from gnomon.images import Shelf
from gnomon.reading.rollouts import question
from gnomon.store import Run
from gnomon.store.codec import encode
from gnomon.store.layout import IMAGES
from gnomon.types import Completion, Finish, Group, Rollout, Status, Stop, Turn, Verdict
from gnomon.viewer.app import application


def test_the_image_stands_beside_the_prompt_and_is_served_by_its_hash(tmp_path: Path) -> None:
    task = CountShapes().tasks("train")[0]
    (image,) = task.messages[-1].images
    shelf = Shelf()
    with shelf.keep_in(tmp_path / "run" / IMAGES):
        token = shelf.keep(image)
    done = Completion(token_ids=(1,), logprobs=(-1.0,), text="3", finish=Finish.EOS, version=0)
    turn = Turn(prompt_ids=(token, 3), completion=done, messages=task.messages)
    verdict = Verdict(status=Status.WRONG, parts=())
    rollout = Rollout(task=task, sample=0, turns=(turn,), verdict=verdict, stop=Stop.DONE)
    group = Group(task=task, index=0, rollouts=(rollout,))
    with Run.create(tmp_path / "other", recipe="", manifest={}, genesis={}) as run:
        run.append(list(encode(group, kind="rollout", step=0)))
    (tmp_path / "run" / IMAGES).rename(tmp_path / "other" / IMAGES)
    client = TestClient(application([tmp_path / "other"]), base_url="http://127.0.0.1")
    address = f"/run/other/-/image/{image.sha256}"
    for page in ("step/0", "task/0", "group/0:0", "rollout/0:0:0"):
        assert f'src="{address}"' in client.get(f"/run/other/-/{page}").text, page
    served = client.get(address)
    assert served.content == image.data and served.headers["content-type"] == "image/png"
    for wrong in ("0" * 64, "..%2Frecipe.toml", "*", image.sha256[:8]):
        assert client.get(f"/run/other/-/image/{wrong}").status_code == 404
    body = next(iter(encode(group, kind="rollout", step=0))).body
    assert question(body).startswith(f"[image {image.sha256[:16]}]\nHow many ")
