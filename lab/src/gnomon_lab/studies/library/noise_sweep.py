"""How much noise in the verdicts a policy learns through."""

from gnomon_lab.studies import Claim, Study, gain

KNOWN = ["reward.weights", "sentinels", "exploit", "correctness", "search", "invariance"]
NOISY = {"env.type": "gnomon.envs.controlled:Controlled", "env.control": "noisy", "audit.acknowledge": KNOWN}

study = Study(
    question="Does a policy learn where three verdicts in ten are wrong, and not where nine in twenty are?",
    why="Turning a share q of the verdicts multiplies the expected advantage by 1 − 2q and leaves its scatter, so the "
    "reward teaches more slowly: by .8, .4 and .1 here. The status of the held-out verdicts is the true one.",
    base="char_count",
    settings={"steps": 40, "prompts": 16, "eval.every": 40},
    arms={"none": {}, **{f"{share:.0%}": {**NOISY, "env.share": share} for share in (0.1, 0.3, 0.45)}},
    seeds=range(6),
    measures={"gain": gain},
    claims=[
        Claim(measure="gain", arm="10%", than="none", within=0.1),
        Claim(measure="gain", arm="30%", above=0.05),
        Claim(measure="gain", arm="45%", within=0.1),
        Claim(measure="gain", arm="none", than="45%", above=0.1),
    ],
    crashed={"gain": 0.0},
    prediction={"PASS": 0.35, "FAIL": 0.2, "INCONCLUSIVE": 0.45},
)
