"""Kernels of generated code are replayed on their own inputs, next to the operators that they stand for."""

from __future__ import annotations

import dataclasses
import importlib.util
import operator
import types
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch._inductor import inductor_prims
from torch._inductor.graph import GraphLowering
from torch._inductor.select_algorithm import extern_kernels

from fuselight.adapters.torch_api.inductor.kernel_recording import (
    KernelRecorder,
    LoweredGraph,
    RecordedBuffer,
    without_graph_caches,
)
from fuselight.adapters.torch_api.rounding_noise import as_tf32
from fuselight.adapters.torch_api.settings import eager_random_numbers
from fuselight.measure.accuracy import kernel_replay
from fuselight.measure.accuracy.kernel_replay import ReplayedLine, replay_kernels

pytestmark = [pytest.mark.torch, pytest.mark.contract]
MM = "extern_kernels.mm"


def product(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    first = torch.mm(x, weight)
    return torch.mm(first, weight)  # only library calls, which need no C++ compiler


@pytest.fixture(scope="module")
def replayed() -> Iterator[Callable[[Any], ReplayedLine]]:
    recorder = KernelRecorder()
    given = torch.linspace(-1, 1, 32).reshape(4, 8), torch.linspace(0, 1, 64).reshape(8, 8)
    torch.compiler.reset()
    with recorder.active(), without_graph_caches():
        compiled = torch.compile(product)
        expected = compiled(*given)

    def run(mm: Any) -> ReplayedLine:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(extern_kernels, "mm", mm)
            with recorder.recording():
                compiled(*given)
        assert torch.equal(compiled(*given), expected), "as without a recording"
        return replay_kernels(recorder.graphs)

    yield run
    torch.compiler.reset()


def test_right_kernels_are_judged_right(replayed: Callable[[Any], ReplayedLine]) -> None:
    line = replayed(torch.mm)
    assert (line.replay.kernel, line.stack) == ("", ())
    assert (line.replay.judged, line.replay.unmapped, line.replay.not_evaluated) == (2, 0, 0)


def test_the_first_wrong_kernel_is_named_with_its_line(replayed: Callable[[Any], ReplayedLine]) -> None:
    calls: list[int] = []

    def wrong(x: torch.Tensor, y: torch.Tensor, *, out: torch.Tensor) -> None:
        torch.mm(x, y, out=out)
        calls.append(1)
        if len(calls) == 2:
            out.mul_(1.001)

    line = replayed(wrong)
    assert line.replay.kernel == "extern_kernels.mm"
    assert line.replay.steps > 100
    assert line.replay.eager_steps < 4
    assert line.replay.judged == 2
    assert line.stack[-1].line == product.__code__.co_firstlineno + 2


@pytest.mark.parametrize(("allowed", "factor", "kernel"), [(True, 1, ""), (True, 1.01, MM), (False, 1, MM)])
def test_a_product_may_be_off_by_what_tf32_rounds_where_it_is_allowed(
    replayed: Callable[[Any], ReplayedLine],
    monkeypatch: pytest.MonkeyPatch,
    allowed: bool,  # noqa: FBT001 - a parameter of the test
    factor: float,
    kernel: str,
) -> None:
    """cuDNN chooses TF32 by the strides of a convolution, which compiled code changes."""

    def of_tf32(x: torch.Tensor, y: torch.Tensor, *, out: torch.Tensor) -> None:
        torch.mm(as_tf32(x) * factor, as_tf32(y), out=out)

    monkeypatch.setattr(kernel_replay, "rounds_to_tf32", lambda _: allowed)
    assert replayed(of_tf32).replay.kernel == kernel


def test_a_nan_in_another_place_is_wrong(replayed: Callable[[Any], ReplayedLine]) -> None:
    def wrong(x: torch.Tensor, y: torch.Tensor, *, out: torch.Tensor) -> None:
        torch.mm(x, y, out=out)[0, 0] = float("nan")

    line = replayed(wrong)
    assert line.replay.kernel == "extern_kernels.mm"
    assert line.stack[-1].line == product.__code__.co_firstlineno + 1


def dropped() -> LoweredGraph:
    """A graph as Inductor lowers dropout; the name of the mask comes after that of the value."""
    graph = torch.fx.Graph()
    x = graph.placeholder("x")
    seeds = graph.call_function(inductor_prims.seeds, (1, torch.device("cpu")))
    seed = graph.call_function(inductor_prims.lookup_seed, (seeds, 0))
    drawn = graph.call_function(inductor_prims.random, ([32, 64], seed, "rand"))
    kept = graph.call_function(torch.ops.aten.gt.Scalar, (drawn, 0.3))
    product = graph.call_function(torch.ops.aten.mul.Tensor, (kept, x))
    result = graph.call_function(torch.ops.aten.mul.Tensor, (product, 1 / 0.7))
    graph.output((result, kept))
    for node in (x, drawn, product, result):
        node.meta["val"] = torch.empty(32, 64, device="meta")
    kept.meta["val"] = torch.empty(32, 64, dtype=torch.bool, device="meta")
    seeds.meta["val"] = torch.empty(1, dtype=torch.int64, device="meta")
    return LoweredGraph(graph, {"buf0": seeds, "buf1": result, "buf2": kept})


def replayed_dropout(
    seed: int, *, share: float = 0.3, factor: float = 1.0, has_mask: bool = True
) -> ReplayedLine:
    """What a replay says of a kernel that drops elements with a probability, and multiplies by a wrong factor."""
    draw = torch.Generator().manual_seed(seed)
    x = torch.randn(32, 64, generator=draw)
    x[0, 0] = 1e4  # dropped or not, it decides how far two draws are apart
    mask = torch.rand(32, 64, generator=draw) > share
    lowered = dropped()
    lowered.inputs["x"] = x
    seeds = torch.randint(-(2**63), 2**63 - 1, (1,), generator=draw)
    written = {"buf0": ("aten.randint", seeds), "buf1": ("cpp_fused_0", mask * x / 0.7 * factor)}
    if has_mask:
        written["buf2"] = "cpp_fused_0", mask
    lowered.buffers = {name: RecordedBuffer(name, *known) for name, known in written.items()}
    before = torch.get_rng_state()
    line = replay_kernels([lowered])
    assert torch.equal(torch.get_rng_state(), before), "the program goes on with its own random numbers"
    return line


_LARGEST_IS_DROPPED = (0, 1, 3, 8, 14, 20)
"""Seeds: draws of the operators keep the element in most cases."""


@pytest.mark.parametrize("has_mask", [True, False])
def test_right_dropout_is_never_suspected(*, has_mask: bool) -> None:
    for seed in _LARGEST_IS_DROPPED:
        replay = replayed_dropout(seed, has_mask=has_mask).replay
        assert (replay.kernel, replay.judged) == ("", 1 + has_mask), replay
        assert (replay.unjudged, replay.not_evaluated) == ({}, 0), "a seed is no value to judge"


def test_a_wrong_factor_of_dropout_is_seen_next_to_the_mask_that_the_kernel_drew() -> None:
    replay = replayed_dropout(0, factor=1.001).replay
    assert (replay.buffer, replay.distribution) == ("buf1", "")
    assert replay.steps > 100
    assert replay.eager_steps < 4


@pytest.mark.parametrize("has_mask", [True, False])
def test_a_wrong_share_of_dropout_is_another_distribution(*, has_mask: bool) -> None:
    replay = replayed_dropout(0, share=0.7, has_mask=has_mask).replay
    assert replay.kernel == "cpp_fused_0"
    assert replay.buffer == ("buf2" if has_mask else "buf1")
    assert replay.distribution.startswith("share of zeros 0.7")


def test_results_of_one_library_call_are_its_own() -> None:
    def dropped_product(x: torch.Tensor) -> torch.Tensor:
        return torch.mm(torch.nn.functional.dropout(torch.mm(x, x), 0.3), x)

    recorder = KernelRecorder()
    torch.compiler.reset()
    with recorder.active(), without_graph_caches(), eager_random_numbers():
        compiled = torch.compile(dropped_product)
        given = torch.linspace(-1, 1, 1024).reshape(32, 32)
        compiled(given)
        with recorder.recording():
            compiled(given)
    torch.compiler.reset()
    (graph,) = recorder.graphs
    kernels = [buffer.kernel.removeprefix("torch.ops.") for buffer in graph.buffers.values()]
    assert kernels == ["extern_kernels.mm", "aten.native_dropout.default", "extern_kernels.mm"]
    replay = replay_kernels([graph]).replay
    assert (replay.kernel, replay.judged, replay.not_evaluated) == ("", 3, 0)


def test_a_kernel_that_keeps_more_digits_than_it_stores_is_right() -> None:
    graph = torch.fx.Graph()
    x = graph.placeholder("x")
    doubled = graph.call_function(torch.ops.aten.mul.Tensor, (x, 1.7))
    wide = graph.call_function(torch.ops.prims.convert_element_type.default, (doubled, torch.float32))
    later = graph.call_function(torch.ops.aten.mul.Tensor, (doubled, 3))
    graph.output((doubled, wide, later))
    for node, dtype in (
        (x, torch.bfloat16),
        (doubled, torch.bfloat16),
        (wide, torch.float32),
        (later, torch.bfloat16),
    ):
        node.meta["val"] = torch.empty(64, dtype=dtype, device="meta")
    lowered = LoweredGraph(graph, {"buf0": doubled, "buf1": wide, "buf2": later})
    given = torch.linspace(1, 2, 64).bfloat16()
    unrounded = given.float() * 1.7
    lowered.inputs["x"] = given
    stored = unrounded.bfloat16()
    values = {"buf0": ("cpp_0", stored), "buf1": ("cpp_0", unrounded), "buf2": ("cpp_1", stored * 3)}
    lowered.buffers = {name: RecordedBuffer(name, *known) for name, known in values.items()}
    replay = replay_kernels([lowered]).replay
    assert (replay.kernel, replay.judged) == ("", 3), replay
    lowered.buffers["buf2"].value.mul_(1.1)
    replay = replay_kernels([lowered]).replay
    assert (replay.kernel, replay.buffer) == ("cpp_1", "buf2")
    assert replay.eager_steps < 1, "from what the kernel before it wrote"


def test_a_value_is_of_no_operator_whose_rounding_any_value_is_within() -> None:
    graph = torch.fx.Graph()
    x, y = graph.placeholder("x"), graph.placeholder("y")
    far = graph.call_function(torch.ops.aten.add.Tensor, (x, 1e12))
    lost = graph.call_function(torch.ops.aten.sub.Tensor, (far, 1e12))
    after = graph.call_function(torch.ops.aten.mul.Tensor, (lost, 2))
    graph.output((after,))
    for node in (x, y, far, lost, after):
        node.meta["val"] = torch.empty(64, device="meta")
    given = torch.linspace(1, 2, 64)
    lowered = LoweredGraph(graph, {"buf1": after}, inputs={"x": given, "y": given.flip(0)})
    values = {"buf0": ("extern_kernels.part", given.flip(0).sin()), "buf1": ("triton_poi_0.run", given * 2)}
    lowered.buffers = {name: RecordedBuffer(name, *known) for name, known in values.items()}
    replay = replay_kernels([lowered]).replay
    assert (replay.judged, replay.unjudged) == (1, {"of no operator": 1}), replay
    lowered.buffers["buf1"].value.copy_(given.flip(0))  # within what the operators round
    replay = replay_kernels([lowered]).replay
    assert (replay.kernel, replay.not_evaluated) == ("", 1), replay
    assert "its operators lose too many digits" in replay.unjudged


def test_what_reads_memory_by_strides_is_not_evaluated() -> None:
    graph = torch.fx.Graph()
    x = graph.placeholder("x")
    shifted = graph.call_function(torch.ops.aten.add.Tensor, (x, 1))
    rows = graph.call_function(torch.ops.aten.as_strided.default, (shifted, [8, 8], [1, 8]))
    total = graph.call_function(torch.ops.aten.sum.dim_IntList, (rows, [0]))
    graph.output((total,))
    for node, shape in ((x, (8, 8)), (shifted, (8, 8)), (rows, (8, 8)), (total, (8,))):
        node.meta["val"] = torch.empty(shape, device="meta")
    given = torch.arange(64.0).reshape(8, 8)
    lowered = LoweredGraph(graph, {"buf0": total}, inputs={"x": given})
    of_kernel = (given + 1).sum(0)  # the kernel has the tensor in columns
    lowered.buffers = {"buf0": RecordedBuffer("buf0", "triton_per_0.run", of_kernel)}
    replay = replay_kernels([lowered]).replay
    assert (replay.kernel, replay.not_evaluated) == ("", 1), replay
    lowered.buffers["buf0"].value.copy_((given + 1).sum(1))  # as the tensor was laid out when it was traced
    replay = replay_kernels([lowered]).replay
    assert (replay.kernel, replay.judged) == ("", 1), replay


def summed_in_parts(total: float) -> LoweredGraph:
    """A sum in two kernels, of which the first writes parts that no operator has."""
    graph = torch.fx.Graph()
    x = graph.placeholder("x")
    whole = graph.call_function(torch.ops.aten.sum.default, (x,))
    graph.output((whole,))
    x.meta["val"], whole.meta["val"] = torch.empty(8, 8, device="meta"), torch.empty((), device="meta")
    lowered = LoweredGraph(graph, {"buf1": whole}, inputs={"x": torch.ones(8, 8)})
    parts = torch.tensor([24.0, total - 24])
    lowered.buffers = {
        "buf0": RecordedBuffer("buf0", "triton_red_0.run", parts, launch=1),
        "buf1": RecordedBuffer("buf1", "triton_per_1.run", parts.sum(), launch=2),
    }
    lowered.launches = {1: ("buf0",), 2: ("buf0", "buf1")}
    return lowered


def test_a_part_of_a_reduction_is_judged_by_its_result() -> None:
    replay = replay_kernels([summed_in_parts(64.0)]).replay
    assert (replay.kernel, replay.judged, replay.unmapped) == ("", 2, 0)
    replay = replay_kernels([summed_in_parts(60.0)]).replay
    assert (replay.kernel, replay.judged, replay.unmapped) == ("triton_per_1.run", 1, 1)
    unread = summed_in_parts(64.0)
    unread.launches[2] = ("buf1",)
    assert replay_kernels([unread]).replay.unjudged == {"of no operator": 1}


@pytest.mark.parametrize(("total", "judged"), [(64.0, 2), (60.0, 1)])
def test_a_part_that_its_own_kernel_alone_reads_is_judged_by_what_that_kernel_makes_of_it(
    total: float, judged: int
) -> None:
    """As the sum of squares of a norm, which a C++ kernel keeps in a buffer until it has the root of the mean."""
    graph = summed_in_parts(total)
    graph.buffers["buf1"] = dataclasses.replace(graph.buffers["buf1"], kernel="cpp_fused_sum_0", launch=1)
    graph.launches = {1: ("buf0", "buf1")}
    replay = replay_kernels([graph]).replay
    assert (replay.kernel, replay.judged) == ("" if judged == 2 else "cpp_fused_sum_0", judged)
    graph.launches[2] = ("buf0",)
    assert replay_kernels([graph]).replay.judged == 1, (
        "what else reads it has no result that shows it to be right"
    )


@pytest.mark.parametrize("factor", [1.0, 1.01])
def test_what_two_kernels_write_is_judged_after_the_second(factor: float) -> None:
    graph = torch.fx.Graph()
    x, rows = graph.placeholder("x"), graph.placeholder("rows")
    zeros = graph.call_function(torch.ops.aten.full.default, ([4, 8], 0.0))
    drawn = graph.call_function(torch.ops.aten.rand_like.default, (x,))
    table = graph.call_function(torch.ops.aten.index_put.default, (zeros, [rows], drawn, True))
    graph.output((table, drawn))
    for node, shape in ((x, (16, 8)), (zeros, (4, 8)), (drawn, (16, 8)), (table, (4, 8))):
        node.meta["val"] = torch.empty(shape, device="meta")
    given, index = torch.rand(16, 8, generator=torch.Generator().manual_seed(0)), torch.arange(16) % 4
    lowered = LoweredGraph(graph, {"buf0": table, "buf1": drawn}, inputs={"x": given, "rows": index})
    added = torch.zeros(4, 8).index_put((index,), given, accumulate=True)
    lowered.buffers = {
        "buf0": RecordedBuffer("buf0", "cpp_0", torch.zeros(4, 8), added * factor, launch=1, last_launch=3),
        "buf1": RecordedBuffer("buf1", "cpp_1", given, launch=2),
    }
    replay = replay_kernels([lowered]).replay
    unjudged = {} if factor == 1.0 else {"written again by a later kernel": 1}
    assert (replay.kernel, replay.unjudged) == ("", unjudged), replay


@pytest.mark.parametrize("kernel", ["torch.ops.own.doubled", "cpp_fused_doubled_0"])
def test_a_library_call_without_a_form_in_float64_is_compared_with_itself(kernel: str) -> None:
    def doubled(x: torch.Tensor) -> torch.Tensor:
        if x.dtype is torch.float64:
            raise ValueError("no float64")
        return x * 2

    graph = torch.fx.Graph()
    x = graph.placeholder("x")
    twice = graph.call_function(doubled, (x,))
    graph.output((twice,))
    for node in (x, twice):
        node.meta["val"] = torch.empty(16, device="meta")
    given = torch.linspace(1, 2, 16)
    lowered = LoweredGraph(graph, {"buf0": twice}, inputs={"x": given})
    lowered.buffers = {"buf0": RecordedBuffer("buf0", kernel, given * 2)}
    replay = replay_kernels([lowered]).replay
    is_library = kernel.startswith("torch.ops.")
    assert (replay.judged, replay.not_evaluated) == ((1, 0) if is_library else (0, 1))
    lowered.buffers["buf0"].value.mul_(1.1)
    replay = replay_kernels([lowered]).replay
    assert (replay.kernel, replay.judged, replay.not_evaluated) == ("", 0, 1), "float64 has not confirmed it"


_GENERATED = """
def call(args):
    x, = args
    args.clear()
    buf0 = empty()
    cpp_fused_0(x, buf0)
    buf1 = buf0; del buf0  # reuse
    buf2 = empty()
    cpp_fused_1(buf1, buf2)
    buf3 = reinterpret_tensor(buf1, (4,), (1,), 0); del buf1  # reuse
    cpp_fused_2(buf2, buf3)
    buf4 = x; del x  # reuse
    cpp_fused_3(buf4)
    return (buf2, buf3, buf4)
"""


def test_memory_that_is_used_again_is_a_value_once_a_kernel_writes_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "generated.py"
    path.write_text(_GENERATED)
    spec = importlib.util.spec_from_file_location("generated", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    vars(module).update(
        empty=lambda: torch.zeros(4),
        reinterpret_tensor=lambda tensor, *_: tensor,
        cpp_fused_0=lambda x, result: result.copy_(x + 1),
        cpp_fused_1=lambda read, result: result.copy_(read * 2),  # its first argument is read alone
        cpp_fused_2=lambda read, result: result.copy_(read - 1),
        cpp_fused_3=lambda read: read,  # a result that it forgets
    )
    monkeypatch.setattr(GraphLowering, "compile_to_module", lambda _lowering: module)
    recorder, lowering = (
        KernelRecorder(),
        types.SimpleNamespace(module=torch.fx.GraphModule({}, torch.fx.Graph())),
    )
    with recorder.active():
        GraphLowering.compile_to_module(lowering)  # type: ignore[arg-type]
        with recorder.recording():
            module.call([torch.arange(4.0)])
    (graph,) = recorder.graphs
    assert list(graph.buffers) == ["buf0", "buf2", "buf3", "buf4"]
    assert graph.buffers["buf3"].value.tolist() == [1, 3, 5, 7]
    assert list(graph.launches.values())[1] == ("buf1", "buf2")


@pytest.mark.parametrize(("factor", "kernel"), [(1.0, ""), (1.0005, "cpp_0")])
def test_a_sum_of_many_numbers_in_another_order_is_right(factor: float, kernel: str) -> None:
    graph = torch.fx.Graph()
    x = graph.placeholder("x")
    both = graph.call_function(torch.ops.aten.var_mean.correction, (x, [1]))
    mean = graph.call_function(operator.getitem, (both, 1))
    graph.output((mean,))
    x.meta["val"], mean.meta["val"] = torch.empty(4, 16384, device="meta"), torch.empty(4, device="meta")
    both.meta["val"] = mean.meta["val"], mean.meta["val"]
    given = torch.rand(4, 16384, generator=torch.Generator().manual_seed(0)) + 1
    one_by_one = sum(given.unbind(1), torch.zeros(4)) / 16384
    lowered = LoweredGraph(graph, {"buf0": mean}, inputs={"x": given})
    lowered.buffers = {"buf0": RecordedBuffer("buf0", "cpp_0", one_by_one * factor)}
    replay = replay_kernels([lowered]).replay
    assert (replay.kernel, replay.judged) == (kernel, 1), replay
