"""Policies that see: prompts, log-probabilities, gradients and decoding are those of transformers' own forward."""

from pathlib import Path
from typing import Any

import pytest
import torch

from gnomon.engines.embedded import decode, decoder_of, reported_logps
from gnomon.envs.drawing import Canvas
from gnomon.errors import ModelError, RunError
from gnomon.images import SHELF, Image
from gnomon.keys import Key
from gnomon.models.adapter import Adapter
from gnomon.models.padded import Padded
from gnomon.models.policy import Policy
from gnomon.models.precision import Precision
from gnomon.models.scoring import packed_logp, score
from gnomon.models.threads import Threads
from gnomon.models.tokenizer import Tokenizer
from gnomon.rendering import Transcript, choose, joined
from gnomon.types import Message, Request, Sampling
from models.seeing import FAMILIES, seeing

pytestmark = pytest.mark.needs("PIL")
ROWS = [(0, (5, 6, 7)), (0, (9, 1)), (1, (5, 6, 7)), (2, (3, 4)), (3, (8, 9, 10, 11))]
"""The prompt of a reply, and its tokens."""
Own = dict[str, Any]


def drawn(width: int) -> Image:
    canvas = Canvas(48)
    canvas.fill("red", lambda x, y: x < width)
    canvas.fill("blue", lambda x, y: x < width and y < width / 2)
    return Image.of(canvas.png())


IMAGES = (drawn(10), drawn(30))


