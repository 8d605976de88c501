"""What a tight limit on tokens teaches."""

from gnomon_lab.studies import Claim, Study, final, final_length

study = Study(
    question="Does a tight token limit teach short answers, at the cost of 20 points of accuracy?",
    why="A cap of 256 tokens was suspected of making reasoning too risky to be learned (TinyZero). On countdown the "
    "policy learns to try several expressions, which takes tokens.",
    base="countdown",
    settings={"steps": 40},
    arms={"24 tokens": {"max_tokens": 24}, "128 tokens": {"max_tokens": 128}},
    seeds=range(5),
    measures={"final": final, "tokens": final_length},
    claims=[
        Claim(measure="final", arm="128 tokens", than="24 tokens", above=0.2),
        Claim(measure="tokens", arm="128 tokens", than="24 tokens", above=15.0),
    ],
    crashed={"final": 0.0, "tokens": 0.0},
    prediction={"PASS": 0.6, "FAIL": 0.15, "INCONCLUSIVE": 0.25},
)
