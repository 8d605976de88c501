"""A plan counts what a run would allocate, from the configuration of its model alone."""

from __future__ import annotations

import json
import os
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from gnomon.config import RunConfig, Source, overrides, resolve
from gnomon.engines.decoder import Decoder
from gnomon.engines.noise import DEVICE_CHUNK
from gnomon.envs.agent import Launch
from gnomon.errors import ConfigError, ResourceError, RunError
from gnomon.keys import Key
from gnomon.models.adapter import Adapter
from gnomon.models.folder import TINY
from gnomon.models.policy import Policy
from gnomon.models.precision import Precision
from gnomon.plans.command import require_fitting
from gnomon.plans.count import MAPPED, RETURNED, Count
from gnomon.plans.depth import Deep
from gnomon.plans.devices import GPUS, LARGE, Device, device
from gnomon.plans.lengths import Lengths, recorded_lengths, supposed_lengths
from gnomon.plans.passes import Cost, decoding, drawing, meta_policy, texts, training
from gnomon.plans.places import ASLEEP, engines, freed_bytes
from gnomon.plans.plan import Plan, make_plan
from gnomon.plans.programs import Program
from gnomon.plans.text import plan_text
from gnomon.run.parts import open_parts
from gnomon.store import Run, RunReader
from gnomon.types import Request, Sampling
from models.kinds import KINDS

