# ruff: noqa: E501 - SIGNATURES is a table
"""The contract with torch: each private name that is used exists and accepts its arguments.

A failure here names what a new torch changed, before any feature breaks on it.
"""

from __future__ import annotations

import importlib
import inspect
import json
import logging
import os
import shutil
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import CodeType
from typing import Any

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode

from fuselight.adapters.torch_api import devices, settings
from fuselight.adapters.torch_api.dynamo import errors, frames, hooks, names, namespace_versions, targets
from fuselight.adapters.torch_api.inductor import toolchain
from fuselight.capture import dynamo

pytestmark = pytest.mark.torch

PLACES = (
    ("torch._dynamo.bytecode_transformation", "linetable_311_writer", ("first_lineno",)),
    ("torch._dynamo.symbolic_convert", "InstructionTranslatorBase.frame_summary", ("self",)),
    ("torch._guards", "TracingContext._populate_loc_in_frame_summary", ("self",)),
)
"""Code has positions from Python 3.11 on."""

SIGNATURES = (
    *(PLACES if sys.version_info >= (3, 11) else ()),
    ("torch._dynamo.convert_frame", "_compile", ("code", "globals", "locals")),
    ("torch._dynamo.convert_frame", "exceeds_recompile_limit", ("cache_size", "compile_id")),
    ("torch._dynamo.convert_frame", "format_error_msg", ("exc", "code")),
    ("torch._dynamo.convert_frame", "has_tensor_in_frame", ()),  # a decorator hides `frame`
    ("torch._dynamo.exc", "RestartAnalysis.__init__", ("self", "args", "restart_reason")),
    ("torch._dynamo.guards", "CheckFunctionManager.__init__", ("self", "f_code", "output_graph")),
    ("torch._dynamo.output_graph", "OutputGraph.call_user_compiler", ("self", "gm")),
    ("torch._dynamo.symbolic_convert", "InstructionTranslatorBase.log_graph_break", ("self", "code_options", "reason", "exc")),
    ("torch._dynamo.symbolic_convert", "InstructionTranslatorBase.starts_line", ("self", "lineno")),
    ("torch.fx.experimental.symbolic_shapes", "ShapeEnv._set_replacement", ("self", "a", "tgt", "msg")),
    ("torch.fx.experimental.symbolic_shapes", "ShapeEnv.create_symbol", ("self", "val", "source", "dynamic_dim", "constraint_dim")),
    ("torch.fx.experimental.symbolic_shapes", "uninteresting_files", ()),
)  # fmt: skip

CONSTANTS = ("torch._dynamo.output_graph", "OutputGraph.register_attr_or_module", ("self", "target"))
"""Replaced by `installed_globals.recorded_constants`, not by `hooks.listen`."""


@pytest.mark.parametrize(
    ("module", "name", "parameters"),
    [*SIGNATURES, CONSTANTS],
    ids=[name for _, name, _ in (*SIGNATURES, CONSTANTS)],
)
def test_a_replaced_name_takes_the_arguments_that_the_wrapper_reads(
    module: str, name: str, parameters: Sequence[str]
) -> None:
    value: object = importlib.import_module(module)
    for part in name.split("."):
        value = getattr(value, part)
    assert callable(value)
    assert tuple(inspect.signature(value).parameters)[: len(parameters)] == tuple(parameters)


def test_the_recompile_hook_is_where_convert_frame_looks_it_up() -> None:
    module = importlib.import_module("torch._dynamo.convert_frame")
    parameters = list(inspect.signature(module.get_and_maybe_log_recompilation_reasons).parameters)
    assert parameters[1:] == ["frame", "backend", "skip_logging"]


class Silent:
    """A listener that records unavailable names and broken observers."""

    def __init__(self) -> None:
        self.events: list[str] = []

    def broke(self, stage: str, error: Exception) -> None:
        self.events.append(f"{stage}: {error!r}")

    def unavailable(self, feature: str, why: str) -> None:
        self.events.append(f"{feature}: {why}")

    def compile_started(self, code: CodeType, f_locals: Mapping[str, object], compile_id: str) -> None:
        raise RuntimeError(f"observer of {code.co_name} {len(f_locals)} {compile_id}")

    def __getattr__(self, name: str) -> object:
        return lambda *_args, **_kwargs: None


def _hooked() -> list[object]:
    out: list[object] = []
    for module, name, _ in SIGNATURES:
        owner: object = importlib.import_module(module)
        for part in name.split("."):
            owner = inspect.getattr_static(owner, part)
        out.append(owner)
    return out


def test_everything_is_restored_and_a_raising_observer_changes_nothing() -> None:
    before = _hooked()
    listener = Silent()
    torch._dynamo.reset()
    with hooks.listen(listener, lines=True):  # type: ignore[arg-type]  # the rest is `__getattr__`
        during = _hooked()
        result = torch.compile(lambda x: x + 1, backend="eager")(torch.ones(2))
    assert result.tolist() == [2, 2]
    assert all(value is not two for value, two in zip(before, during, strict=True))
    assert all(value is two for value, two in zip(before, _hooked(), strict=True))
    assert [event.partition(" of ")[0] for event in listener.events] == ["compile: RuntimeError('observer"]


