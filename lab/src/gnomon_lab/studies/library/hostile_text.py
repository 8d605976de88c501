"""Whether a text that a policy or a tool writes breaks a chat format or adds one of its control tokens."""

import random
import tempfile
from pathlib import Path

import tokenizers

from gnomon.models.tokenizer import Tokenizer
from gnomon.rendering import ChatML, joined
from gnomon_lab.studies import Claim, Study
from gnomon.types import Message

CONTROL = ["<|im_start|>", "<|im_end|>", "<|endoftext|>", "<tool_call>", "</tool_call>"]
BITS = [*CONTROL, *(token[1:] for token in CONTROL), '{"name": "add", "arguments"', "[" * 40, '"', "\x00", "🙂", "\n"]


def added(seed: int) -> dict[str, float]:
    """Of 10,000 replies, sent back as an observation: those that add a control token."""
    with tempfile.TemporaryDirectory() as folder:
        draw, found, fast = random.Random(seed), 0, tokenizers.ByteLevelBPETokenizer()
        fast.train_from_iterator(["hm"], special_tokens=CONTROL, show_progress=False)
        fast.save(f"{folder}/tokenizer.json")
        (Path(folder) / "config.json").write_text('{"eos_token_id": 1}')
        renderer = ChatML(Tokenizer(Path(folder)))
        for _ in range(10_000):
            text = "".join(draw.choices(BITS, k=draw.randrange(9)))
            sampled = [draw.randrange(-3, 300) if draw.random() < 0.1 else i for i in fast.encode(text).ids]
            texts = (text + renderer.parse(sampled).text, "a")
            observed = [joined(renderer.extend(sampled, [Message(role="user", content=text)])) for text in texts]
            found += len({sum(token < len(CONTROL) for token in ids) for ids in observed}) - 1
    return {"added": found}


study = Study(
    question="Can a text break a chat format, or become one of its control tokens?",
    why="Published chat templates raise on malformed tool calls, and a policy that explores writes many of them.",
    arms={"chatml": added}, exact=True, claims=[Claim(measure="added", arm="chatml", within=0.5)],
    crashed={"added": 1.0}, prediction={"PASS": 0.95, "FAIL": 0.05, "INCONCLUSIVE": 0.0},
)  # fmt: skip