L4 = GPUS["l4"]
TEAM = Path(__file__).parents[1] / "endpoint/team_env.py"
QWEN = {
    "model_type": "qwen3",
    "vocab_size": 32000,
    "hidden_size": 8192,
    "intermediate_size": 24576,
    "num_hidden_layers": 2,
    "num_attention_heads": 64,
    "num_key_value_heads": 8,
    "head_dim": 128,
    "tie_word_embeddings": True,
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The configuration of a model of 1.5 billion parameters, without weights or tokenizer."""
    (tmp_path / "config.json").write_text(json.dumps(QWEN))
    return tmp_path


def settings(*words: str) -> RunConfig:
    """Of a run that trains all weights, where no word says otherwise."""
    return resolve([Source({"env": "char_count", "policy": {"lora": {"rank": 0}}}, {}), overrides(words)])[0]


def test_bytes_of_tensors_that_are_alive_together_are_counted() -> None:
    with Count(replace(L4, per_operation=1.0)) as count:
        a = torch.zeros(1000, device="meta")
        b = a * 2
        view = b.view(10, 100)
        del b
        assert count.peak == 8000
        del view
        c = a.add_(a)
        assert count.peak == 8000
    assert c.shape == (1000,)
    assert count.operations == 4


def test_memory_of_small_tensors_is_kept_and_that_of_large_ones_returned() -> None:
    """Small tensors first, then a large one: the peak of what lives is that of the large one, but the C library still
    has the pages of the small ones."""
    cpu = replace(L4, name="cpu")
    with Count(cpu) as count:
        some = [torch.zeros(RETURNED // 4, device="meta") for _ in range(3)]
        del some
        large = torch.zeros(RETURNED, device="meta")
    assert (count.small, count.large, count.peak) == (3 * RETURNED, 4 * RETURNED, 4 * RETURNED)
    del large
    alone = Cost.most(0.0, [count])
    assert freed_bytes(cpu, alone.peak, alone) == 3 * RETURNED
    assert freed_bytes(L4, alone.peak, alone) == 0
    other = replace(alone, small=5 * RETURNED, large=0, peak=5 * RETURNED)
    assert freed_bytes(cpu, other.peak, other, alone) == 4 * RETURNED


def test_products_take_the_time_of_their_operations() -> None:
    slow = replace(L4, per_operation=0.0, flops={"float32": 1e6}, bandwidth=1e15)
    with Count(slow) as count:
        torch.zeros(10, 20, device="meta") @ torch.zeros(20, 30, device="meta")
    assert count.time == pytest.approx(2 * 10 * 20 * 30 / 1e6)


@pytest.mark.parametrize(("columns", "large"), [(LARGE // 2048, True), (LARGE // 2048 - 1, False)])
def test_a_product_with_a_large_factor_takes_longer_on_a_cpu(columns: int, large: bool) -> None:
    """As with the weights of a large vocabulary."""
    cpu = replace(L4, per_operation=0.0, flops={"float32": 1e6}, bandwidth=1e15, reordering=1e9, per_large_byte=1e-6)

    def seconds(device: Device) -> float:
        left, right = (torch.zeros(shape, device="meta") for shape in ((8, 512), (512, columns)))
        with Count(device) as count:
            left @ right
        return count.seconds

    extra = seconds(cpu) - seconds(replace(cpu, per_large_byte=0.0))
    assert extra == pytest.approx(LARGE * 1e-6 if large else 0.0)


def test_products_are_counted_in_inference_mode_too() -> None:
    """There a linear layer is one operation, and not the product that it consists of."""
    slow, found = replace(L4, per_operation=0.0, flops={"float32": 1e6}), []
    for mode in (torch.no_grad, torch.inference_mode):
        with mode(), Count(slow) as count:
            x, weight = torch.zeros(10, 20, device="meta"), torch.zeros(30, 20, device="meta")
            torch.nn.functional.linear(x, weight)
            x @ weight.t()
        found.append(count.seconds)
    assert found == [pytest.approx(2 * 2 * 10 * 20 * 30 / 1e6)] * 2


def test_an_operation_that_picks_rows_moves_them_and_not_all() -> None:
    device = replace(L4, per_operation=0.0, bandwidth=1.0)
    weight, ids = torch.zeros(100_000, 64, device="meta"), torch.zeros(10, dtype=torch.int64, device="meta")
    for pick in (
        lambda: torch.nn.functional.embedding(ids, weight),
        lambda: weight[ids],
        lambda: weight.index_select(0, ids),
    ):
        with Count(device) as count:
            pick()
        assert count.seconds == 2 * 4 * 10 * 64


def test_a_product_on_a_cpu_also_takes_the_time_of_reordering_its_factors() -> None:
    cpu = replace(L4, per_operation=0.0, flops={"float32": 1e6}, bandwidth=1e15, reordering=1e3)
    with Count(cpu) as count:
        torch.zeros(10, 20, device="meta") @ torch.zeros(20, 30, device="meta")
    assert count.time == pytest.approx(2 * 10 * 20 * 30 / 1e6 + 4 * (10 * 20 + 20 * 30) / 1e3)


def test_a_product_that_is_added_in_place_reads_and_writes_its_sum() -> None:
    """As the gradient of the vocabulary projection is summed over chunks."""
    cpu = replace(L4, per_operation=0.0, flops={"float32": 1e6}, bandwidth=1e3, reordering=1e4)
    total, left, right = (torch.zeros(*shape, device="meta") for shape in ((10, 30), (10, 20), (20, 30)))
    with Count(cpu) as count:
        total.addmm_(left, right)
    factors, result = 4 * (10 * 20 + 20 * 30), 2 * 4 * 10 * 30
    assert count.time == pytest.approx(2 * 10 * 20 * 30 / 1e6 + factors / 1e4 + result / 1e3)


@pytest.mark.parametrize(("size", "mapped"), [(MAPPED // 4 - 1, False), (MAPPED // 4, True), (MAPPED, True)])
def test_large_tensors_take_the_time_of_mapping_them(size: int, mapped: bool) -> None:
    """When they are made, and not when they are changed or viewed."""
    quick = replace(L4, per_operation=0.0, bandwidth=1e18, per_mapped_byte=1e-6)
    with Count(quick) as count:
        made = torch.zeros(size, device="meta")
        made.mul_(2.0)
        made.view(1, size)
    assert count.time == pytest.approx(4 * size * 1e-6 if mapped else 0.0, abs=1e-9)


@pytest.mark.parametrize("adapter", [None, Adapter(rank=4, key=Key(0))], ids=["full", "lora"])
@pytest.mark.parametrize("compute", [torch.float32, torch.bfloat16])
def test_a_policy_without_numbers_has_the_parameters_of_a_real_one(
    adapter: Adapter | None, compute: torch.dtype
) -> None:
    precision = Precision(compute=compute)
    counted, real = meta_policy(TINY, precision, adapter), Policy.load(TINY, precision, adapter=adapter)
    for one, other in ((counted.state(), real.state()), (counted.masters.parameters, real.masters.parameters)):
        shapes = [{name: (value.shape, value.dtype) for name, value in state.items()} for state in (one, other)]
        assert shapes[0] == shapes[1]


def test_keys_and_values_are_those_of_a_real_engine() -> None:
    prompt, group, reply = 40, 8, 70
    decoder = Decoder(Policy.load(TINY))
    sampling = Sampling(max_tokens=reply, temperature=5.0)
    decoder._endings.finish = lambda ids, sampling: None  # type: ignore[method-assign,assignment,return-value]
    for row in range(2 * group):
        ids = (*range(2, 1 + prompt), 40 + row // group)
        decoder.admit(Request(prompt_ids=ids, key=bytes([row]) * 16, sampling=sampling))
    for _ in range(reply):
        decoder.step()
    real = decoder._layout.nbytes
    assert decoding(meta_policy(TINY, Precision()), [prompt] * 2, group, reply, L4).cache == real


def test_noise_is_never_held_for_all_rows() -> None:
    """Of 512 rows at 262,144 tokens; in float64 it would be 1 GiB."""
    few, many = (drawing(rows, 262_144, L4) for rows in (64, 512))
    assert 0 < few.peak == many.peak < 4 * 8 * DEVICE_CHUNK
    assert many.seconds == pytest.approx(8 * few.seconds)
    cpu = drawing(512, 262_144, replace(L4, name="cpu", per_noise=1e-9))
    assert cpu.seconds == pytest.approx(512 * 262_144 * 1e-9) and cpu.peak < few.peak / 10


def test_replayed_passes_are_counted_without_most_of_the_time_of_operations() -> None:
    """And the passes from Python that are left, two for every 32 tokens."""
    policy = meta_policy(TINY, Precision())
    found = [
        decoding(policy, [16] * 4, 8, 65, replace(L4, per_operation=1e-3, per_replayed=each)).seconds
        for each in (None, 1e-3, 0.0)
    ]
    plain, as_slow, replayed = found
    operations = (as_slow - replayed) / 64 / 1e-3
    assert operations > 100 and as_slow - plain == pytest.approx(2 * 3 * operations * 1e-3)


def test_the_peak_of_training_grows_with_tokens_and_shrinks_by_checkpointing() -> None:
    def peak(reply: int, checkpointing: bool) -> float:
        policy = meta_policy(TINY, Precision())
        if checkpointing:
            policy.checkpoint_activations()
        return training(policy, texts([16], 4, reply), L4).peak

    assert 1.7 < peak(256, False) / peak(128, False) < 2.6
    assert peak(256, True) < 0.6 * peak(256, False)


def test_the_peak_of_training_does_not_grow_with_the_square_of_a_row() -> None:
    """1,024 tokens in one row, and in four."""
    long, short = (training(meta_policy(TINY, Precision()), texts([16] * n, 1, 1024 // n), L4).peak for n in (1, 4))
    assert long < 1.1 * short


@pytest.mark.parametrize("checkpointing", [False, True])
def test_deep_models_need_what_their_layers_add_up_to(folder: Path, checkpointing: bool) -> None:
    small = {"hidden_size": 64, "intermediate_size": 96, "num_attention_heads": 8, "head_dim": 8}
    (folder / "config.json").write_text(json.dumps(QWEN | small | {"num_hidden_layers": 9}))

    def make(layers: int) -> Policy:
        policy = meta_policy(folder, Precision(), layers=layers)
        if checkpointing:
            policy.checkpoint_activations()
        return policy

    deep, sequences = Deep(make), texts([30], 2, 40)
    assert deep.layers == 9
    for work in (
        lambda policy: training(policy, sequences, L4),
        lambda policy: decoding(policy, [30], 4, 40, L4),
    ):
        found, whole = deep.cost(work), work(deep.whole)
        assert found.seconds == pytest.approx(whole.seconds, rel=0.01)
        assert found.peak == pytest.approx(whole.peak, rel=0.01)
        assert found.cache == pytest.approx(whole.cache, rel=0.01)


def test_what_cannot_fit_names_the_smallest_change_that_does(folder: Path) -> None:
    words = (f"policy={folder}", "prompts=2", "group=2", "rollout.max_tokens=256", "eval.tasks=2")
    lengths = supposed_lengths(settings(*words), prompt=100)
    with pytest.raises(ResourceError) as caught:
        require_fitting(settings(*words), make_plan(settings(*words), L4, lengths))
    assert caught.value.code == "E507"
    fixed = make_plan(settings(*words, *caught.value.fix.split()), L4, lengths)
    assert fixed.fits
    assert caught.value.fix == "policy.lora.rank=32"


@pytest.mark.long
def test_where_no_setting_helps_a_larger_device_is_named(folder: Path) -> None:
    small = replace(L4, memory=2.0**30)
    config = settings(f"policy={folder}", "prompts=1", "group=2", "rollout.max_tokens=8", "eval.tasks=1")
    plan = make_plan(config, small, supposed_lengths(config, prompt=8))
    with pytest.raises(ResourceError, match=r"--device l40s"):
        require_fitting(config, plan)


def test_a_run_without_a_step_has_no_lengths(tmp_path: Path) -> None:
    with Run.create(tmp_path / "run", recipe="seed = 1\n", manifest={}, genesis={}):
        pass
    with RunReader(tmp_path / "run") as reader, pytest.raises(RunError, match=r"E409(.|\n)*gnomon plan .*recipe.toml"):
        recorded_lengths(settings(), reader)


def test_a_reply_is_as_long_as_the_context_leaves_room_for() -> None:
    config = settings("rollout.max_tokens=9000000000000000000", "rollout.context=100", "prompts=3")
    lengths = supposed_lengths(config)
    assert lengths.reply == 100 - min(lengths.prompts) > 0
    assert [supposed_lengths(config, prompt, reply).reply for prompt, reply in ((40, None), (40, 7), (400, None))] == [
        60, 7, 1
    ]  # fmt: skip


def test_a_plan_adds_up(folder: Path) -> None:
    config = settings("prompts=2", "group=4", "steps=10", "eval.every=5", "eval.tasks=4", "regularize.kl=0.1")
    plan = make_plan(config, L4, Lengths(prompts=(20, 30), reply=16, held_out=(20,) * 4))
    assert plan.tokens == 2 * 4 * 16
    assert plan.memory["gradients"] == 4 * plan.trainable == plan.memory["optimiser"] / 2 == plan.memory["reference"]
    assert plan.evaluations == 3
    assert plan.hours == pytest.approx((10 * sum(plan.seconds.values()) + 3 * plan.evaluation) / 3600)


def test_a_plan_counts_evaluation_sets(folder: Path) -> None:
    """A set of the run's own prompts costs what the main evaluation does, and one of long prompts needs more memory."""
    words = ["prompts=2", "group=4", "steps=10", "eval.every=5", "eval.tasks=4"]
    config = settings(*words, "eval.sets.same.temperature=0", "eval.sets.sums.env=arithmetic", "eval.sets.sums.every=2",
                      "eval.sets.sums.tasks=3", "eval.sets.sums.samples=2")  # fmt: skip
    lengths = supposed_lengths(config)
    assert lengths.sets["same"] == lengths.held_out and len(lengths.sets["sums"]) == 3
    assert lengths.sets["sums"] == supposed_lengths(settings("env=arithmetic", "eval.tasks=3")).held_out
    plan, bare = make_plan(config, L4, lengths), make_plan(settings(*words), L4, replace(lengths, sets={}))
    same, sums = plan.sets["same"], plan.sets["sums"]
    assert same.seconds == plan.evaluation and (same.evaluations, sums.evaluations) == (3, 6)
    assert plan.hours == pytest.approx(bare.hours + (3 * same.seconds + 6 * sums.seconds) / 3600)
    assert "set sums" in plan_text(plan) and "6 evaluations of" in plan_text(plan)
    assert plan.body()["sets"]["sums"] == {"seconds": sums.seconds, "evaluations": 6} and bare.body()["sets"] == {}
    wide = make_plan(config, L4, replace(lengths, sets={"same": (2000,) * 64}))
    assert wide.phase == "sampling" and wide.peak > bare.peak
    assert supposed_lengths(config, prompt=9).sets == {"same": (9,) * 4, "sums": (9,) * 3}


@pytest.mark.long
def test_a_teacher_counts_with_its_own_size(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    """Also where an adapter is trained, whose reference takes no memory else; a shown answer makes prompts longer."""
    teacher = tmp_path_factory.mktemp("teacher")
    (teacher / "config.json").write_text(json.dumps(QWEN | {"num_hidden_layers": 4}))
    own = ("prompts=2", "group=4", f"policy={folder}")
    lengths = Lengths(prompts=(2000, 3000), reply=16, held_out=(20,) * 4)

    def plan(*words: str) -> Plan:
        return make_plan(settings(*own, *words), L4, lengths)

    weights = sum(4 * value.numel() for value in meta_policy(teacher, Precision()).model.parameters())
    named = ("objective=opd", f"policy.reference={teacher}")
    assert plan(*named).memory["reference"] == weights == plan(*named, "policy.lora.rank=4").memory["reference"]
    assert plan(*named, "policy.dtype=bfloat16").memory["reference"] == weights / 2
    alike = plan("objective=opd", f"policy.reference={shutil.copytree(folder, teacher / 'alike')}")
    assert 1.5 * alike.seconds["reference"] < plan(*named).seconds["reference"]
    assert 1.5 * alike.seconds["reference"] < plan("objective=opsd").seconds["reference"]
    assert "reference" not in plan("objective=opsd", "policy.lora.rank=4").memory


def test_an_optimiser_counts_with_what_it_keeps(folder: Path) -> None:
    """Beside 8 bytes per weight of AdamW: 2 and a scale per 256 weights, 4, or nothing."""
    lengths = Lengths(prompts=(20,) * 2, reply=16, held_out=(20,))

    def plan(*words: str) -> Plan:
        return make_plan(settings(f"policy={folder}", "prompts=2", "group=4", *words), L4, lengths)

    adamw, sgd = plan(), ("optim.type=sgd", "optim.lr=0.3")
    assert adamw.memory["optimiser"] == 8 * adamw.trainable
    packed = plan("optim.states=8bit").memory["optimiser"]
    assert packed == pytest.approx(2 * adamw.trainable * (1 + 4 / 256), rel=1e-3)
    assert plan(*sgd, "optim.momentum=0.9").memory["optimiser"] == 4 * adamw.trainable
    assert "optimiser" not in plan(*sgd).memory
    assert plan(*sgd).seconds["optimiser"] < plan("optim.states=8bit").seconds["optimiser"] < adamw.seconds["optimiser"]
    assert plan(*sgd, "optim.momentum=0.9", "ranks=2").memory["optimiser"] == 2 * adamw.trainable
    critics = [plan("objective=ppo", *words).memory["critic"] for words in ((), ("optim.states=8bit",))]
    assert critics[0] - critics[1] == adamw.memory["optimiser"] - packed
    assert plan("objective=ppo", *sgd).memory["critic"] == critics[0]
    small = replace(L4, memory=plan("optim.states=8bit").most)
    with pytest.raises(ResourceError, match=r"E507(.|\n)*fix: optim.states=8bit$"):
        config = settings(f"policy={folder}", "prompts=2", "group=4")
        require_fitting(config, make_plan(config, small, lengths))


def test_a_step_with_states_in_8_bits_unpacks_one_tensor_at_a_time_on_a_cpu(folder: Path) -> None:
    lengths = Lengths(prompts=(4,), reply=2, held_out=(4,))
    words = (f"policy={folder}", "prompts=1", "group=1", "objective=reinforce", "optim.states=8bit")
    gpu, cpu = (make_plan(settings(*words), device, lengths) for device in (L4, replace(L4, name="cpu")))
    assert cpu.seconds["optimiser"] > 2.8e-8 * cpu.trainable > gpu.seconds["optimiser"]
    assert cpu.memory["activations"] == 20 * 32000 * 8192 > gpu.memory["activations"]


def test_processes_of_the_learner_share_what_is_kept(folder: Path) -> None:
    """On GPUs each has a device, and the first has the engine too; on a CPU all lie in the memory of one machine."""
    small = {"hidden_size": 64, "intermediate_size": 96, "num_attention_heads": 8, "head_dim": 8, "vocab_size": 500}
    (folder / "config.json").write_text(json.dumps(QWEN | small))
    words = (f"policy={folder}", "prompts=4", "group=4", "optim.micro_batch=64")
    lengths = Lengths(prompts=(20,) * 4, reply=16, held_out=(20,) * 4)
    cpu = replace(L4, name="cpu")
    one, four = (make_plan(settings(*words, f"ranks={ranks}"), L4, lengths) for ranks in (0, 4))
    here = make_plan(settings(*words, "ranks=4"), cpu, lengths)
    assert not one.learner and not here.learner and four.devices == 4 and one.devices == here.devices == 1
    assert four.memory["optimiser"] == one.memory["optimiser"] / 4 == four.learner["optimiser"]
    assert here.memory["optimiser"] == one.memory["optimiser"]
    assert {"engine weights", "keys and values"} <= four.memory.keys() - four.learner.keys()
    assert four.micro_batches >= 4 and four.seconds["training"] < one.seconds["training"] / 2
    assert "4 devices" in plan_text(four) and "between the processes of the learner" in plan_text(four)
    idle = make_plan(settings(f"policy={folder}", "prompts=1", "group=2", "ranks=4"), L4, lengths)
    assert idle.micro_batches < 4 and "optim.micro_batch" in plan_text(idle)


def test_vllm_and_training_share_memory_only_if_vllm_sleeps(folder: Path) -> None:
    """Whichever of both needs more."""
    words = (f"policy={folder}", "prompts=4", "group=4", "engine.type=vllm", "engine.python=/p/python")
    cache = "engine.cache_gib=6"
    for prompt, phase in ((20_000, "training"), (20, "sampling")):
        lengths = Lengths(prompts=(prompt,) * 4, reply=16, held_out=(20,) * 4)
        awake, asleep = (
            make_plan(settings(*words, cache, *more), L4, lengths) for more in ((), ("engine.sleep=true",))
        )
        own = awake.memory["engine weights"] + awake.memory["keys and values"] + awake.memory["decoding"]
        assert awake.phase == "sampling and training" and asleep.phase == phase
        kept = ASLEEP if phase == "training" else 0
        assert awake.peak - asleep.peak == pytest.approx(min(own - kept, awake.memory["activations"]))
        assert asleep.seconds == awake.seconds and "to the memory of the host and back" in plan_text(asleep)
    config, small = settings(*words, cache), replace(L4, memory=awake.peak - 2**27)
    with pytest.raises(ResourceError, match=r"E507(.|\n)*fix: engine.sleep=true$"):
        require_fitting(config, make_plan(config, small, lengths))
    cpu = replace(small, name="cpu")
    with pytest.raises(ResourceError, match="E507") as caught:
        require_fitting(config, make_plan(config, cpu, lengths))
    assert "sleep" not in caught.value.fix
    opposed = make_plan(settings(*words, cache, "engine.sleep=true", "players.opponent=past"), L4, lengths)
    assert opposed.peak - asleep.peak == pytest.approx(opposed.memory["opponents"]) and opposed.memory["opponents"] > 0


@pytest.mark.parametrize("kind", KINDS)
def test_keys_and_values_of_vllm_are_planned_for_every_family(tmp_path: Path, kind: str) -> None:
    """Those of all layers, of as many heads as have keys: some families name these, others do not. Of multi-head latent
    attention, what they are computed from."""
    config = KINDS[kind]
    config.save_pretrained(tmp_path)
    heads = getattr(config, "num_key_value_heads", None) or config.num_attention_heads
    size = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
    words = (f"policy={tmp_path}", "prompts=2", "group=4", "engine.type=vllm", "engine.python=/p/python")
    plan = make_plan(settings(*words), L4, Lengths(prompts=(20,) * 2, reply=12, held_out=(20,)))
    numbers = 20 + 16 if kind == "deepseek_v3" else 2 * heads * size
    assert plan.memory["keys and values"] == 8 * 32 * config.num_hidden_layers * numbers * 4


@pytest.mark.parametrize("gpus", ["2", "2,3,4,5"])
@pytest.mark.parametrize("more", [(), ("ranks=2",), ("learner=http://127.0.0.1:8766",)])
def test_vllm_on_gpus_of_its_own_takes_nothing_of_the_learners(folder: Path, gpus: str, more: tuple[str, ...]) -> None:
    lengths = Lengths(prompts=(20,) * 4, reply=16, held_out=(20,) * 4)
    words = (f"policy={folder}", "prompts=4", "group=4", "engine.type=vllm", "engine.python=/p/python", *more)
    shared, apart = (
        make_plan(settings(*words), L4, lengths),
        make_plan(settings(*words, f"engine.gpus={gpus}"), L4, lengths),
    )
    count = len(gpus.split(","))
    assert apart.sampler["engine weights"] * count == shared.memory["engine weights"]
    assert apart.sampler["keys and values"] * count == shared.memory["keys and values"]
    given = make_plan(settings(*words, f"engine.gpus={gpus}", "engine.cache_gib=3"), L4, lengths)
    assert given.sampler["keys and values"] == 3 * 2**30 and given.sampler["decoding"] == apart.sampler["decoding"]
    one = settings(*words, f"engine.gpus={gpus}", "engine.arguments.tensor_parallel_size=1")
    assert make_plan(one, L4, lengths).sampler["engine weights"] == shared.memory["engine weights"]
    assert apart.samplers == count and apart.devices == shared.devices + count - bool("http" in str(more))
    assert not {"engine weights", "keys and values"} & {*apart.memory, *apart.learner}
    assert f"each of {count} GPUs of vLLM" in plan_text(apart) and "Ray" not in plan_text(apart)
    assert apart.total == pytest.approx(apart.peak + sum(apart.learner.values()) + count * sum(apart.sampler.values()))


def test_a_served_learner_has_the_memory_of_its_own_machine(folder: Path) -> None:
    lengths = Lengths(prompts=(20,) * 2, reply=16, held_out=(20,))
    words = (f"policy={folder}", "prompts=2", "group=4")
    here = make_plan(settings(*words), L4, lengths)
    apart = make_plan(settings(*words, "learner=http://127.0.0.1:8766"), L4, lengths)
    assert apart.seconds == here.seconds and apart.devices == 2
    assert {"gradients", "optimiser", "activations"} <= apart.learner.keys() - apart.memory.keys()
    assert "engine weights" in apart.memory and apart.most < here.peak
    assert "on the server of the learner" in plan_text(apart) and "between run and learner" in plan_text(apart)
    with pytest.raises(ResourceError, match=r"E507(.|\n)*training: optimiser"):
        device = replace(L4, memory=float(sum(apart.learner.values()) - 1))
        require_fitting(settings(*words, "learner=http://127.0.0.1:8766"), replace(apart, device=device))


@pytest.mark.parametrize("lag", [0, 2, 9])
def test_engines_are_those_that_a_run_makes(lag: int) -> None:
    """With a lag: one for every step in progress, and the one that evaluates. A lag is never longer than the run."""
    words = ("prompts=2", "group=2", "steps=3", f"rollout.lag={lag}", "eval.tasks=2")
    config = settings(*words)
    with open_parts(config) as parts:
        made = {id(actor.engine) for actor in (parts.actor, *parts.batches.actors)}
    assert len(made) == engines(config) == {0: 1, 2: 4, 9: 5}[lag]
    lengths = Lengths(prompts=(20,) * 2, reply=16, held_out=(20,) * 2)
    plan, one = make_plan(config, L4, lengths), make_plan(settings(*words[:3], "eval.tasks=2"), L4, lengths)
    assert plan.memory["engine weights"] == len(made) * one.memory["engine weights"]
    assert plan.memory.get("weights of open steps", 0.0) == (len(made) - 1 if lag else 0) * plan.memory["gradients"]


def test_samplers_in_a_cluster_have_memory_of_their_own(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A cluster of the run's own is on one machine, whose memory they share; in another one each counts alone."""
    small = {"hidden_size": 64, "intermediate_size": 96, "num_attention_heads": 8, "head_dim": 8, "vocab_size": 500}
    (folder / "config.json").write_text(json.dumps(QWEN | small))
    words = (f"policy={folder}", "prompts=8", "group=4", "rollout.lag=1")
    lengths = Lengths(prompts=(20,) * 8, reply=16, held_out=(20,) * 4)
    there = (*words, "launch=ray", "launch.samplers=4")
    cpu = replace(L4, name="cpu", program=1e6)
    here, four = make_plan(settings(*words), cpu, lengths), make_plan(settings(*there), cpu, lengths)
    apart = make_plan(settings(*there, "learner=ray", "launch.address=a:1"), cpu, lengths)
    assert four.sampler["engine weights"] == here.memory["engine weights"] and "engine weights" not in four.memory
    assert four.sampler["keys and values"] < here.memory["keys and values"]
    assert four.together and four.most == four.total == four.peak + 4 * sum(four.sampler.values())
    assert not apart.together and apart.most == max(
        apart.peak, sum(apart.learner.values()), sum(apart.sampler.values())
    )
    assert {"gradients", "optimiser"} <= apart.learner.keys() - apart.memory.keys()
    assert (
        "each of 4 samplers" in plan_text(four) and "together" in plan_text(four) and "object store" in plan_text(four)
    )
    assert "the node of the learner" in plan_text(apart) and "together" not in plan_text(apart)
    gpus = make_plan(settings(*there, "launch.gpus=1"), L4, lengths)
    assert gpus.devices == 5 and gpus.seconds["sampling"] < make_plan(settings(*words), L4, lengths).seconds["sampling"]
    few = make_plan(settings(*there, "launch.episodes=4"), cpu, lengths)
    assert few.sampler["keys and values"] < four.sampler["keys and values"]
    monkeypatch.setattr("gnomon.plans.command.CHANGES", ())  # Where none helps is shown above.
    with pytest.raises(ResourceError, match=r"E507(.|\n)*each of 4 samplers"):
        require_fitting(settings(*there), replace(four, memory={"program": 1e6}, device=replace(cpu, memory=1e6)))


def test_mistakes_are_named(folder: Path) -> None:
    with pytest.raises(ConfigError, match="E073"):
        device("abacus", 0.0)
    with pytest.raises(ConfigError, match="--prompt"):
        supposed_lengths(settings(f"policy={folder}"))


def test_this_machine_is_measured() -> None:
    found: Device = device("cpu", 1.0, ["bfloat16"])
    assert found.measured and set(found.flops) == {"float32", "bfloat16"}
    assert 1e8 < found.bandwidth < 1e13
    assert 1e8 < found.reordering < 1e13
    assert 0 <= found.per_mapped_byte < 1e-8
    assert all(1e8 < rate < 1e15 for rate in found.flops.values())


def test_programs_count_with_calls_growing_prompts_and_their_own_time(folder: Path) -> None:
    config = settings("prompts=2", "group=4", "steps=10", "eval.every=5", "eval.tasks=4")
    bare = Lengths(prompts=(20, 30), reply=16, held_out=(20,) * 4)
    program = Program(calls=3, growth=10, seconds=2.0, memory=2.0**26, at_once=6, wall_seconds=1.0)
    lengths = replace(bare, program=program)
    one, plan = make_plan(config, L4, bare), make_plan(config, L4, lengths)
    assert plan.tokens == 3 * one.tokens == 3 * 2 * 4 * 16
    assert program.last_prompt(30, 16) == 30 + 2 * 26 and lengths.conversation == 3 * 16 + 2 * 10
    assert plan.seconds["programs"] == lengths.beside(8) > 8 * 2.0 / (os.cpu_count() or 1)
    assert (
        plan.seconds["sampling"] > 2.9 * one.seconds["sampling"] and plan.seconds["training"] > one.seconds["training"]
    )
    assert plan.evaluation > one.evaluation + lengths.beside(4)
    text = plan_text(plan)
    assert "programs     6 of 8 at once beside the run: 64 MiB each, 0.38 GiB (assumed)" in text
    assert "3.0 of each; the prompt of the last one has 82 tokens" in text and "time (up to" in text
    assert plan.body()["programs"]["calls"] == 3 and one.body()["programs"] is None and "programs" not in plan_text(one)
    forked = make_plan(config, L4, replace(bare, program=replace(program, branches=3.0)))
    assert forked.tokens == plan.tokens and forked.seconds["sampling"] < plan.seconds["sampling"]


@pytest.mark.parametrize(
    ("limits", "calls", "names"),
    [
        ({"calls": 5}, 5, {"calls"}),
        ({"calls": 5, "tokens": 40}, 3, {"tokens"}),
        ({"calls": 3, "tokens": 40}, 3, {"calls", "tokens"}),
        ({"calls": 5, "context": 71}, 2, {"context"}),
        ({"calls": 5, "context": 20}, 0, {"context"}),
    ],
)
def test_the_limits_that_end_a_program_s_calls_are_named(limits: dict[str, int], calls: int, names: set[str]) -> None:
    """Replies of 16 tokens after a first prompt of 25; the program adds 10 tokens between two of them."""
    launch = Launch(command=("true",), calls=limits["calls"], tokens=limits.get("tokens"))
    found = Program(added=5, growth=10).limit_calls(launch, limits.get("context"), 20, 16)
    assert (found.calls, set(found.binding)) == (calls, names)


@pytest.mark.needs("bwrap")
def test_a_program_is_measured_by_running_it() -> None:
    config = settings(f"env={TEAM}:Team", "prompts=1", "group=2", "rollout.max_tokens=8", "eval.tasks=1")
    lengths = supposed_lengths(config)
    assert lengths.program is not None and lengths.program.measured
    assert 0.01 < lengths.program.seconds < 20 and 2**20 < lengths.program.memory < 2**29
    assert lengths.program.calls == 16 and set(lengths.program.binding) == {"calls"}
    assert lengths.program.ending.startswith("exit status 2 after 5 calls: /scratch")
    broken = settings("env.command=python -c 'import nothing'", f"env={TEAM}:Team", "prompts=1", "group=2")
    found = supposed_lengths(broken).program
    assert found is not None and found.ending.startswith("exit status 1 after 0 calls: ModuleNotFoundError")
    assert found.ending in plan_text(make_plan(broken, L4, supposed_lengths(broken, prompt=9)))
    stated = supposed_lengths(config, prompt=30)
    assert stated.prompts == (30,) and stated.program is not None and stated.program.measured
