# ruff: noqa: E501 - the lists are tables
"""The contract with torch's compiler: each private name that code generation uses exists and behaves as expected.

A failure here names what a new torch changed, before kernels go missing or turn wrong.
"""

from __future__ import annotations

import ctypes
import importlib
import importlib.util
import inspect
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
import torch._dispatch.python as python_dispatch
from torch.fx.experimental import proxy_tensor

from fuselight.adapters.torch_api.inductor.toolchain import matching_triton
from fuselight.adapters.virtual_gpu.cuda_operators import CUDA_WAY, cuda_operators
from fuselight.adapters.virtual_gpu.retarget import CALLERS, numbers_later
from fuselight.adapters.virtual_gpu.triton_stand_in import triton_standing_in
from fuselight.shared import devices

pytestmark = pytest.mark.torch

SIGNATURES = (
    ("torch._inductor.compile_fx", "_recursive_joint_graph_passes", ("gm",)),
    ("torch._inductor.compile_fx", "compile_fx_inner", ()),  # a decorator hides `gm, example_inputs`
    ("torch._inductor.compile_fx", "min_cut_rematerialization_partition", ("joint_module", "_joint_inputs")),
    ("torch._inductor.fx_passes.joint_graph", "constant_fold_uniform_value", ("gm",)),
    ("torch._inductor.decomposition", "select_decomp_table", ()),
    ("torch._inductor.graph", "GraphLowering.compile_to_module", ("self",)),
    ("torch._inductor.graph", "GraphLowering.codegen", ("self",)),
    ("torch._inductor.debug", "set_kernel_post_grad_provenance_tracing", ("node_schedule", "kernel_name")),
    ("torch._inductor.codegen.triton", "set_kernel_post_grad_provenance_tracing", ("node_schedule", "kernel_name")),
    ("torch._inductor.codegen.cpp", "set_kernel_post_grad_provenance_tracing", ("node_schedule", "kernel_name")),
    ("torch._inductor.ir", "ExternKernel.codegen_comment", ("self",)),
    ("torch._inductor.ir", "ExternKernel.try_get_kernel_name", ("self",)),
    ("torch._inductor.scheduler", "WhyNoFuse.__init__", ("self", "node1", "node2")),
    ("torch._inductor.scheduler", "WhyNoFuse.__call__", ("self", "reason")),
    ("torch._inductor.scheduler", "Scheduler.fuse_nodes", ("self", "nodes")),
    ("torch._inductor.scheduler", "Scheduler.should_partition", ("self", "node")),
    ("torch._inductor", "list_mode_options", ("mode",)),
    ("torch._inductor.select_algorithm", "AlgorithmSelectorCache.__call__", ("self", "name", "choices", "input_nodes", "layout")),
    ("torch._inductor.select_algorithm", "ExternKernelCaller.output_node", ("self",)),
    ("torch._inductor.fx_passes.pad_mm", "get_padded_length", ("x", "alignment_size")),
    ("torch._inductor.fx_passes.pad_mm", "get_alignment_size", ("x",)),
    ("torch._inductor.fx_passes.pad_mm", "is_mm_compute_bound", ("M", "K", "N", "dtype")),
    ("torch._inductor.utils", "get_device_tflops", ("dtype",)),
    ("torch._inductor.utils", "get_gpu_dram_gbps", ()),
    ("torch._inductor.dependencies", "MemoryDep.normalize", ("self",)),
    ("torch._inductor.loop_body", "LoopBody.has_op", ("self", "name")),
    ("torch._dynamo.utils", "preserve_rng_state", ()),
    ("torch._dynamo.device_interface", "register_interface_for_device", ("device",)),
    ("torch._prims_common", "suggest_memory_format", ("x",)),
    ("torch.fx.experimental.proxy_tensor", "make_fx", ("f", "decomposition_table")),
    ("torch.fx.experimental.proxy_tensor", "get_proxy_mode", ()),
    ("torch.fx.experimental.proxy_tensor", "disable_proxy_modes_tracing", ()),
    ("torch.fx.experimental.symbolic_shapes", "ShapeEnv.ignore_fresh_unbacked_symbols", ("self",)),
    ("torch.fx.passes._tensorify_python_scalars", "tensorify_python_scalars", ("gm", "shape_env", "fake_mode")),
    ("torch.utils._sympy.symbol", "symbol_is_type", ("sym", "prefix")),
    ("torch.fx.experimental.proxy_tensor", "track_tensor_tree", ("inner_res", "proxy_res")),
    ("torch.fx.traceback", "preserve_node_meta", ()),
    ("torch._dispatch.python", "enable_python_dispatcher", ()),
    ("torch._guards", "detect_fake_mode", ("inputs",)),
    ("torch.library", "_scoped_library", ()),
    ("torch.amp.autocast_mode", "_enter_autocast", ()),
    ("torch.amp.autocast_mode", "_exit_autocast", ("mode",)),
    ("torch.fx", "Node._rename", ("self", "candidate")),
)  # fmt: skip
OPERATORS = (
    ("_scaled_dot_product_cudnn_attention", ("query", "key", "value", "attn_bias", "compute_log_sumexp", "dropout_p", "is_causal", "return_debug_mask", "scale")),
    ("_scaled_dot_product_flash_attention", ("query", "key", "value", "dropout_p", "is_causal", "return_debug_mask", "scale")),
    ("_scaled_dot_product_efficient_attention", ("query", "key", "value", "attn_bias", "compute_log_sumexp", "dropout_p", "is_causal", "scale")),
    ("_scaled_dot_product_attention_math", ("query", "key", "value", "attn_mask", "dropout_p", "is_causal", "dropout_mask", "scale", "enable_gqa")),
    ("_scaled_dot_product_flash_attention_for_cpu", ("query", "key", "value", "dropout_p", "is_causal", "attn_mask", "scale")),
    ("_thnn_fused_lstm_cell", ("input_gates", "hidden_gates", "cx", "input_bias", "hidden_bias")),
    ("_thnn_fused_gru_cell", ("input_gates", "hidden_gates", "hx", "input_bias", "hidden_bias")),
    ("_thnn_fused_gru_cell_backward", ("grad_hy", "workspace", "has_bias")),
)  # fmt: skip