@pytest.fixture(scope="module", params=FAMILIES)
def folder(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return seeing(tmp_path_factory.mktemp(request.param), request.param)


def loaded(folder: Path, adapter: Adapter | None = None, *, trains_vision: bool = False) -> Policy:
    precision = Precision.only(torch.float64)
    return Policy.load(folder, precision, adapter=adapter, whole=Padded, trains_vision=trains_vision)


def is_tower(name: str) -> bool:
    """Whether a parameter or a layer is one that an image passes through before the language model."""
    return any(part in name for part in ("vision", "visual", "connector", "projector"))


def asked(*images: Image, text: str = "How many <image> here?") -> Message:
    return Message(role="user", content=text, images=images)


def prompts(policy: Policy) -> list[tuple[int, ...]]:
    renderer = choose(policy.tokenizer)
    messages = [asked(IMAGES[0]), asked(IMAGES[1]), asked(*IMAGES), asked()]
    return [joined(renderer.start([message])) for message in messages]


def own_inputs(policy: Policy, images: tuple[Image, ...], text: str | None = None) -> Own:
    """What transformers makes of images, and of a text with their marks."""
    assert policy.vision is not None
    reader, nested = policy.vision.reader, policy.model.config.model_type in ("idefics3", "smolvlm", "gemma3")
    pictures = [image.pixels() for image in images]
    found = reader._own(
        text=[reader.mark * len(images) if text is None else text], images=[pictures] if nested else pictures,
        return_tensors="pt", add_special_tokens=False,
    )  # fmt: skip
    return {name: value.double() if value.is_floating_point() else value for name, value in found.items()}


def own_logp(policy: Policy, ids: list[int], images: tuple[Image, ...], count: int) -> torch.Tensor:
    """[count] log-probabilities of the last tokens, by one pass of transformers from the pixels on."""
    assert policy.vision is not None
    inputs: Own = {"input_ids": torch.tensor([ids])}
    if images:
        family = policy.model.config.model_type
        texts = {"input_ids", "attention_mask", "mm_token_type_ids", "token_type_ids"}
        inputs |= {name: value for name, value in own_inputs(policy, images).items() if name not in texts}
        if mask := {"gemma3": "token_type_ids", "qwen2_5_vl": "mm_token_type_ids", "qwen3_vl": "mm_token_type_ids"}.get(
            family
        ):
            inputs[mask] = (inputs["input_ids"] == policy.vision.reader.token_id).long()
    scores = policy.model(**inputs, use_cache=False).logits[0].log_softmax(-1)
    return scores[-count - 1 : -1].gather(1, torch.tensor(ids[-count:])[:, None])[:, 0]


def test_a_conversation_with_images_has_the_tokens_that_transformers_gives_it(folder: Path) -> None:
    policy = loaded(folder)
    assert policy.vision is not None
    reader = policy.vision.reader
    lead = " " if policy.model.config.model_type in ("llava", "idefics3", "smolvlm") else ""
    talk = Transcript.begin(choose(policy.tokenizer, turns=2), [asked(IMAGES[0], text="How many?")])
    talk = talk.with_completion(policy.tokenizer.encode(lead + "two")).observe([asked(*IMAGES[::-1], text="And now?")])

    def parts(text: str, images: int) -> list[dict[str, str]]:
        return [{"type": "image"}] * images + [{"type": "text", "text": text}]

    said = [("user", parts("How many?", 1)), ("assistant", parts("two", 0)), ("user", parts("And now?", 2))]
    text = reader._own.tokenizer.apply_chat_template(
        [{"role": role, "content": content} for role, content in said], tokenize=False, add_generation_prompt=True
    )
    wanted = own_inputs(policy, (IMAGES[0], *IMAGES[::-1]), text)["input_ids"][0].tolist()
    assert [reader.token_id if token < 0 else token for token in talk.token_ids] == wanted
    names = list(dict.fromkeys(token for token in talk.token_ids if token < 0))
    assert names == [SHELF.keep(image) for image in IMAGES]


def test_text_of_a_task_cannot_forge_an_image(folder: Path) -> None:
    tokenizer = Tokenizer(folder)
    marks = "<image> <|image_pad|> <start_of_image> <image_soft_token>"
    ids = joined(choose(tokenizer).start([asked(text=marks)]))
    assert min(ids) >= 0 and marks in tokenizer.spell(ids)


@pytest.mark.parametrize("trains_vision", [False, True])
def test_log_probabilities_and_gradients_are_those_of_transformers(folder: Path, trains_vision: bool) -> None:
    """Several rows share an image."""
    policy = loaded(folder, trains_vision=trains_vision)
    assert policy.vision is not None
    whole = prompts(policy)
    logp, _ = packed_logp(policy, whole, ROWS)
    weight = torch.linspace(1.0, 2.0, len(logp), dtype=torch.float64)
    (weight * logp).sum().backward()  # type: ignore[no-untyped-call]
    found = {name: value.grad for name, value in policy.model.named_parameters() if value.grad is not None}
    policy.model.zero_grad(set_to_none=True)
    token, images = policy.vision.reader.token_id, [IMAGES[:1], IMAGES[1:], IMAGES, ()]
    wanted = torch.cat(
        [
            own_logp(policy, [token if i < 0 else i for i in whole[at]] + [*row], images[at], len(row))
            for at, row in ROWS
        ]
    )
    (weight * wanted).sum().backward()  # type: ignore[no-untyped-call]
    torch.testing.assert_close(logp, wanted.to(logp), rtol=0, atol=2e-6)  # Log-probabilities are float32 or more.
    assert float((wanted[:3] - wanted[5:8]).detach().abs().max()) > 1e-3, "the image does not matter"
    owned = {name: value.grad for name, value in policy.model.named_parameters() if value.grad is not None}
    assert found.keys() == owned.keys() and len(policy.vision._features) == (0 if trains_vision else 2)
    for name, gradient in found.items():
        assert gradient is not None and owned[name] is not None
        largest = float(owned[name].abs().max())  # type: ignore[union-attr]
        torch.testing.assert_close(gradient, owned[name], rtol=0, atol=1e-5 * max(largest, 1e-3))
    tower = {name for name, value in policy.model.named_parameters() if is_tower(name)}
    frozen = {name for name, value in policy.model.named_parameters() if not value.requires_grad}
    assert tower and frozen == (set() if trains_vision else tower) and (found.keys() & tower != set()) == trains_vision


def test_decoding_with_images_agrees_with_scoring(folder: Path) -> None:
    """Prompts of other lengths, with one, two and no images, join a running batch."""
    policy = loaded(folder)
    requests = [
        Request(prompt_ids=prompt, key=bytes([place, row]) * 8, sampling=Sampling(max_tokens=3 + 5 * row))
        for place, prompt in enumerate(prompts(policy))
        for row in range(3)
    ]
    for request, completion in zip(requests, decode(decoder_of(policy, Threads()), requests), strict=True):
        wanted = score(policy, [request.prompt_ids], [(0, completion.token_ids)])
        torch.testing.assert_close(reported_logps([completion]).to(wanted), wanted, rtol=0, atol=1e-5)


def test_a_sampled_token_of_an_image_is_not_an_image(folder: Path) -> None:
    policy = loaded(folder)
    assert policy.vision is not None
    token = policy.vision.reader.token_id
    assert score(policy, prompts(policy), [(2, (token, 5, token)), (3, (token, 5))]).isfinite().all()


@pytest.mark.needs("bitsandbytes")  # PEFT is in the same group of packages.
@pytest.mark.parametrize("trains_vision", [False, True])
def test_an_adapter_is_on_the_layers_that_are_trained(folder: Path, trains_vision: bool) -> None:
    policy = loaded(folder, Adapter(rank=2, key=Key(0)), trains_vision=trains_vision)
    assert policy.adapter is not None
    assert policy.adapter.layers and any(map(is_tower, policy.adapter.layers)) == trains_vision
    before = score(policy.without_adapter, prompts(policy), ROWS)
    logp, _ = packed_logp(policy, prompts(policy), ROWS)
    logp.sum().backward()  # type: ignore[no-untyped-call]
    for name, value in policy.state().items():
        if "lora_B" in name:
            assert value.grad is not None and value.grad.any(), name
            value.data.add_(value.grad)
    assert torch.equal(score(policy.without_adapter, prompts(policy), ROWS), before)
    assert not torch.equal(score(policy, prompts(policy), ROWS), before)


def test_an_image_that_the_process_does_not_have_is_an_error(folder: Path) -> None:
    policy = loaded(folder)
    other = Image.of(drawn(20).data)
    whole = [other.token if token < 0 else token for token in prompts(policy)[0]]
    with pytest.raises(RunError, match=r"E441(.|\n)*missing"):
        score(policy, [tuple(whole)], ROWS[:1])


def test_packed_passes_refuse_to_train_the_tower(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=r"E332.*packed(.|\n)*policy.attention=transformers"):
        Policy.load(seeing(tmp_path, "gemma3"), trains_vision=True)


def test_a_policy_that_does_not_see_refuses_an_image() -> None:
    with pytest.raises(ModelError, match=r"E332.*no vision tower(.|\n)*policy.vision=frozen"):
        Policy.load("tiny", trains_vision=True)
    tokenizer = Tokenizer(Path("src/gnomon/models/tiny").resolve())
    with pytest.raises(ModelError, match=r"E330(.|\n)*Plain"):
        Transcript.begin(choose(tokenizer), [asked(IMAGES[0])])
