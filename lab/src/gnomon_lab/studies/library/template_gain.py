"""What a prompt in an unknown form does to the accuracy before training, to the gain, and to the accuracy after."""

from gnomon_lab.studies import Claim, Study, at_step, final, gain

study = Study(
    question="Does a template that the policy never saw make the gain look larger, with the same accuracy at the end?",
    why="Qwen2.5 answers best without a template: one destroys an ability that training then rebuilds, so the gain "
    "looks large (Liu et al. 2025, arXiv 2503.20783). The policy has practised the question alone.",
    base="countdown",
    settings={"steps": 30},
    arms={"question": {}, "template": {"env.template": "Question: {prompt} Answer:"}},
    seeds=range(6),
    measures={"start": at_step(0), "gain": gain, "final": final},
    claims=[
        Claim(measure="start", arm="question", than="template", above=0.2),
        Claim(measure="gain", arm="template", than="question", above=0.15),
        Claim(measure="final", arm="template", than="question", within=0.05),
    ],
    crashed={"start": 0.0, "gain": 0.0, "final": 0.0},
    prediction={"PASS": 0.35, "FAIL": 0.25, "INCONCLUSIVE": 0.4},
)