def resolve_name(module: str, name: str) -> Any:
    value: Any = importlib.import_module(module)
    for part in name.split("."):
        value = getattr(value, part)
    return value


@pytest.mark.parametrize(
    ("module", "name", "parameters"), SIGNATURES, ids=[f"{m}.{n}" for m, n, _ in SIGNATURES]
)
def test_a_name_accepts_its_arguments(module: str, name: str, parameters: Sequence[str]) -> None:
    value = resolve_name(module, name)
    assert callable(value)
    if parameters:
        assert tuple(inspect.signature(value).parameters)[: len(parameters)] == tuple(parameters)


@pytest.mark.parametrize(("name", "arguments"), OPERATORS, ids=[name for name, _ in OPERATORS])
def test_an_operator_has_the_arguments_that_it_is_called_with(name: str, arguments: Sequence[str]) -> None:
    schema = getattr(torch.ops.aten, name).default._schema
    assert tuple(argument.name for argument in schema.arguments) == tuple(arguments)


def test_the_compiler_takes_decompositions_and_what_compiles_inside() -> None:
    parameters = inspect.signature(resolve_name("torch._inductor.compile_fx", "compile_fx")).parameters
    assert {"inner_compile", "decompositions"} <= set(parameters)


@pytest.mark.parametrize(
    ("module", "option"),
    [
        ("torch._functorch.config", "enable_autograd_cache"),
        ("torch._functorch.config", "force_non_lazy_backward_lowering"),
        ("torch._inductor.config", "fx_graph_cache"),
        ("torch._inductor.config", "compile_threads"),
        ("torch._inductor.config", "shape_padding"),
        ("torch._inductor.config", "force_shape_pad"),
        ("torch._inductor.config", "max_autotune_gemm"),
    ],
)
def test_an_option_exists(module: str, option: str) -> None:
    assert hasattr(importlib.import_module(module), option)


