"""Whether errors of a judge that follow the answer are worse than as many errors at random."""

from gnomon_lab.studies import Claim, Study, gain

KNOWN = ["reward.weights", "sentinels", "exploit", "correctness", "search", "invariance"]
JUDGED = {"env.type": "gnomon.envs.controlled:Controlled", "env.of": "arithmetic", "audit.acknowledge": KNOWN}

study = Study(
    question="Does a judge that errs at random on a quarter of the replies teach, and one that errs on a twentieth of "
    "the answers not?",
    why="Judges of open answers err. A policy can exploit only errors that it can predict. The structured judge turns "
    "its verdict on one answer in 20, in every task, so an answer that it always accepts may be learned.",
    base="arithmetic",
    settings={"steps": 60, "prompts": 16, "eval.tasks": 128, "eval.every": 60},
    arms={
        "true": {},
        "random quarter": {**JUDGED, "env.control": "noisy", "env.share": 0.25},
        "structured twentieth": {**JUDGED, "env.control": "structured", "env.share": 0.05},
    },
    seeds=range(6),
    measures={"gain": gain},
    claims=[
        Claim(measure="gain", arm="random quarter", above=0.1),
        Claim(measure="gain", arm="random quarter", than="structured twentieth", above=0.1),
    ],
    crashed={"gain": 0.0},
    prediction={"PASS": 0.35, "FAIL": 0.25, "INCONCLUSIVE": 0.4},
)
