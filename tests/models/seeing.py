"""Small models with random weights that see, of the families of transformers, each with its image processor."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
import transformers
from tokenizers import AddedToken, decoders, models, pre_tokenizers
from tokenizers import Tokenizer as Encoder
from transformers import AutoConfig, AutoModelForImageTextToText, PreTrainedTokenizerFast

from rendering.structures import CALL

PARTS = "{% for part in message['content'] %}"
QWEN = (
    "{% if tools %}<|im_start|>system\n<tools>{% for t in tools %}\n{{ t | tojson }}{% endfor %}\n</tools><|im_end|>\n"
    "{% endif %}{% for message in messages %}{% set result = message['role'] == 'tool' %}"
    "<|im_start|>{{ 'user\n<tool_response>' if result else message['role'] }}\n{% if message['content'] is string %}"
    f"{{{{ message['content'] }}}}{{% else %}}{PARTS}{{% if part['type'] == 'image' %}}<|vision_start|><|image_pad|>"
    "<|vision_end|>{% else %}{{ part['text'] }}{% endif %}{% endfor %}{% endif %}{{ '\n</tool_response>' if result }}"
    f"{{% set m = message %}}{CALL}<|im_end|>\n{{% endfor %}}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
LLAVA = (
    "{% for message in messages %}{{ message['role'].upper() + ': ' }}"
    "{% for part in message['content'] | selectattr('type', 'equalto', 'image') %}{{ '<image>\n' }}{% endfor %}"
    "{% for part in message['content'] | selectattr('type', 'equalto', 'text') %}{{ part['text'] + ' ' }}{% endfor %}"
    "{% endfor %}{% if add_generation_prompt %}{{ 'ASSISTANT:' }}{% endif %}"
)
SMOL = (
    "<|im_start|>{% for message in messages %}{{ message['role'] | capitalize }}"
    "{% if message['content'][0]['type'] == 'image' %}{{ ':' }}{% else %}{{ ': ' }}{% endif %}"
    f"{PARTS}{{% if part['type'] == 'text' %}}{{{{ part['text'] }}}}{{% else %}}{{{{ '<image>' }}}}{{% endif %}}"
    "{% endfor %}<end_of_utterance>\n{% endfor %}{% if add_generation_prompt %}{{ 'Assistant:' }}{% endif %}"
)
GEMMA = (
    "{{ bos_token }}{% for message in messages %}<start_of_turn>"
    "{{ 'model' if message['role'] == 'assistant' else message['role'] }}\n{% if message['content'] is string %}"
    f"{{{{ message['content'] | trim }}}}{{% else %}}{PARTS}{{% if part['type'] == 'image' %}}<start_of_image>"
    "{% else %}{{ part['text'] | trim }}{% endif %}{% endfor %}{% endif %}<end_of_turn>\n{% endfor %}"
    "{% if add_generation_prompt %}<start_of_turn>model\n{% endif %}"
)
TILES = [f"<row_{row}_col_{column}>" for row in range(1, 4) for column in range(1, 4)]
SMOL_MARKS = ["<|im_start|>", "<end_of_utterance>", "<image>", "<fake_token_around_image>", "<global-img>", *TILES]
QWEN_MARKS = ["<|im_start|>", "<|im_end|>", "<|vision_start|>", "<|vision_end|>", "<|image_pad|>", "<|video_pad|>"]
QWEN_MARKS += ["<tool_call>", "</tool_call>"]
GEMMA_MARKS = [
    "<bos>", "<end_of_turn>", "<start_of_turn>", "<start_of_image>", "<end_of_image>", "<image_soft_token>"
]  # fmt: skip
FORMATS: Mapping[str, tuple[str, list[str], dict[str, Any]]] = {
    "llava": (LLAVA, ["<s>", "</s>", "<image>"], {"eos_token": "</s>"}),
    "qwen2_5_vl": (QWEN, QWEN_MARKS, {"eos_token": "<|im_end|>"}),
    "qwen3_vl": (QWEN, QWEN_MARKS, {"eos_token": "<|im_end|>"}),
    "idefics3": (SMOL, SMOL_MARKS, {"eos_token": "<end_of_utterance>"}),
    "smolvlm": (SMOL, SMOL_MARKS, {"eos_token": "<end_of_utterance>"}),
    "gemma3": (
        GEMMA,
        GEMMA_MARKS,
        {
            "bos_token": "<bos>",
            "eos_token": "<end_of_turn>",
            "extra_special_tokens": {
                "boi_token": "<start_of_image>", "eoi_token": "<end_of_image>", "image_token": "<image_soft_token>"
            },
        },
    ),
}  # fmt: skip
"""Of each family: a chat template, the control tokens, and options of the tokenizer."""
FAMILIES = tuple(FORMATS)
SMALL = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 2}
TEXT = SMALL | {"vocab_size": 288, "num_key_value_heads": 2, "max_position_embeddings": 4096}
TOWER = SMALL | {"image_size": 32, "patch_size": 8}
QWEN_TOWER = {"depth": 2, "hidden_size": 32, "intermediate_size": 64, "num_heads": 2} | {
    "patch_size": 4, "spatial_merge_size": 2
}  # fmt: skip
ROPE = {"rope_type": "default", "rope_theta": 10000.0}


def seeing(folder: Path, family: str, width: int = 32) -> Path:
    """A model folder with random weights, none of which is zero. Args: width: of the language model, whose heads have
    half of it."""
    words = tokenizer_of(family)
    ids = words.convert_tokens_to_ids
    text = TEXT | {"hidden_size": width, "bos_token_id": words.bos_token_id, "eos_token_id": words.eos_token_id}
    qwen_tower = QWEN_TOWER | {"out_hidden_size": width}
    rope = ROPE | {"mrope_section": [width // 16, 3 * width // 32, 3 * width // 32]}
    values: dict[str, Any] = {
        "llava": {"text_config": text, "vision_config": TOWER, "image_token_index": ids("<image>")}
        | {"vision_feature_layer": -1},
        "qwen2_5_vl": {
            "text_config": text | {"rope_parameters": rope},
            "vision_config": qwen_tower | {"window_size": 16, "fullatt_block_indexes": [1]},
        },
        "qwen3_vl": {
            "text_config": text | {"head_dim": width // 2, "rope_parameters": rope | {"mrope_interleaved": True}},
            "vision_config": qwen_tower | {"num_position_embeddings": 64, "deepstack_visual_indexes": [0]},
        },
        "idefics3": {"text_config": text, "vision_config": TOWER, "image_token_id": ids("<image>"), "scale_factor": 2},
        "smolvlm": {"text_config": text, "vision_config": TOWER, "image_token_id": ids("<image>"), "scale_factor": 2},
        "gemma3": {
            "text_config": text
            | {"head_dim": width // 2, "sliding_window": 64}
            | {"layer_types": ["sliding_attention", "full_attention"]},
            "vision_config": TOWER | {"vision_use_head": False},
            "mm_tokens_per_image": 4,
            "image_token_index": ids("<image_soft_token>"),
            "boi_token_index": ids("<start_of_image>"),
            "eoi_token_index": ids("<end_of_image>"),
        },
    }[family]
    if family.startswith("qwen"):
        marks = {"image_token_id": "image_pad", "video_token_id": "video_pad"} | {
            "vision_start_token_id": "vision_start", "vision_end_token_id": "vision_end"
        }  # fmt: skip
        values |= {name: ids(f"<|{mark}|>") for name, mark in marks.items()}
    torch.manual_seed(0)
    model = AutoModelForImageTextToText.from_config(AutoConfig.for_model(family, **values)).float()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.normal_(0.0, 0.2)
    model.config.eos_token_id = words.eos_token_id
    model.save_pretrained(folder)
    words.save_pretrained(folder)
    write_reader(folder, family)
    return folder


def write_reader(folder: Path, family: str) -> None:
    square = {"height": 32, "width": 32}
    qwen = {"patch_size": 4, "merge_size": 2, "temporal_patch_size": 2} | {
        "size": {"shortest_edge": 256, "longest_edge": 4096}
    }
    tiles = {"size": {"longest_edge": 64}, "max_image_size": {"longest_edge": 32}}
    kind, options = {
        "llava": ("CLIP", {"size": {"shortest_edge": 32}, "crop_size": square}),
        "qwen2_5_vl": ("Qwen2VL", qwen),
        "qwen3_vl": ("Qwen2VL", qwen),
        "idefics3": ("Idefics3", tiles),
        "smolvlm": ("SmolVLM", tiles),
        "gemma3": ("Gemma3", {"size": square, "image_seq_length": 4}),
    }[family]
    getattr(transformers, f"{kind}ImageProcessorPil")(**options).save_pretrained(folder)
    more = {
        "llava": {"patch_size": 8, "vision_feature_select_strategy": "default", "num_additional_image_tokens": 1},
        "idefics3": {"image_seq_len": 4},
        "smolvlm": {"image_seq_len": 4},
        "gemma3": {"image_seq_length": 4},
    }.get(family, {})
    (folder / "processor_config.json").write_text(json.dumps(more))


def tokenizer_of(family: str) -> PreTrainedTokenizerFast:
    """One token per byte, and the control tokens of a family."""
    template, marks, options = FORMATS[family]
    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    encoder = Encoder(models.BPE(vocab={letter: place for place, letter in enumerate(letters)}, merges=[]))
    encoder.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    encoder.decoder = decoders.ByteLevel()
    encoder.add_special_tokens([AddedToken(mark, special=True, normalized=False) for mark in marks])
    return PreTrainedTokenizerFast(tokenizer_object=encoder, chat_template=template, **options)
