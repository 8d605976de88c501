"""Small tokenizers with the control tokens of each family, in the places where the family has them.

The text vocabulary is byte-level BPE over the family's own pre-tokeniser (Gemma: characters with byte fallback),
trained on a few lines; the added tokens bear the published names, order and flags.
"""

from __future__ import annotations

import json
from pathlib import Path

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers

QWEN_SPLIT = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
LLAMA_SPLIT = QWEN_SPLIT.replace(r"|\p{N}|", r"|\p{N}{1,3}|")
QWEN25 = [
    "<|endoftext|>", "<|im_start|>", "<|im_end|>", "<|object_ref_start|>", "<|object_ref_end|>", "<|box_start|>",
    "<|box_end|>", "<|quad_start|>", "<|quad_end|>", "<|vision_start|>", "<|vision_end|>", "<|vision_pad|>",
    "<|image_pad|>", "<|video_pad|>", "<tool_call>", "</tool_call>", "<|fim_prefix|>", "<|fim_middle|>",
    "<|fim_suffix|>", "<|fim_pad|>", "<|repo_name|>", "<|file_sep|>",
]  # fmt: skip
QWEN3 = [*QWEN25, "<tool_response>", "</tool_response>", "<think>", "</think>"]
LLAMA3 = [
    "<|begin_of_text|>", "<|end_of_text|>", "<|reserved_special_token_0|>", "<|reserved_special_token_1|>",
    "<|finetune_right_pad_id|>", "<|reserved_special_token_2|>", "<|start_header_id|>", "<|end_header_id|>",
    "<|eom_id|>", "<|eot_id|>", "<|python_tag|>", "<|reserved_special_token_3|>",
]  # fmt: skip
HARMONY = [
    "<|startoftext|>", "<|endoftext|>", "<|reserved_200000|>", "<|reserved_200001|>", "<|return|>", "<|constrain|>",
    "<|reserved_200004|>", "<|channel|>", "<|start|>", "<|end|>", "<|message|>", "<|reserved_200009|>",
    "<|reserved_200010|>", "<|reserved_200011|>", "<|call|>", "<|endofprompt|>",
]  # fmt: skip
GEMMA_FIRST = ["<pad>", "<eos>", "<bos>", "<unk>", "<mask>", "[multimodal]", "<unused0>"]
GEMMA_LATER = ["<start_of_turn>", "<end_of_turn>", "\n\n", "▁▁", "<table>", "</table>"]

LINES = [
    "The quick brown fox jumps over the lazy dog.\n",
    "You are a helpful assistant. system user assistant tool model\n",
    '{"type": "function", "function": {"name": "add", "description": "Adds.", "parameters": {"type": "object"}}}\n',
    "Cutting Knowledge Date: December 2023\nToday Date: 26 Jul 2024\n\n",
    "# Tools\n\nYou may call one or more functions to assist with the user query.\n\n",
    "analysis commentary final to=functions.",
    "im_start im_end <| |> think tool_call tool_response start_header_id eot_id channel message start_of_turn",
]  # fmt: skip


def tokenizer_folder(folder: Path, family: str) -> Path:
    """A model folder's tokenizer.json, tokenizer_config.json and config.json."""
    folder.mkdir(parents=True, exist_ok=True)
    tokenizer = _gemma() if family == "gemma" else _bytes(*BYTES[family])
    tokenizer.save(str(folder / "tokenizer.json"))
    begin, ends = MARKS[family]
    ids = [tokenizer.token_to_id(end) for end in ends]
    config = {"eos_token_id": ids, "bos_token_id": None if begin is None else tokenizer.token_to_id(begin)}
    (folder / "config.json").write_text(json.dumps(config))
    (folder / "tokenizer_config.json").write_text(json.dumps({"bos_token": begin, "eos_token": ends[0]}))
    return folder


BYTES = {
    "chatml": (QWEN_SPLIT, QWEN25, 14),
    "qwen3": (QWEN_SPLIT, QWEN3, 14),
    "llama3": (LLAMA_SPLIT, LLAMA3, 99),
    "harmony": (LLAMA_SPLIT, HARMONY, 99),
}
MARKS: dict[str, tuple[str | None, list[str]]] = {
    "chatml": (None, ["<|im_end|>", "<|endoftext|>"]),
    "qwen3": (None, ["<|im_end|>", "<|endoftext|>"]),
    "llama3": ("<|begin_of_text|>", ["<|eot_id|>", "<|eom_id|>", "<|end_of_text|>"]),
    "harmony": (None, ["<|return|>", "<|call|>", "<|endoftext|>"]),
    "gemma": ("<bos>", ["<eos>", "<end_of_turn>"]),
}


def _bytes(split: str, added: list[str], special: int) -> Tokenizer:
    """Byte-level BPE; the first `special` of the added tokens are special, the others are not."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.normalizer = normalizers.NFC()
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(split), behavior="isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(vocab_size=700, initial_alphabet=alphabet, show_progress=False)
    tokenizer.train_from_iterator(LINES, trainer)
    tokenizer.add_tokens(
        [AddedToken(token, normalized=False, special=place < special) for place, token in enumerate(added)]
    )
    return tokenizer


def _gemma() -> Tokenizer:
    """A vocabulary that holds its control tokens, with byte fallback, as SentencePiece models have it.

    `<start_of_turn>` can be merged from text here, which a tokenizer must not be trusted not to do.
    """
    bytes_ = [f"<0x{byte:02X}>" for byte in range(256)]
    letters = sorted({letter for line in LINES for letter in line.replace(" ", "▁")})
    pairs = [("t", "h"), ("th", "e"), ("▁", "the"), ("\n", "\n"), ("▁", "▁"), *_steps("<start_of_turn>")]
    tokens = dict.fromkeys([*GEMMA_FIRST, *bytes_, *GEMMA_LATER, *letters, *(a + b for a, b in pairs)])
    vocab = {token: place for place, token in enumerate(tokens)}
    tokenizer = Tokenizer(models.BPE(vocab, pairs, unk_token="<unk>", fuse_unk=True, byte_fallback=True))
    tokenizer.normalizer = normalizers.Replace(" ", "▁")
    tokenizer.decoder = decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()])
    special = {*GEMMA_FIRST, "<start_of_turn>", "<end_of_turn>"}
    tokenizer.add_tokens(
        [AddedToken(token, normalized=False, special=token in special) for token in [*GEMMA_FIRST, *GEMMA_LATER]]
    )
    return tokenizer


def _steps(word: str) -> list[tuple[str, str]]:
    """The merges that make a word of its letters, from the left."""
    return [(word[:end], word[end]) for end in range(1, len(word))]