def test_the_cached_size_of_a_gpu_can_be_cleared() -> None:
    for name in ("is_big_gpu", "get_max_num_sms"):
        assert callable(resolve_name("torch._inductor.utils", name).cache_clear)
    assert callable(resolve_name("torch._inductor.runtime.hints", "DeviceProperties.create").cache_clear)


def test_padding_is_decided_where_it_is_replaced() -> None:
    pad_mm: Any = importlib.import_module("torch._inductor.fx_passes.pad_mm")
    (name,) = [text for text in ("_should_pad", "should_pad_bench") if hasattr(pad_mm, text)]
    assert f"{name}(match, mat1, mat2, op, input)" in inspect.getsource(pad_mm)


def source_of(module: str, name: str = "") -> str:
    value: Any = resolve_name(module, name) if name else importlib.import_module(module)
    return inspect.getsource(inspect.unwrap(value))


@pytest.mark.parametrize(
    ("where", "text"),
    [
        (("torch._inductor.compile_fx",), "_recursive_joint_graph_passes("),
        (("torch._inductor.fx_passes.joint_graph", "joint_graph_passes"), "constant_fold_uniform_value"),
        (("torch._subclasses.fake_impls",), "torch._C._conv_determine_backend_memory_format("),
        (("torch._functorch.partitioners",), '"tangents" in'),
        (("torch._functorch._aot_autograd.frontend_utils",), "_param_name_to_source"),
        (("torch._functorch._aot_autograd.frontend_utils",), "._dynamo_source"),
        (("torch._dynamo.output_graph",), "except exceptions_allowed_to_be_fallback"),
        (("torch._inductor.pattern_matcher", "joint_fwd_bwd"), "aot_function("),
        (("torch._inductor.fx_passes.pad_mm", "is_mm_compute_bound"), "utils.get_device_tflops("),
        (("torch._inductor.loop_body",), "op_counts"),
    ],
    ids=lambda value: value if isinstance(value, str) else value[-1],
)
def test_torch_looks_a_name_up_where_it_is_replaced(where: tuple[str, ...], text: str) -> None:
    assert text in source_of(*where)


def test_the_pass_over_numbers_is_looked_up_where_it_is_replaced() -> None:
    with numbers_later():
        waiting = {name for name in CALLERS if _has_replaced_pass(name)}
    assert len(waiting) == 1
    assert not any(map(_has_replaced_pass, CALLERS))
    (caller,) = waiting
    assert "tensorify_python_scalars(" in source_of(caller)


def _has_replaced_pass(name: str) -> bool:
    if importlib.util.find_spec(name) is None:
        return False
    held = getattr(importlib.import_module(name), "tensorify_python_scalars", None)
    real = resolve_name("torch.fx.passes._tensorify_python_scalars", "tensorify_python_scalars")
    return held is not None and held is not real


def test_a_decomposition_that_declines_leaves_its_operator_in_the_graph() -> None:
    asked: list[tuple[int, ...]] = []

    def declines(value: torch.Tensor) -> Any:
        asked.append(tuple(value.shape))
        return NotImplemented

    gm = proxy_tensor.make_fx(lambda x: x.sin(), decomposition_table={torch.ops.aten.sin.default: declines})(
        torch.randn(2)
    )
    assert asked == [(2,)]
    assert len(gm.graph.find_nodes(op="call_function", target=torch.ops.aten.sin.default)) == 1


