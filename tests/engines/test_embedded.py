"""The embedded engine: what it samples depends on the request and the weights alone, and its log-probabilities
are the learner's in every bit."""

from __future__ import annotations

import random
from dataclasses import replace

import numpy as np
import pytest
import torch
from scipy.stats import chisquare

from engines.asking import ask
from gnomon.engines import philox
from gnomon.engines.base import Tier
from gnomon.engines.decoder import Decoder
from gnomon.engines.embedded import Embedded
from gnomon.engines.noise import Noise, by_kernel, sample_tokens
from gnomon.errors import NumericsError
from gnomon.keys import Key
from gnomon.learners.local import LocalLearner
from gnomon.models import attention
from gnomon.models.adapter import Adapter
from gnomon.models.attention import Form, Prefix
from gnomon.models.folder import model_folder
from gnomon.models.policy import Policy
from gnomon.models.projection import entropy_of
from gnomon.models.scoring import pack_rows, score
from gnomon.types import Finish, Request


def scored(policy: Policy, requests, completions, pieces):
    """Log-probabilities of the completions as the learner computes them, in micro-batches of some prompts."""
    prompts = list(dict.fromkeys(r.prompt_ids for r in requests))
    flat = []
    for start in range(0, len(prompts), pieces):
        some = prompts[start : start + pieces]
        rows = [
            (some.index(r.prompt_ids), c.token_ids)
            for r, c in zip(requests, completions, strict=True)
            if r.prompt_ids in some
        ]
        flat.append(score(policy, some, rows))
    return torch.cat(flat)


@pytest.mark.parametrize("pieces", [1, 2, 4])
def test_sampler_and_learner_agree_in_every_bit(engine, policy, requests, sample, pieces):
    completions = sample(engine, requests)
    told = torch.tensor([x for c in completions for x in c.logprobs])
    learned = scored(policy, requests, completions, pieces)
    assert torch.equal(told, learned)


@pytest.mark.parametrize(
    ("prompts", "tokens"), [((5, 200, 260, 33), 80), ((700, 10, 150), 80), ((193, 192, 64, 385), 80), ((1,), 400)]
)
def test_long_prompts_and_long_replies_agree_in_every_bit(engine, policy, sample, prompts, tokens):
    """A product of more than some 190 keys is summed in parts, which must not depend on how far it is padded."""
    rng = random.Random(0)
    asked = [tuple(rng.randrange(2, policy.vocabulary) for _ in range(length)) for length in prompts]
    requests = [
        replace(ask(policy, "", 4 * place + row, tokens - 20 * row), prompt_ids=ids)
        for place, ids in enumerate(asked)
        for row in range(4)
    ]
    completions = sample(engine, requests)
    assert len(asked) > 1 or max(len(c.token_ids) for c in completions) > 300
    told = torch.tensor([x for c in completions for x in c.logprobs])
    for pieces in (1, len(asked)):
        assert torch.equal(told, scored(policy, requests, completions, pieces))


@pytest.mark.parametrize(("window", "cap"), [(None, None), (200, 30.0)])
def test_a_prompt_read_in_pieces_has_the_same_bits_and_holds_fewer_scores(window, cap, monkeypatch):
    """Pieces of one span of queries, against all queries at once; prompts of two lengths in one pass."""
    prefix, random = Prefix([700, 301]), torch.Generator().manual_seed(0)
    query, key, value = (torch.randn(1001, heads, 16, generator=random) for heads in (4, 2, 2))
    sizes, weighed = [], attention.weigh
    monkeypatch.setattr(attention, "weigh", lambda w, v: sizes.append(w.numel()) or weighed(w, v))
    padded = [prefix.pad(states) for states in (query, key, value)]
    whole = prefix.attend(*padded, Form(0.25, window, cap))
    monkeypatch.setattr(attention, "SCORES", 1)
    assert torch.equal(prefix.attend(*padded, Form(0.25, window, cap)), whole)
    assert len(sizes) == 7 and 6 * max(sizes[1:]) < sizes[0]


