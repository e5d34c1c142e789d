"""Copy as torch.compile(...): the code runs, and says all of a result."""

from __future__ import annotations

import ast
from types import SimpleNamespace
from typing import Any

import pytest

from fuselight.shared.report import Numerics, Preparation, TunedResult, Work
from fuselight.shared.tuned_code import (
    GUARD_OPTION,
    STATIC_LAUNCHER,
    compile_arguments,
    compile_code,
    preparation_code,
    replay_code,
    restartable,
)


def result(**changes: Any) -> TunedResult:
    given: dict[str, Any] = {
        "file": "m.py", "target": "Net", "work": Work.INFERENCE, "numerics": Numerics.EXACT, "device": "NVIDIA H100",
        "torch": "2.13.0", "configuration": "default+triton.cudagraphs=True", "gain": 1.34,
        "options": {"triton.cudagraphs": True},
    }  # fmt: skip
    return TunedResult(**{**given, **changes})


class _Call:
    """A function that notes how it was called, and returns its first argument."""

    def __init__(self) -> None:
        self.calls: list[tuple[tuple[Any, ...], dict[str, Any]]] = []

    def __call__(self, *args: Any, **named: Any) -> Any:
        self.calls.append((args, named))
        return args[0] if args else None


def run(code: str, **names: Any) -> _Call:
    """Run code with a torch that notes the calls of compile."""
    called = _Call()
    tree = ast.parse(code)
    tree.body = [statement for statement in tree.body if not isinstance(statement, ast.Import)]
    exec(compile(tree, "copied", "exec"), {"torch": SimpleNamespace(compile=called), **names})  # noqa: S102 - our own text
    return called


def test_the_code_calls_compile_with_the_arguments_of_the_result() -> None:
    tuned_result = result(dynamic=True)
    called = run(compile_code(tuned_result), model="the model")
    assert called.calls == [(("the model",), {"options": {"triton.cudagraphs": True}, "dynamic": True})]
    assert compile_arguments(tuned_result) == {"options": {"triton.cudagraphs": True}, "dynamic": True}
    assert compile_code(tuned_result).startswith(
        "# Fuselight: default+triton.cudagraphs=True, 1.34x over torch.compile's default on NVIDIA H100 with torch"
    )


def test_default_needs_no_arguments() -> None:
    assert "f = torch.compile(f)\n" in compile_code(result(options={}), variable="f")


def test_many_options_are_wrapped_and_are_the_same() -> None:
    options = {f"an_option_with_a_long_name_{number}": [number, "text"] for number in range(6)}
    code = compile_code(result(options=options))
    assert max(map(len, code.splitlines()[1:])) < 80
    assert run(code, model=1).calls == [((1,), {"options": options})]


def test_blocks_are_compiled_one_by_one() -> None:
    compiled = _Call()
    names = []

    def get_submodule(name: str) -> Any:
        names.append(name)
        return SimpleNamespace(compile=compiled)

    run(
        compile_code(result(blocks=("layers.0", "layers.1"))),
        model=SimpleNamespace(get_submodule=get_submodule),
    )
    assert names == ["layers.0", "layers.1"]
    assert compiled.calls == [((), {"options": {"triton.cudagraphs": True}})] * 2


@pytest.mark.parametrize(
    ("preparation", "message"),
    [
        (Preparation(channels_last=True), "model = model.to(memory_format=torch.channels_last)"),
        (Preparation(attention="flash"), "SDPBackend.FLASH_ATTENTION):\n    ...  # each call of model"),
        (Preparation(precision="tf32"), 'torch.set_float32_matmul_precision("high")'),
        (Preparation(precision="bf16"), 'with torch.autocast("cpu", dtype=torch.bfloat16):'),
    ],
)
def test_what_torch_compile_has_no_argument_for_is_said(preparation: Preparation, message: str) -> None:
    code = compile_code(result(preparation=preparation), device="cpu")
    ast.parse(code)
    assert message in code


def test_two_changes_around_a_call_are_nested() -> None:
    both = Preparation(precision="bf16", attention="math")
    assert len(preparation_code(both)) == 2
    code = compile_code(result(preparation=both))
    ast.parse(code)
    assert "\n        ...  # each call of model\n" in code


def test_what_is_no_statement_is_a_comment() -> None:
    code = compile_code(result(fixes=("Use torch.where",), kernels={"triton": {"k": 1}}, optimizer=True))
    assert "# The source must have this fix: Use torch.where\n" in code
    assert "backend='fuselight'" in code
    assert "optimizer.step = torch.compile(optimizer.step)\n" in code


def test_guards_on_modules_are_skipped_by_torchs_own_function() -> None:
    code = compile_code(result(fixed_modules=True, options={"max_autotune": True}))
    assert "torch._dynamo.reset()" in code
    call = ast.parse(code).body[-1].value  # type: ignore[attr-defined]
    (options,) = (keyword.value for keyword in call.keywords if keyword.arg == "options")
    assert ast.unparse(options) == (
        "{'max_autotune': True, 'guard_filter_fn': torch.compiler.skip_guard_on_all_nn_modules_unsafe}"
    )
    assert ast.unparse(options.values[-1]) in GUARD_OPTION
    assert "guard_filter_fn" not in compile_code(result())


def test_the_replay_passes_what_a_backend_cannot_set() -> None:
    assert replay_code(result()) == 'model = torch.compile(model, backend="fuselight")'
    code = replay_code(result(fixed_modules=True))
    ast.parse(code)
    assert GUARD_OPTION in code


def test_the_code_says_that_it_times_every_multiplication() -> None:
    code = compile_code(result(configuration="default+max_autotune_gemm=True+longest=8"))
    assert "# All multiplications are timed in each process" in code
    assert "All multiplications" not in compile_code(result(configuration="default+max_autotune_gemm=True"))


@pytest.mark.parametrize(
    "options",
    [{"triton.multi_kernel": 1}, {"triton.multi-kernel": 1}, {"multi_kernel_hints": [64, 256]}],
)
def test_several_kernels_are_launched_without_the_static_launcher(options: dict[str, object]) -> None:
    """With it, a process fails that finds the graph in torch's cache."""
    assert restartable(options) == {**options, STATIC_LAUNCHER: False}


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"triton.cudagraphs": True},
        {"triton.multi_kernel": 0},
        {"triton.multi_kernel": 2},
        {"multi_kernel_hints": []},
        {"triton.multi_kernel": 1, STATIC_LAUNCHER: True},
    ],
)
def test_other_options_are_left_alone(options: dict[str, object]) -> None:
    assert restartable(options) == options


@pytest.mark.parametrize(
    ("version", "is_changed"),
    [("2.14.1", True), ("2.11.0+cu130", True), ("2.8.0", False), ("", False), ("git", False)],
)
def test_code_of_an_older_search_can_be_started_twice(version: str, is_changed: bool) -> None:  # noqa: FBT001
    tuned_result = result(options={"triton.multi_kernel": 1}, torch=version)
    assert (STATIC_LAUNCHER in compile_arguments(tuned_result)["options"]) is is_changed
    assert (f"'{STATIC_LAUNCHER}': False" in compile_code(tuned_result)) is is_changed
