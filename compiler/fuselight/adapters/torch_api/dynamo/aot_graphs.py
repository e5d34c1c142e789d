# ruff: noqa: SLF001 - private names are this package's business
"""Differences between AOTAutograd with graphs that run in eager mode and AOTAutograd with Inductor.

Invariant: what AOTAutograd itself checks and raises stays.
Source: torch/_functorch/_aot_autograd/runtime_wrappers.py, torch/_inductor/compile_fx.py.
"""

from __future__ import annotations

import contextlib
import contextvars
import importlib
import sys
import traceback
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
import torch._compile
import torch._dynamo.eval_frame

from fuselight.adapters.torch_api import patching
from fuselight.adapters.torch_api.dynamo import errors, module_tensors
from fuselight.adapters.torch_api.patching import wrapped
from fuselight.shared.report.failure import safe_text


def builtin_operators_unchecked() -> contextlib.AbstractContextManager[None]:
    """Within the block, AOTAutograd's check of custom operators ignores the graph's own operators of torch.

    It refuses subclasses of tensors in each operator that runs in its first call. Inductor's kernels are not operators,
    so only custom operators, and operators that AOTAutograd itself calls, meet the check there.
    """
    wrappers: Any = importlib.import_module("torch._functorch._aot_autograd.runtime_wrappers")
    mode = getattr(wrappers, "_AnalyzeCustomOpInputOutputMode", None)
    if mode is None:
        return contextlib.nullcontext()

    def dispatch(real: Any, self: Any, func: Any, *call: Any) -> Any:
        if _is_builtin(func) and not _KEEPS_CHECKS.get() and not _is_called_by_aot_autograd():
            _types, args, *named = call
            options: dict[str, Any] = named[0] if named and named[0] else {}
            return func(*args, **options)
        return real(self, func, *call)

    return wrapped(mode, "__torch_dispatch__", dispatch)


def with_all_checks(compiled: Callable[..., Any]) -> Callable[..., Any]:
    """`compiled`, for which `builtin_operators_unchecked` changes nothing."""

    def run(*args: Any) -> Any:
        token = _KEEPS_CHECKS.set(True)
        try:
            return compiled(*args)
        finally:
            _KEEPS_CHECKS.reset(token)

    return run


_KEEPS_CHECKS = contextvars.ContextVar("keeps_checks", default=False)


def _is_called_by_aot_autograd() -> bool:
    caller = sys._getframe(1)
    while caller.f_back is not None and caller.f_code.co_filename in _PASSED_ON:
        caller = caller.f_back
    return errors.is_of_aot_autograd(caller.f_code.co_filename)


def _is_builtin(func: Any) -> bool:
    library: Any = importlib.import_module("torch._library.utils")
    return isinstance(func, torch._ops.OpOverload) and bool(library.is_builtin(func))


def enters_inference_mode(gm: torch.fx.GraphModule) -> bool:
    """Whether a graph of Dynamo enters inference mode: AOTAutograd then refuses views of its inputs (torch 2.13)."""
    parts = (part for part in gm.modules() if isinstance(part, torch.fx.GraphModule))
    return any(
        getattr(node.target, "__name__", "") == "_enter_inference_mode"
        for part in parts
        for node in part.graph.nodes
        if node.op == "call_function"
    )


def gradient_modes() -> tuple[bool, bool]:
    """Whether inference mode is on, and whether gradients are."""
    return torch.is_inference_mode_enabled(), torch.is_grad_enabled()


@contextlib.contextmanager
def in_gradient_modes(modes: tuple[bool, bool]) -> Iterator[None]:
    """Within the block, the modes are `modes`.

    A trace that fails leaves the modes on that its graph has entered: a second trace of the graph would then start in
    them, and may pass.
    """
    if gradient_modes() == modes:  # entered again, inference mode changes more than itself
        yield
        return
    is_inference, has_gradients = modes
    with torch.inference_mode(is_inference), torch.set_grad_enabled(has_gradients):
        yield


