"""Where a run samples and learns, from its settings."""

from __future__ import annotations

from typing import Any

import pytest

from gnomon.config import Source, resolve
from gnomon.config.placement import EngineKind, LearnerPlace, Placement

LOCAL, EMBEDDED = LearnerPlace.LOCAL, EngineKind.EMBEDDED


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({}, (LOCAL, "", EMBEDDED, 0, 0)),
        ({"ranks": 2}, (LOCAL, "", EMBEDDED, 2, 0)),
        ({"launch": {"type": "local", "samplers": 3}}, (LOCAL, "", EMBEDDED, 0, 0)),
        ({"launch": {"type": "ray", "samplers": 3}}, (LOCAL, "", EMBEDDED, 0, 3)),
        ({"launch": "ray", "learner": "ray"}, (LearnerPlace.CLUSTER, "", EMBEDDED, 0, 2)),
        ({"learner": "http://host:1"}, (LearnerPlace.SERVER, "http://host:1", EMBEDDED, 0, 0)),
        ({"learner": "https://host:1"}, (LearnerPlace.SERVER, "https://host:1", EMBEDDED, 0, 0)),
        (
            {"learner": "tinker:Qwen/Qwen3-8B", "engine": "tinker", "policy": {"lora": {"rank": 32}}},
            (LearnerPlace.SERVICE, "Qwen/Qwen3-8B", EngineKind.SERVICE, 0, 0),
        ),
        ({"engine": {"type": "vllm", "python": "/usr/bin/python3"}}, (LOCAL, "", EngineKind.VLLM, 0, 0)),
    ],
)
def test_the_settings_decide(settings: dict[str, Any], expected: tuple[Any, ...]) -> None:
    config, _ = resolve([Source({"env": "char_count", **settings}, {})])
    placement = config.placement
    learner, target, engine, ranks, samplers = expected
    assert placement == Placement(learner=learner, target=target, engine=engine, ranks=ranks, samplers=samplers)
    assert placement.learner_has_own_device == (learner in (LearnerPlace.CLUSTER, LearnerPlace.SERVER))
    assert placement.same_numbers == (learner is not LearnerPlace.SERVICE)


def test_parts_that_were_passed_have_places_of_their_own() -> None:
    placement = Placement.of("object:Mine", "object:Other", ranks=0, samplers=2, launch="local")
    assert placement.learner is LearnerPlace.OBJECT and placement.engine is EngineKind.OBJECT
    assert not placement.same_numbers and not placement.learner_has_own_device