def test_a_completion_does_not_depend_on_its_batch_mates(engine, requests, sample):
    together = sample(engine, requests)
    order = list(range(len(requests)))
    random.Random(3).shuffle(order)
    shuffled = dict(zip(order, sample(engine, [requests[i] for i in order]), strict=True))
    assert [shuffled[i] for i in range(len(requests))] == together
    for i in (0, 5, 11, len(requests) - 1):
        assert sample(engine, [requests[i]]) == [together[i]]


@pytest.mark.parametrize("temperature", [1.0, 0.6, 0.0])
def test_the_entropy_at_a_token_is_that_of_the_distribution_it_was_sampled_from(engine, policy, sample, temperature):
    """Against the sum over the vocabulary in float64, and without moving a draw."""
    prompt, options = "Use 3, 4, 5\n", {"temperature": temperature}
    found = sample(engine, [ask(policy, prompt, s, 12, entropy=True, **options) for s in range(3)])
    assert [replace(each, entropies=()) for each in found] == sample(
        engine, [ask(policy, prompt, s, 12, **options) for s in range(3)]
    )
    for completion in found:
        work = pack_rows(policy, [policy.tokenizer.encode(prompt)], [(0, completion.token_ids)])
        with torch.inference_mode():
            logits = policy.logits(policy.states(work)).double()
        logp = torch.log_softmax(logits / (temperature or 1e-9), -1)
        expected = torch.special.entr(logp.exp()).sum(-1)
        assert torch.allclose(torch.tensor(completion.entropies).double(), expected, atol=1e-5)


@pytest.mark.parametrize("vocabulary, chunk", [(7, 2**22), (7, 14), (70_000, 2**22), (70_000, 2**17)])
def test_an_entropy_has_the_same_bits_in_any_company(vocabulary, chunk, monkeypatch):
    monkeypatch.setattr("gnomon.models.projection.CHUNK", chunk)
    logp = torch.log_softmax(3 * torch.randn(5, vocabulary, generator=torch.Generator().manual_seed(0)), -1)
    together = entropy_of(logp)
    assert torch.equal(together, torch.cat([entropy_of(row[None]) for row in logp]))
    assert torch.allclose(together, torch.special.entr(logp.double().exp()).sum(-1), rtol=1e-6)


def test_long_crowds_are_decoded_in_pieces(engine, policy, sample, monkeypatch):
    requests = [ask(policy, "Use 3, 4, 5\n", s, 12) for s in range(40)]
    whole = sample(engine, requests)
    monkeypatch.setattr("gnomon.engines.embedded.ROWS", 17)
    assert sample(engine, requests) == whole


def test_limits_stops_and_ends(engine, policy, sample):
    (cut,) = sample(engine, [ask(policy, "Use 3, 4, 5\n", 0, 3)])
    assert cut.finish is Finish.LENGTH and len(cut.token_ids) == len(cut.logprobs) == 3
    (stopped,) = sample(
        engine, [ask(policy, "Compute 1 + 2. End with <answer>...</answer>\n", 1, 200, stop=("</answer>",))]
    )
    assert stopped.finish is Finish.STOP and stopped.text.endswith("</answer>")
    (ended,) = sample(engine, [ask(policy, "Compute 1 + 2. End with <answer>...</answer>\n", 1, 200)])
    assert ended.finish is Finish.EOS and ended.token_ids[-1] in policy.tokenizer.eos
    assert "<eos>" not in ended.text


def test_a_stop_string_may_span_tokens(engine, policy, sample):
    asked = [ask(policy, "Compute 47 - 14. <answer>...</answer>\n", s, 200) for s in range(64)]
    texts = [completion.text for completion in sample(engine, asked)]
    request, text = next(
        (r, t) for r, t in zip(asked, texts, strict=True) if len(t) > 12 and t[:3].isascii() and "<" not in t[:3]
    )
    (stopped,) = sample(engine, [replace(request, sampling=replace(request.sampling, stop=(text[1:3],)))])
    assert stopped.finish is Finish.STOP and stopped.text == text[: text.index(text[1:3]) + 2]


