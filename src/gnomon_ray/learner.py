"""The learner of a run in a Ray cluster, as the run sees it.

If its process dies, a new one loads the last kept state and repeats the calls after it: those of `launch.state_every`
steps at most. On the exact tier that gives the same bits, so the run goes on as if nothing had happened, and nothing is
sampled again.
"""

from __future__ import annotations

import pickle
import time
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any, cast

import ray
from ray.exceptions import RayActorError
from torch import Tensor

from gnomon.config import RunConfig
from gnomon.errors import GnomonError, ResourceError
from gnomon.learners.base import FloatArray, Model, Named
from gnomon.learners.batch import Batch, TokenSequence
from gnomon.learners.verbs import files_of, write_files
from gnomon.models.weights import WeightsRef
from gnomon.objectives import Coefficients, Objective
from gnomon.repeats import Repeats
from gnomon.run.losses import LearnerLoss
from gnomon.stats import Stats
from gnomon.workers import Carried, pack_value
from gnomon_ray.deaths import PING, START, dead
from gnomon_ray.fleet import connect
from gnomon_ray.places import FAILED, GONE, Place, reason
from gnomon_ray.trainer import Trainer

__all__ = ["RayLearner"]

END = 10.0
"""Seconds for the process to end those that it has started."""


class RayLearner:
    """Args: config, row: settings and objective of the run.

    Raises: ResourceError E510 for a cluster that cannot be reached, E511 without room for the learner, E512 if it dies
        again and again; what making a learner raises.
    """

    def __init__(self, config: RunConfig, row: Objective) -> None:
        self._launch, self._actor = config.launch, cast(Any, None)
        self._period = config.launch.state_every * config.optim.updates
        """Optimiser steps from one kept state to the next."""
        self._state: Any = None
        """Reference to the files of the last kept state; None: the learner as it was made."""
        self._since: list[tuple[str, Any]] = []
        """Calls after that state which change the learner: verb, and reference to the arguments."""
        self._repeats = Repeats(config.launch.restarts)
        self._losses: list[LearnerLoss] = []
        launch = config.launch.model_copy(update={"type": "local"})
        there = config.model_copy(update={"learner": "local", "launch": launch})
        with ExitStack() as undo:
            connect(config, undo)
            self._parts = ray.put(pack_value(Carried.of((there, row))))
            self._place = Place("the learner", config.launch.learner or {"CPU": 1.0})
            undo.callback(self._place.remove)
            undo.callback(self._end)
            self._require()
            self._undo = undo.pop_all()

    def score(
        self, sequences: Sequence[TokenSequence], temperature: float = 1.0, model: Model = Model.POLICY
    ) -> list[FloatArray]:
        found: list[FloatArray] = self._call("score", list(sequences), temperature, model)
        return found

    def forward_backward(self, batch: Batch, objective: Objective | Named | Coefficients) -> Stats:
        found: Stats = self._change("forward_backward", batch, objective)
        return found

    def optim_step(self, lr: float) -> Stats:
        found: Stats = self._change("optim_step", lr)
        if sum(verb == "optim_step" for verb, _ in self._since) >= self._period:
            self._saved_files()
        return found

    def save_state(self, folder: Path) -> None:
        write_files(folder, self._saved_files())

    def load_state(self, folder: Path) -> None:
        files = ray.put(pack_value((files_of(folder),)))
        self._send("load_state", files)
        self._keep(files)

    def publish(self) -> WeightsRef:
        """The present version, whose weights are in this process's memory."""
        found: WeightsRef = self._call("publish")
        return found

    def losses(self) -> list[LearnerLoss]:
        """The deaths since the last call."""
        found, self._losses = self._losses, []
        return found

    def close(self) -> None:
        """End its process, and the cluster if it is the run's own."""
        self._undo.close()

    def _saved_files(self) -> dict[str, Tensor]:
        """The files of the present state, from which it goes on if the process dies."""
        files: dict[str, Tensor] = self._call("save_state")
        self._keep(ray.put(pack_value((files,))))
        return files

    def _keep(self, files: Any) -> None:
        """Go on from this state if the process dies. Args: files: reference to them, in this node's object store."""
        self._state, self._since = files, []

    def _change(self, verb: str, *arguments: Any) -> Any:
        """The answer to a call that changes the learner, also where the answer is an error."""
        sent = verb, ray.put(pack_value(arguments))
        try:
            return self._send(*sent)
        finally:
            self._since.append(sent)

    def _call(self, verb: str, *arguments: Any) -> Any:
        return self._send(verb, ray.put(pack_value(arguments)))

    def _send(self, verb: str, arguments: Any) -> Any:
        """What the learner answers; asked again of a new process if one dies. Raises: what the learner raises."""
        while True:
            try:
                found = self._answer(self._require().call.remote(verb, arguments), self._launch.seconds)
            except GONE as error:
                self._lose(str(error))
                continue
            if isinstance(found, ResourceError) and found.code == "E509":  # One of the learner's own processes died.
                self._lose(str(found))
                continue
            self._repeats.on_answer()
            if isinstance(found, GnomonError):
                raise found
            return pickle.loads(found)

    def _require(self) -> Any:
        """The actor. A new one is brought to where the last one was.

        Raises: ResourceError E511, E512; E514 where the disk of a new one is full.
        """
        while self._actor is None:
            if self._repeats.exhausted:
                raise dead(
                    f"the learner does not stay alive (deaths in a row: {self._repeats.count})", self._repeats.why
                )
            time.sleep(self._repeats.pause)
            self._wait_for_room()
            actor = self._actor = self._place.actor(Trainer, self._parts, 4)
            try:
                error = self._answer(actor.start.remote(), max(START, self._launch.seconds))
                if isinstance(error, GnomonError):
                    raise error
                again = [("load_state", self._state)] if self._state is not None else []
                for verb, arguments in again + self._since:
                    found = self._answer(actor.call.remote(verb, arguments), self._launch.seconds)
                    # A call that failed is repeated too, but one that lacks a resource did not do what it did before.
                    if isinstance(found, ResourceError):
                        raise found
            except FAILED as error:
                self._lose(reason(error))
            except ResourceError as error:
                self._kill()  # It has not the state that the run needs.
                if error.code != "E509":
                    raise
                self._lose(str(error))
        return self._actor

    def _wait_for_room(self) -> None:
        began = time.monotonic()
        while not self._place.placed:
            self._repeats.on_answer()  # When there is room again, it is on another node.
            if time.monotonic() - began > self._launch.seconds:
                raise self._place.no_room(self._launch.seconds)
            time.sleep(PING / 10)

    def _answer(self, answer: Any, seconds: float) -> Any:
        """What an actor answers. Raises: RayActorError if it died, or gave no sign of life for so long."""
        silent, ping = 0.0, None
        while not ray.wait([answer], timeout=PING)[0]:
            silent += PING  # Time in which this process was stopped does not count.
            ping = ping or self._actor.alive.remote()
            if ray.wait([ping], timeout=0)[0]:
                ray.get(ping)
                silent, ping = 0.0, None
            elif silent > seconds:
                raise RayActorError(error_msg=f"no answer for {seconds:g} s")
        return ray.get(answer)

    def _lose(self, why: str) -> None:
        self._kill()
        self._repeats.another(why)
        self._losses.append(LearnerLoss(why=why, calls=len(self._since)))

    def _kill(self) -> None:
        actor, self._actor = self._actor, None
        if actor is not None:
            with suppress(Exception):
                ray.kill(actor)

    def _end(self) -> None:
        if self._actor is not None:
            with suppress(Exception):  # The cluster may be gone.
                ray.get(self._actor.close.remote(), timeout=END)
        self._kill()
