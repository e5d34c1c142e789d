"""The contract with torch for operators, partitions and CUDA graphs: names exist and behave as expected.

A failure here names what a new torch changed, before any feature breaks on it.
"""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Sequence
from typing import Any

import pytest
import torch

pytestmark = pytest.mark.torch
aten: Any = torch.ops.aten

SIGNATURES = (
    ("torch._functorch.partitioners", "default_partition", ("joint_module", "_joint_inputs")),
    ("torch._functorch._aot_autograd.utils", "make_boxed_func", ("f",)),
    ("torch._inductor.compile_fx", "min_cut_rematerialization_partition", ("joint_module", "_joint_inputs")),
    ("torch._inductor.output_code", "cudagraph_post_compile", ("example_inputs", "compiled_graph", "cudagraphs")),
    (
        "torch._inductor.output_code",
        "cudagraph_partition_post_compile",
        ("example_inputs", "compiled_graph", "cudagraphs"),
    ),
    ("torch._inductor.output_code", "log_cudagraph_skip_and_bump_counter", ("msg",)),
    ("torch._inductor.cudagraph_utils", "get_mutation_stack_trace", ("placeholders", "mutation_indices")),
    ("torch._inductor.fx_utils", "count_flops_fx", ("node",)),
    ("torch._inductor.fx_utils", "countable_fx", ("node",)),
    ("torch._inductor.ir", "Operation.get_operation_name", ("self",)),
    ("torch._inductor.scheduler", "BaseSchedulerNode.is_reduction", ("self",)),
    ("torch.fx.experimental.symbolic_shapes", "ShapeEnv.suppress_guards", ("self",)),
    ("torch.fx.experimental.symbolic_shapes", "ShapeEnv.ignore_fresh_unbacked_symbols", ("self",)),
)  # fmt: skip


@pytest.mark.parametrize(
    ("module", "name", "parameters"), SIGNATURES, ids=[name for _, name, _ in SIGNATURES]
)
def test_a_name_accepts_its_arguments(module: str, name: str, parameters: Sequence[str]) -> None:
    value: Any = importlib.import_module(module)
    for part in name.split("."):
        value = getattr(value, part)
    assert tuple(inspect.signature(value).parameters)[: len(parameters)] == tuple(parameters)


def test_every_table_is_a_mapping_that_get_reads() -> None:
    from fuselight.adapters.torch_api.dynamo import operator_sets  # noqa: PLC0415 - Inductor is not for the collection of tests

    for table in (operator_sets.core_table(), operator_sets.prims_table(), operator_sets.inductor_table()):
        assert table.get(aten.t.default) is not None
        assert table.get(aten.linalg_qr.default) is None
        assert len(table) > 500


def test_operators_belong_to_the_sets_that_torch_says() -> None:
    from fuselight.adapters.torch_api.dynamo import operator_sets  # noqa: PLC0415 - as above

    prims: Any = torch.ops.prims
    assert [operator_sets.is_core(value) for value in (aten.mm.default, aten.t.default)] == [True, False]
    assert [operator_sets.is_prim(value) for value in (prims.add.default, aten.add.Tensor)] == [True, False]
    assert not operator_sets.falls_back(aten.addmm.default)
    assert operator_sets.falls_back(aten.linalg_qr.default)
    attention = aten._scaled_dot_product_flash_attention.default
    assert operator_sets.falls_back(attention)
    assert operator_sets.has_lowering(attention)  # it is meant to be a library's
    known = ("aten.add", "aten.add.Tensor", "aten.addmn", "aten.add.Tensr", "nowhere.add")
    assert [operator_sets.is_known(name) for name in known] == [True, True, False, False, False]


def _owned() -> list[object]:
    output_code: Any = importlib.import_module("torch._inductor.output_code")
    compile_fx: Any = importlib.import_module("torch._inductor.compile_fx")
    utils: Any = importlib.import_module("torch._inductor.cudagraph_utils")
    return [
        output_code.cudagraph_post_compile,
        output_code.cudagraph_partition_post_compile,
        output_code.log_cudagraph_skip_and_bump_counter,
        compile_fx.min_cut_rematerialization_partition,
        getattr(utils, "check_caching_allocator_for_cudagraphs", None),
    ]