def test_temperature_zero_is_greedy_and_certain(engine, policy, sample):
    request = ask(policy, "Compute 1 + 2. End with <answer>...</answer>\n", 0, 12, temperature=0.0)
    (one,), (two,) = sample(engine, [request]), sample(engine, [replace(request, key=Key(9).bytes)])
    assert one.token_ids == two.token_ids and set(one.logprobs) == {0.0}
    best = policy.logits(policy.hidden(*first_step(request)))[-1].argmax()
    assert one.token_ids[0] == best


def first_step(request: Request):
    from gnomon.models.packed import Packed
    from gnomon.models.trie import Trie

    ids = torch.tensor(request.prompt_ids)
    return ids, Packed(Trie([ids]))


def test_first_tokens_are_drawn_from_the_policy(engine, policy, sample):
    """2,000 draws; chi-square over tokens expected at least 5 times. A right sampler fails one seed in 10,000."""
    requests = [ask(policy, "Use 3, 4, 5\n", s, 1, temperature=1.5) for s in range(2000)]
    completions = sample(engine, requests)
    p = torch.softmax(policy.logits(policy.hidden(*first_step(requests[0])))[-1].double() / 1.5, -1)
    counts = torch.bincount(torch.tensor([c.token_ids[0] for c in completions]), minlength=len(p)).double()
    often = p * 2000 >= 5
    seen = torch.cat([counts[often], counts[~often].sum()[None]])
    expected = torch.cat([p[often], p[~often].sum()[None]]) * 2000
    assert chisquare(seen.numpy(), expected.detach().numpy()).pvalue > 1e-4
    told = torch.tensor([c.logprobs[0] for c in completions]).double()
    chosen = torch.tensor([c.token_ids[0] for c in completions])
    assert torch.allclose(told, p.log()[chosen], atol=1e-5)


@pytest.mark.parametrize("vocabulary", [3, 101, 5000])
def test_noise_does_not_depend_on_how_far_ahead_it_is_drawn(vocabulary, monkeypatch):
    key = Key(0).at("n").bytes
    stream = Noise(key, vocabulary)
    wanted = [stream.next().copy() for _ in range(60)]
    monkeypatch.setattr("gnomon.engines.noise.AHEAD", 7 * vocabulary)
    again = Noise(key, vocabulary)
    assert all((again.next() == numbers).all() for numbers in wanted)


@pytest.mark.parametrize("chunk", [1, 300, 10**6])
def test_tokens_do_not_depend_on_how_many_rows_noise_is_made_for_at_a_time(chunk, monkeypatch):
    monkeypatch.setattr("gnomon.engines.noise.CHUNK", chunk)
    logp = torch.log_softmax(torch.linspace(-1, 1, 9 * 101).view(9, 101), -1)
    keys = [Key(0).at("n", i=i).bytes for i in range(9)]
    by_hand = [Noise(key, 101).next() for key in keys]
    best = [
        int((row.double() - torch.tensor(u).log().neg().log()).argmax()) for row, u in zip(logp, by_hand, strict=True)
    ]
    assert sample_tokens(logp, [Noise(key, 101) for key in keys]).tolist() == best