def test_it_is_put_back_when_the_block_raises() -> None:
    before = _hooked()
    with pytest.raises(KeyError), hooks.listen(Silent()):  # type: ignore[arg-type]  # as above
        raise KeyError
    assert all(value is two for value, two in zip(before, _hooked(), strict=True))


def test_a_name_missing_in_torch_disables_one_feature(monkeypatch: pytest.MonkeyPatch) -> None:
    shape_env = importlib.import_module("torch.fx.experimental.symbolic_shapes").ShapeEnv
    monkeypatch.delattr(shape_env, "_set_replacement")
    listener = Silent()
    with hooks.listen(listener):  # type: ignore[arg-type]  # as above
        pass
    assert listener.events == [f"specializations: torch {torch.__version__} has no ShapeEnv._set_replacement"]


def test_a_capture_does_not_profile_guards(monkeypatch: pytest.MonkeyPatch) -> None:
    module = importlib.import_module("torch._dynamo.guards")
    profiled: list[object] = []

    def profile(*args: object) -> float:
        profiled.append(args)
        return 1.0

    monkeypatch.setattr(module, "profile_guard_manager", profile)
    torch._dynamo.reset()
    with dynamo.capture_only():
        torch.compile(lambda x: x + 1)(torch.ones(2))
    assert profiled == []
    torch.compile(lambda x: x + 2, backend="eager")(torch.ones(2))
    assert len(profiled) == 1, "it is restored, and torch still calls it by this name"
    monkeypatch.delattr(module, "profile_guard_manager")
    with settings.without_guard_profile():
        assert not hasattr(module, "profile_guard_manager")


def test_metrics_have_the_settings_where_a_trace_records_them(monkeypatch: pytest.MonkeyPatch) -> None:
    def settings_of(*handlers: logging.Handler) -> tuple[object, object]:
        logs: Any = importlib.import_module("torch._logging._internal")
        monkeypatch.setattr(logs.trace_log, "handlers", list(handlers))
        torch._dynamo.reset()
        with dynamo.capture_only():
            torch.compile(lambda x: x + 1)(torch.ones(2))
        metrics = torch._dynamo.utils.get_compilation_metrics()[-1]
        return metrics.dynamo_config, metrics.inductor_config

    assert settings_of() == (None, None)
    assert all(json.loads(str(text)) for text in settings_of(logging.NullHandler()))


def test_the_registry_of_graph_breaks_is_the_installed_torchs() -> None:
    ids = errors.gb_ids()
    assert ids["Failed to trace builtin operator"] == "GB0059"
    registry = Path(torch.__file__).parent / "_dynamo" / "graph_break_registry.json"
    read = json.loads(registry.read_text(encoding="utf-8"))
    assert ids == {entry["Gb_type"]: gb_id for gb_id, entries in read.items() for entry in entries}


def test_a_backend_can_know_whether_the_program_filters_guards() -> None:
    seen: list[bool | None] = []

    def backend(gm: torch.fx.GraphModule, _: Sequence[torch.Tensor], **_options: object) -> object:
        seen.append(frames.has_guard_filter())
        return gm.forward

    skip: Any = {"guard_filter_fn": torch.compiler.skip_guard_on_all_nn_modules_unsafe}
    for options in (skip, None):
        torch._dynamo.reset()
        torch.compile(torch.nn.Linear(2, 2), backend=backend, options=options)(torch.ones(2))
    assert seen == [True, False]
    assert frames.has_guard_filter() is None, "no compile is going on"


def test_a_skipped_frame_runs_as_python_and_is_traced_where_compiled_code_calls_it() -> None:
    seen: list[bool] = []

    def called(x: torch.Tensor) -> torch.Tensor:
        if not torch.compiler.is_dynamo_compiling():
            seen.append(True)
            return x + 1
        return x + 2

    def calling(x: torch.Tensor) -> torch.Tensor:
        return called(x)

    assert targets.skip_frames(called.__code__)
    ones = torch.ones(2)
    assert torch.compile(called, backend="eager")(ones).tolist() == [2, 2]
    assert torch.compile(calling, backend="eager")(ones).tolist() == [3, 3]
    assert seen == [True]


def test_a_disabled_target_is_recognized() -> None:
    def plain(x: object) -> object:
        return x

    disabled = torch.compiler.disable(plain, reason="slow")  # type: ignore[no-untyped-call]
    assert targets.disabled_reason(plain) is None
    assert targets.disabled_reason(disabled) == "slow"
    assert targets.code_of(disabled) is plain.__code__