def test_watched_functions_are_restored_when_the_block_raises() -> None:
    from fuselight.adapters.virtual_gpu import cudagraphs, partitioner  # noqa: PLC0415 - as above

    def ignore(*_args: object) -> None: ...

    before = _owned()
    during: list[object] = []

    def enter_and_raise() -> None:
        with partitioner.watching_partition(ignore, ignore), cudagraphs.watching_cudagraphs(ignore, ignore):
            during.extend(_owned())
            raise KeyError

    with pytest.raises(KeyError):
        enter_and_raise()
    assert all(value is not two for value, two in zip(before[:4], during[:4], strict=True))
    assert all(value is two for value, two in zip(before, _owned(), strict=True))


def test_a_raising_observer_does_not_change_the_partition() -> None:
    from torch._functorch._aot_autograd.utils import make_boxed_func  # noqa: PLC0415 - as above
    from torch._inductor import compile_fx  # noqa: PLC0415

    from fuselight.adapters.virtual_gpu import partitioner  # noqa: PLC0415

    calls: list[str] = []

    def tell(joint: str, forward: torch.fx.GraphModule, backward: torch.fx.GraphModule, outputs: int) -> None:
        assert outputs == 1
        raise RuntimeError(f"{'tangents_1' in joint} {len(forward.graph.nodes) > 0} {backward is forward}")

    def run_by_aten(module: torch.fx.GraphModule, _inputs: Any, **_named: Any) -> Any:
        return make_boxed_func(module.forward)

    def backend(gm: torch.fx.GraphModule, inputs: Any) -> Any:
        return compile_fx.compile_fx(gm, inputs, inner_compile=run_by_aten)

    torch._dynamo.reset()
    x = torch.rand(4, requires_grad=True)
    with (
        torch._functorch.config.patch(enable_autograd_cache=False),
        partitioner.watching_partition(tell, lambda stage, error: calls.append(f"{stage}: {error}")),
    ):
        torch.compile(lambda x: x.sin().exp(), backend=backend)(x).sum().backward()
    assert calls == ["partition: True True False"]
    assert x.grad is not None
    torch.testing.assert_close(x.grad, x.detach().cos() * x.detach().sin().exp())


def test_a_size_is_known_by_its_hint_and_not_fixed() -> None:
    from fuselight.adapters.virtual_gpu import partitioner  # noqa: PLC0415 - as above

    shapes: Any = importlib.import_module("torch.fx.experimental.symbolic_shapes")
    source: Any = importlib.import_module("torch._dynamo.source").ConstantSource("x")
    env = shapes.ShapeEnv()
    fake: Any = importlib.import_module("torch._subclasses.fake_tensor").FakeTensorMode(shape_env=env)
    dynamic = shapes.StatelessSymbolicContext(dynamic_sizes=[shapes.DimDynamic.DYNAMIC] * 2)
    value = fake.from_tensor(torch.rand(6, 8), source=source, symbolic_context=dynamic)
    guards = len(env.guards)
    identity, size = partitioner.storage_of(value)
    assert size == 6 * 8 * 4
    assert partitioner.storage_of(value[1:])[0] == identity
    assert len(env.guards) == guards
    with fake:
        unknown = torch.empty(env.create_unbacked_symint())
    assert partitioner.storage_of(unknown)[1] is None


def test_torch_says_whether_float32_is_computed_in_tf32() -> None:
    backends: Any = torch.backends
    for settings in (backends.cudnn.conv, backends.cuda.matmul):
        assert settings.fp32_precision in {"none", "ieee", "tf32"}


def test_the_scheduler_knows_its_nodes_by_name() -> None:
    source = inspect.getsource(importlib.import_module("torch._inductor.scheduler").Scheduler)
    assert "self.name_to_node" in source