def test_a_captured_graph_says_where_its_inputs_come_from() -> None:
    seen: list[torch.fx.GraphModule] = []

    def backend(gm: torch.fx.GraphModule, _inputs: Sequence[Any]) -> Callable[..., Any]:
        seen.append(gm)
        forward: Callable[..., Any] = gm.forward
        return forward

    torch.compiler.reset()  # another test's sizes of the same forward would make this call's dynamic
    torch.compile(torch.nn.Linear(4, 4), backend=backend)(torch.randn(2, 4))
    (gm,) = seen
    placeholders = gm.graph.find_nodes(op="placeholder")
    assert hasattr(gm, "_param_name_to_source")
    assert all(hasattr(node, "_dynamo_source") for node in placeholders)
    static = [node.meta["tensor_dict"].get("_dynamo_static_input_type") is not None for node in placeholders]
    assert static == [True, True, False]


def test_a_composite_operator_can_be_decomposed_differently() -> None:
    attention: Any = torch.ops.aten.scaled_dot_product_attention.default
    key = torch._C.DispatchKey.CompositeImplicitAutograd
    assert torch._C._dispatch_has_kernel_for_dispatch_key(attention.name(), key)
    assert isinstance(attention.py_kernels, dict)
    assert hasattr(attention._dispatch_cache, "clear")
    assert callable(attention.py_impl)


def test_dynamo_breaks_at_errors_that_depend_on_data() -> None:
    names = {
        error.__name__ for error in resolve_name("torch._dynamo.exc", "exceptions_allowed_to_be_fallback")
    }
    assert "DataDependentOutputException" in names


