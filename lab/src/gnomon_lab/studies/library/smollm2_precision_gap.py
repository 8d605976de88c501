"""How far bfloat16 and float16 move the log-probabilities of SmolLM2 from those of float32."""

import math

import torch
from transformers import AutoModelForCausalLM

from gnomon.models.folder import model_folder
from gnomon_lab.studies import Claim, Study


@torch.inference_mode()
def gaps(seed: int) -> dict[str, float]:
    """Mean distance of log-probabilities, over 8 sequences of 32 random tokens."""
    folder = model_folder("smollm2")
    found = {}
    for dtype in (torch.float32, torch.bfloat16, torch.float16):
        model = AutoModelForCausalLM.from_pretrained(folder, dtype=dtype).eval()
        drawn = torch.Generator().manual_seed(seed)
        ids = torch.randint(model.config.vocab_size, (8, 32), generator=drawn)
        logp = model(ids).logits[:, :-1].float().log_softmax(-1)
        found[dtype] = logp.gather(-1, ids[:, 1:, None])
    far = {dtype: float((logp - found[torch.float32]).abs().mean()) for dtype, logp in found.items()}
    return {"log2(bfloat16 / float16)": math.log2(far[torch.bfloat16] / far[torch.float16])}


study = Study(
    question="Are bfloat16 log-probabilities of SmolLM2 about eight times as far from float32 as float16 ones?",
    why="Sampler and learner disagree most where they round differently, and float16 was proposed as the whole cure "
    "(Qi et al. 2025, arXiv 2510.26788). Its fraction has three more bits, which is a factor of eight. The pass line "
    "is that of the tiny policy. The author had seen another seed: 2.91.",
    arms={"smollm2": gaps, "three bits": lambda seed: {"log2(bfloat16 / float16)": 3.0}},
    seeds=range(4),
    claims=[
        Claim(measure="log2(bfloat16 / float16)", arm="smollm2", than="three bits", within=1.0),
    ],
    prediction={"PASS": 0.98, "FAIL": 0.01, "INCONCLUSIVE": 0.01},
)