@pytest.mark.parametrize(
    ("visible", "count"),
    [
        (None, 2),
        ("", 0),
        ("-1", 0),
        ("1", 1),
        ("0,1", 2),
        ("1,5,0", 1),
        ("GPU-1a,GPU-2b", 2),
        ("MIG-1a,MIG-2b", 1),
    ],
)
def test_gpus_are_counted_by_their_device_files_and_the_variable(
    visible: str | None, count: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.version, "cuda", "13.0")
    if visible is None:
        monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    else:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    assert devices.count_devices(["nvidia0", "nvidia1", "nvidiactl", "nvidia-uvm", "null"]) == count
    assert devices.count_devices(["nvidiactl", "null"]) == 0


def test_a_torch_without_cuda_has_no_gpus_whatever_files_there_are(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.version, "cuda", None)
    assert devices.count_devices(["nvidia0"]) == 0


def test_the_driver_is_asked_again_after_it_was_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    def wake() -> int:
        raise AssertionError("a process that others are forked from has asked the CUDA runtime")

    monkeypatch.delenv(
        "PYTORCH_NVML_BASED_CUDA_CHECK", raising=False
    )  # as a fork has it, of which others are forked
    monkeypatch.setattr(torch._C, "_cuda_getDeviceCount", wake, raising=False)
    monkeypatch.setattr(torch.version, "cuda", "13.0")
    monkeypatch.setattr(torch.cuda, "_initialized", False)
    monkeypatch.setattr(torch.cuda, "_cached_device_count", None)
    monkeypatch.setattr(torch.cuda, "_is_compiled", lambda: True)
    monkeypatch.setattr(torch.cuda, "_device_count_nvml", lambda: 3)
    monkeypatch.setattr(os, "listdir", lambda _folder: ["nvidia0", "null"])
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    is_available, device_count = torch.cuda.is_available, torch.cuda.device_count
    assert device_count() == 3
    try:
        devices.leave_driver_alone()
        assert (is_available(), device_count()) == (True, 1)
        with devices.unseen():
            assert (is_available(), device_count()) == (False, 0)
        assert device_count() == 1
    finally:
        devices.use_driver()
    assert device_count() == 3
    assert is_available is torch.cuda.is_available


def test_without_a_gpu_fake_tensors_add_no_device_for_autograd(monkeypatch: pytest.MonkeyPatch) -> None:
    """In a build for CUDA, torch refuses backward in a fork of a process whose backward started that device's thread."""
    added: list[bool] = []
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(torch._C, "_ensureCUDADeviceGuardSet", lambda: added.append(True))
    with FakeTensorMode():
        assert added == [True]
    devices.start_no_autograd_thread()
    with FakeTensorMode():
        assert added == [True]


def test_inductors_compiler_starts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each name that the doctor uses exists: a compiler that starts, and the requested folder."""
    compiler = toolchain.cpp_compiler()
    assert compiler is not None
    assert shutil.which(compiler) is not None
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path / "cache"))
    assert toolchain.cache_folder() == str(tmp_path / "cache")
    assert toolchain.driver_version() is None or torch.version.cuda is not None


def test_the_assembler_of_the_compile_workers(monkeypatch: pytest.MonkeyPatch) -> None:
    """The name exists; the query leaves no variable, and a user's variable applies to all."""
    tasks = importlib.import_module("torch._inductor.runtime.compile_tasks")
    assert callable(tasks._set_triton_ptxas_path)
    monkeypatch.delenv("TRITON_PTXAS_PATH", raising=False)
    monkeypatch.setattr(
        tasks, "_set_triton_ptxas_path", lambda: os.environ.update(TRITON_PTXAS_PATH="/of/torch/ptxas")
    )
    assert toolchain.workers_assembler() == "/of/torch/ptxas"
    assert "TRITON_PTXAS_PATH" not in os.environ
    monkeypatch.setenv("TRITON_PTXAS_PATH", "/of/mine/ptxas")
    assert toolchain.workers_assembler() is None


def test_the_version_of_a_namespace_differs_after_each_change() -> None:
    namespace: dict[str, Any] = {"a": 1}
    read = namespace_versions.version_reader([namespace, vars(dict)])
    versions = []
    for change in (
        lambda: None,
        lambda: namespace.update(a=2),
        lambda: namespace.update(b=3),
        lambda: namespace.pop("b"),
        lambda: namespace.update(a=1),
    ):
        change()
        version, other = read()
        assert isinstance(version, int)
        assert other is None, "the namespace of a class is no dict"
        assert namespace.get("a"), "a look changes nothing"
        assert read() == [version, None]
        versions.append(version)
    assert len(set(versions)) == len(versions)


def test_an_operator_of_a_library_has_the_name_that_a_user_calls(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.ops.aten.relu, "__qualname__", "pybind11_detail_function_record_v1.relu")
    assert names.target_name(torch.ops.aten.relu) == "torch.ops.aten.relu"


@pytest.mark.parametrize("given", ["prim_redistribute", "prim redistribute"])
def test_a_method_of_a_dtensor_has_its_own_name_in_graphs_of_older_releases(given: str) -> None:
    def function_with_prim_types(tensor: object) -> object:
        return tensor

    function_with_prim_types.__name__ = given
    assert names.target_name(function_with_prim_types) == "redistribute"
