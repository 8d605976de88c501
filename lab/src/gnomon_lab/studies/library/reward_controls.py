"""Whether a reward without information raises accuracy, beside the true one."""

from gnomon_lab.studies import Claim, Study, gain

KNOWN = ("exploit.constant", "exploit.order_to_judge", "exploit.other_answer", "exploit.random_answer")
CONTROLLED = {
    "env.type": "gnomon.envs.controlled:Controlled",
    "audit.acknowledge": [*KNOWN, "exploit.wrong_outpays", "sentinels.parts_outpay"],
}

study = Study(
    question="Do random, shuffled and wrong rewards leave accuracy where it was, while the true reward raises it?",
    why="Random rewards raised Qwen by 21 points and wrong ones by 25, the true ones by 29 (arXiv 2506.10947): a gain "
    "needs a control beside it. Every arm meets the same held-out tasks, judged truly.",
    base="char_count",
    settings={"steps": 20},
    arms={
        "true": {},
        **{name: {**CONTROLLED, "env.control": name} for name in ("random", "shuffled", "wrong_label")},
    },
    measures={"gain": gain},
    claims=[
        *(Claim(measure="gain", arm="true", than=name, above=0.1) for name in ("random", "shuffled", "wrong_label")),
        Claim(measure="gain", arm="random", within=0.05),
    ],
    crashed={"gain": 0.0},
    prediction={"PASS": 0.35, "FAIL": 0.15, "INCONCLUSIVE": 0.5},
)