def refusal_of_inductor(gm: torch.fx.GraphModule, inputs: Sequence[Any]) -> Exception | None:
    """What AOTAutograd raises for a graph with all that Inductor asks of it; no code is generated."""
    compile_fx: Any = importlib.import_module("torch._inductor.compile_fx")
    functorch: Any = importlib.import_module("functorch.compile")

    def keep(graph: torch.fx.GraphModule, _inputs: Any, **_asked: Any) -> Any:
        return functorch.make_boxed_func(graph.forward)

    try:
        compile_fx.compile_fx(module_tensors.copied(gm), list(inputs), inner_compile=keep)
    except Exception as error:  # noqa: BLE001 - any refusal is the answer
        return error
    return None


def is_in_compiled_code(error: BaseException) -> bool:
    """Whether compiled code would raise this too: AOTAutograd raised it, or a custom operator that Inductor calls."""
    if is_raised_by_aot_autograd(error):
        return True
    frames = [frame for frame, _ in traceback.walk_tb(error.__traceback__)]
    operators = [frame.f_locals.get("self") for frame in frames if frame.f_code.co_filename == _OPERATORS]
    called = [operator for operator in operators if isinstance(operator, torch._ops.OpOverload)]
    return bool(called) and not _is_builtin(called[0])


def is_refused_by_check(error: BaseException) -> bool:
    """Whether a mode of AOTAutograd refused an operator: torch raises that, and names the mode."""
    return isinstance(error, TypeError) and "mode object <torch._functorch._aot_autograd." in safe_text(error)


def is_raised_by_aot_autograd(error: BaseException) -> bool:
    """Whether AOTAutograd itself raised it, which the same graph in eager mode then does not.

    Or a mode of it refused an operator.
    """
    if is_refused_by_check(error):
        return True
    files = [frame.f_code.co_filename for frame, _ in traceback.walk_tb(error.__traceback__)]
    last = next((path for path in reversed(files) if not errors.is_check(path)), None)
    return last is not None and errors.is_of_aot_autograd(last)


def has_custom_operators(gm: torch.fx.GraphModule) -> bool:
    """Whether a graph of Dynamo calls code that is not torch's, of which a second run may have effects of its own."""
    parts = (part for part in gm.modules() if isinstance(part, torch.fx.GraphModule))
    return any(_is_custom(node) for part in parts for node in part.graph.nodes if node.op == "call_function")


def _is_custom(node: torch.fx.Node) -> bool:
    target: Any = node.target
    if isinstance(target, torch._ops.OpOverloadPacket):
        target = getattr(target, target.overloads()[0])  # type: ignore[no-untyped-call]
    if isinstance(target, torch._ops.OpOverload):
        return not _is_builtin(target)
    # A function that allow_in_graph put there; those of C have no module.
    module = getattr(target, "__module__", None) or "torch"
    return module.partition(".")[0] not in {"torch", "_operator", "math", "builtins"}


def versions(values: Sequence[Any]) -> tuple[int, ...] | None:
    """Numbers that differ once one of the tensors among `values` was changed in place; None if a tensor has none."""
    tensors = [value for value in values if isinstance(value, torch.Tensor)]
    if any(tensor.is_inference() for tensor in tensors):
        return None
    return tuple(tensor._version for tensor in tensors)


_OPERATORS = torch._ops.__file__
_PASSED_ON = frozenset(
    {__file__, patching.__file__, _OPERATORS, torch._compile.__file__, torch._dynamo.eval_frame.__file__}
)
"""Files whose frames are between the call of an operator and the mode that sees it."""


Runner = Callable[..., Any]


def replaced_runners(
    replace: Callable[[torch.fx.GraphModule, Runner], Runner],
) -> contextlib.AbstractContextManager[None]:
    """Within the block, the graphs that the backends `aot_eager...` run are called as `replace(graph, runner)` says.

    A runner takes one list of arguments, and empties it.
    """
    backends: Any = importlib.import_module("torch._dynamo.backends.debugging")
    if not hasattr(backends, "boxed_nop"):
        return contextlib.nullcontext()

    def compile_graph(real: Any, graph: torch.fx.GraphModule, *given: Any, **named: Any) -> Any:
        runner = real(graph, *given, **named)
        replaced = replace(graph, runner)
        replaced._boxed_call = True  # type: ignore[attr-defined]
        return replaced

    return wrapped(backends, "boxed_nop", compile_graph)