@pytest.mark.filterwarnings("ignore:CUDA is not available")
def test_cells_and_autocast_are_in_a_captured_graph_by_the_functions_that_are_replaced() -> None:
    targets: list[Any] = []

    def backend(gm: torch.fx.GraphModule, _inputs: Sequence[Any]) -> Callable[..., Any]:
        targets.extend(node.target for node in gm.graph.nodes if node.op == "call_function")
        forward: Callable[..., Any] = gm.forward
        return forward

    class Cells(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.lstm, self.gru = torch.nn.LSTMCell(4, 4), torch.nn.GRUCell(4, 4)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            with torch.autocast("cuda", torch.bfloat16):
                state: torch.Tensor = self.gru(self.lstm(x)[0])
                return state

    torch.compile(Cells(), backend=backend)(torch.randn(2, 4))
    wanted = {
        torch.lstm_cell,
        torch.gru_cell,
        torch.amp.autocast_mode._enter_autocast,
        torch.amp.autocast_mode._exit_autocast,
    }
    assert wanted <= set(targets)


def test_nodes_of_a_trace_are_a_ring_and_can_be_renamed() -> None:
    gm = proxy_tensor.make_fx(lambda x: x.sin().cos())(torch.randn(2))
    nodes = list(gm.graph.nodes)
    root = gm.graph._root
    assert (root.next, root.prev) == (nodes[0], nodes[-1])
    nodes[0]._rename("tangents_1")
    assert nodes[0].name == "tangents_1"


def test_a_proxy_mode_exposes_its_tracer() -> None:
    modes: list[Any] = []

    def function(x: torch.Tensor) -> torch.Tensor:
        modes.append(proxy_tensor.get_proxy_mode())
        return x.sin()

    proxy_tensor.make_fx(function)(torch.randn(2))
    tracer = modes[0].tracer
    assert callable(tracer.unwrap_proxy)
    assert callable(tracer.create_proxy)
    assert isinstance(tracer.graph, torch.fx.Graph)


def test_pieces_of_c_are_there() -> None:
    assert callable(torch._C._conv_determine_backend_memory_format)
    assert callable(torch._C._DisableAutocast)
    assert torch._C._dispatch_has_kernel_for_dispatch_key("aten::sin", "CPU")
    assert not torch._C._dispatch_has_kernel_for_dispatch_key("aten::_thnn_fused_gru_cell", "CPU")


def test_the_table_of_device_guards_is_exported() -> None:
    library = Path(torch.__file__).parent / "lib" / "libc10.so"
    if not library.exists():
        pytest.skip("no libc10.so on this platform")
    slots = (ctypes.c_void_p * 2).in_dll(
        ctypes.CDLL(str(library)), "_ZN3c104impl26device_guard_impl_registryE"
    )
    assert slots[0]


@pytest.mark.skipif(importlib.util.find_spec("triton") is None, reason="this environment has no Triton")
def test_triton_lets_its_driver_be_set() -> None:
    runtime: Any = importlib.import_module("triton.runtime")
    compiler: Any = importlib.import_module("triton.backends.compiler")
    assert callable(runtime.driver.set_active)
    assert hasattr(runtime.driver, "_active")
    assert list(inspect.signature(compiler.GPUTarget).parameters) == ["backend", "arch", "warp_size"]


def test_device_interfaces_are_a_dictionary_by_name() -> None:
    module: Any = importlib.import_module("torch._dynamo.device_interface")
    module.get_interface_for_device("cpu")
    assert "cpu" in module.device_interfaces
    assert inspect.isclass(module.CudaInterface)


def test_a_stand_in_for_triton_restores_the_modules() -> None:
    def modules() -> dict[str, Any]:
        return {name: module for name, module in sys.modules.items() if name.partition(".")[0] == "triton"}

    before = modules()
    with triton_standing_in(devices.find("h100")):
        stand_in: Any = importlib.import_module("triton")
        assert stand_in.__version__ == matching_triton()
        assert importlib.import_module("triton.language").float32.primitive_bitwidth == 32
        with pytest.raises(ModuleNotFoundError):
            importlib.import_module("triton.testing")
    assert modules() == before


def test_every_operator_that_is_made_of_others_on_one_device_only_is_known() -> None:
    """The composite ATen operators for which only one of CPU and CUDA has its own kernel."""
    entries = {
        name: keys & {"CPU", "CUDA"}
        for name, keys in _composite_operators()
        if len(keys & {"CPU", "CUDA"}) == 1
    }
    assert entries == {"_fused_rms_norm": {"CUDA"}, "native_channel_shuffle": {"CPU"}}
    assert set(entries) == set(CUDA_WAY)


def _composite_operators() -> Iterator[tuple[str, set[str]]]:
    """The operators with a composite kernel, and the keys of their other kernels, from torch's table."""
    table = Path(torch.__file__).parents[1] / "torchgen/packaged/ATen/native/native_functions.yaml"
    for entry in re.split(r"^- func: ", table.read_text(encoding="utf-8"), flags=re.MULTILINE)[1:]:
        dispatch = re.search(r"^  dispatch:\n((?:    .*\n)+)", entry, re.MULTILINE)
        if dispatch is not None:
            lines = (line.partition(":")[0] for line in dispatch[1].splitlines())
            keys = {key.strip() for line in lines for key in line.split(",")}
            if "CompositeImplicitAutograd" in keys:
                yield entry.partition("(")[0], keys


def test_operators_take_the_way_of_cuda_while_they_are_asked_to() -> None:
    def operators() -> set[str]:
        def function(x: torch.Tensor, image: torch.Tensor) -> Any:
            half = x.half()
            return (
                torch.nn.functional.rms_norm(x, (4,)),
                torch.native_channel_shuffle(image, 2),
                half.softmax(-1, dtype=torch.float32),
            )

        with python_dispatch.enable_python_dispatcher():
            gm = proxy_tensor.make_fx(function, tracing_mode="fake")(
                torch.randn(2, 4), torch.randn(1, 4, 2, 2)
            )
        return {str(node.target) for node in gm.graph.nodes if node.op == "call_function"}

    before = operators()
    with cuda_operators():
        inside = operators()
    assert {"aten._fused_rms_norm.default", "aten.native_channel_shuffle.default"} & before == {
        "aten.native_channel_shuffle.default"
    }
    assert {"aten._fused_rms_norm.default", "aten.native_channel_shuffle.default"} & inside == {
        "aten._fused_rms_norm.default"
    }
    assert operators() == before