@pytest.mark.parametrize("vocabulary", [1, 3, 101, 152_064])
@pytest.mark.parametrize("position", [0, 1, 7, 2**17 + 1])
def test_a_device_makes_the_numbers_of_the_cpu_in_every_bit(vocabulary, position):
    """By torch's integer operations and by the kernel, whose results are exact on every device; the streams pass 2**32
    numbers.

    Where there is no GPU, torch makes them on the CPU too, and the kernel is not tested.
    """
    device = "cuda" if torch.cuda.is_available() else "cpu"
    keys = np.frombuffer(b"".join(Key(0).at("n", i=i).bytes for i in range(2)), dtype="<u8").reshape(2, 2)
    start = position * vocabulary
    expected = []
    for key in keys:
        stream = np.random.Philox(key=key).advance(start // 4)
        expected.append(np.random.Generator(stream).random(start % 4 + vocabulary)[start % 4 :])
    words, starts = torch.tensor(keys.view("<i8").tolist(), device=device), torch.tensor([start] * 2, device=device)
    for fill in (philox.uniform, by_kernel("uniform") or philox.uniform) if device == "cuda" else (philox.uniform,):
        assert np.array_equal(np.stack(expected), fill(words, starts, vocabulary).cpu().numpy())


def test_a_stream_is_read_on_from_position_to_position():
    key, vocabulary = Key(0).at("n").bytes, 101
    one, other = Noise(key, vocabulary), Noise(key, vocabulary)
    for _ in range(50):
        words, start = other.place()
        found = philox.uniform(torch.tensor([words]), torch.tensor([start]), vocabulary)
        assert np.array_equal(one.next(), found[0].numpy())


def test_a_stream_holds_no_noise_of_a_large_vocabulary():
    streams = [Noise(bytes([i]) * 16, 262_144) for i in range(8)]
    for stream in streams:
        stream.next()
    assert not any(stream._ahead for stream in streams)


def test_a_load_takes_the_new_weights_and_proves_it(sample):
    learner = LocalLearner(Policy.load(model_folder("tiny")))
    engine = Embedded(Policy.load(model_folder("tiny")))
    request = ask(engine.policy, "Compute 1 + 2. End with <answer>...</answer>\n", 0, 30)
    before = sample(engine, [request])[0]
    for parameter in learner.parameters.values():
        parameter.grad = torch.randn_like(parameter)
    learner.optim_step(1e-2)
    engine.load(learner.publish())
    after = sample(engine, [request])[0]
    assert engine.version == after.version == 1 and after.logprobs != before.logprobs
    prompts = [request.prompt_ids]
    assert torch.equal(score(learner.policy, prompts, [(0, after.token_ids)]), torch.tensor(after.logprobs))


def test_a_half_updated_engine_is_found_out():
    learner = LocalLearner(Policy.load(model_folder("tiny")))
    engine = Embedded(Policy.load(model_folder("tiny")))
    weights = learner.publish()
    own = weights.read()
    name = next(name for name in own if "layers.2" in name and name.endswith("weight"))
    stale = replace(weights, tensors={**own, name: own[name] * 1.01})
    with pytest.raises(NumericsError, match="E201"):
        engine.load(stale)


@pytest.mark.parametrize("rank", [0, 2])
def test_a_twin_has_the_settings_of_its_engine_and_weights_of_its_own(sample, rank):
    policies = [Policy.load("tiny", adapter=Adapter(rank=rank, key=Key(0)) if rank else None) for _ in range(2)]
    engine, learner = Embedded(policies[0], bound=0.1), LocalLearner(policies[1])
    engine.tier = Tier.MEASURED
    twin = engine.twin(1)
    assert (twin.tier, twin.bound) == (Tier.MEASURED, 0.1)
    own = dict(engine.policy.model.named_parameters())
    assert all((value is own[name]) != value.requires_grad for name, value in twin.policy.model.named_parameters())
    request = ask(engine.policy, "Compute 1 + 2. End with <answer>...</answer>\n", 0, 30)
    before = sample(engine, [request])
    assert sample(twin, [request]) == before
    for parameter in learner.parameters.values():
        parameter.grad = torch.ones_like(parameter)
    learner.optim_step(1e-2)
    twin.load(learner.publish())
    assert sample(twin, [request])[0].logprobs != before[0].logprobs and sample(engine, [request]) == before


def test_the_tier_is_measured(engine, policy):
    assert engine.tier is Tier.EXACT
    assert engine.measure([policy.tokenizer.encode(text) for text in ("Compute 5 + 6.\n", "z", "Use 1, 2\n")]) == 0.0


def test_the_measurement_stays_within_what_the_model_can_hold(policy, monkeypatch):
    small = Embedded(Policy.load(model_folder("tiny")))
    monkeypatch.setattr(small.policy.model.config, "max_position_embeddings", 100)
    asked = []
    monkeypatch.setattr(
        Decoder, "admit", lambda self, request, admit=Decoder.admit: asked.append(request) or admit(self, request)
    )
    assert small.measure([policy.tokenizer.encode("Compute 5 + 6.\n")], tokens=8) == 0.0
    assert max(len(request.prompt_ids) for request in asked) == 92
