"""How far a scored rollout is from the first page of the viewer, and whether one page shows a task at every step."""

import re
import tempfile
from threading import Thread
from typing import Any
from urllib.parse import urljoin
from urllib.request import HTTPCookieProcessor, build_opener

import gnomon
from gnomon_lab.studies import Claim, Study
from gnomon.viewer import Viewer

LINK = r'<a[^>]* href="(.+?)"'


def reached(seed: int) -> dict[str, float]:
    """Links to a rollout, whether its page has the reward, and how many of the 16 rollouts of a task its page shows."""
    sizes: Any = {"rollout": {"tasks": [0, 1], "prompts": 2, "group": 4}, "eval": {"tasks": 4}, "quiet": True}
    with tempfile.TemporaryDirectory() as at, gnomon.train("char_count", run=f"{at}/a", steps=4, **sizes) as run:
        rollouts = [f'"/run/a/-/rollout/{row.step}:0:{row.sample}"' for row in run.rollout_rows(task=0)]
        Thread(target=(viewer := Viewer([run.folder])).run, daemon=True).start()
        opener, levels = build_opener(HTTPCookieProcessor()), [{viewer.url}]
        while not (found := [url for url in levels[-1] if "/-/rollout/" in url]):
            texts = {url: opener.open(url).read().decode() for url in levels[-1]}
            levels.append({urljoin(url, link) for url in texts for link in re.findall(LINK, texts[url])})
        scored, task = (opener.open(urljoin(found[0], at)).read().decode() for at in ("", "/run/a/-/task/0"))
        viewer.stop()
    return {"links": len(levels) - 1, "scored": "<dt>reward" in scored, "shown": sum(at in task for at in rollouts)}


study = Study(
    question="Is a scored rollout at most two links away, and a task at all of its steps on one page?",
    why="Samples explain what a curve does not. Links are counted from the page that `gnomon view` opens.",
    arms={"viewer": reached}, exact=True,
    claims=[Claim(measure="links", arm="viewer", within=2.5),
            *(Claim(measure=name, arm="viewer", above=line) for name, line in (("scored", 0.5), ("shown", 15.5)))],
    prediction={"PASS": 0.9, "FAIL": 0.1, "INCONCLUSIVE": 0.0},
)  # fmt: skip
