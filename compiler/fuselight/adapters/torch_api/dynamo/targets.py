# ruff: noqa: SLF001 - private names are this package's business
"""Inspects the functions and modules that `torch.compile` takes and returns.

Invariant: a target is only inspected, never called.
"""

from __future__ import annotations

import contextlib
import functools
import inspect
from collections.abc import Callable, Collection, Iterable, Iterator
from types import CodeType, FunctionType, MethodType
from typing import Any

import torch
import torch._dynamo
import torch._dynamo.eval_frame
import torch._dynamo.trace_rules

from fuselight.adapters.torch_api.patching import wrapped


class UnknownArgumentError(TypeError):
    """torch.compile of this torch lacks an argument. A TypeError, as torch's own: programs catch it to fall back."""

    next_step: str

    def __init__(self, name: str, known: Collection[str]) -> None:
        super().__init__(f"torch.compile has no argument `{name}` in torch {torch.__version__}")
        same = next((shape for shape in SHAPES if name in SHAPES and shape in known), None)
        self.next_step = (
            f"This torch names it `{same}`."
            if same is not None
            else "Remove the argument, or install a torch that has it."
        )


UnknownArgumentError.__name__ = TypeError.__name__  # which the program would have seen
SHAPES = ("dynamic_shapes", "shapes_spec")
"""One argument by its name from 2.14 on, and in 2.13."""


def disabled_reason(target: object) -> str | None:
    """Why calling `target` never reaches Dynamo (`torch.compiler.disable`), None if it does. Empty: no reason given."""
    for candidate in _callables_of(target):
        if getattr(candidate, "_torchdynamo_disable", False):
            return str(getattr(candidate, "_torchdynamo_disable_msg", None) or "")
    return None


def module_inside(module: torch.nn.Module) -> torch.nn.Module:
    """The module that torch.compile was given, for what it returned; else the module itself."""
    inside = vars(module).get("_modules", {}).get("_orig_mod")
    return inside if type(module).__name__ == "OptimizedModule" and inside is not None else module


def inside_wrapper(function: Any) -> Any:
    """What the user gave to torch.compile, inside of the frame that torch puts around code of its own."""
    code = getattr(function, "__code__", None)
    wraps = getattr(torch._dynamo, "external_utils", None)
    is_of_torch = code is not None and code.co_filename == getattr(wraps, "__file__", None)
    return getattr(function, "__wrapped__", function) if is_of_torch else function


def code_of(target: object) -> CodeType | None:
    """The code object of the user's own function inside its wrappers; None without one."""
    actual_code: CodeType | None = None
    for candidate in _callables_of(target):
        code = getattr(candidate, "__code__", None)
        if isinstance(code, CodeType) and not code.co_filename.startswith(str(torch.__path__[0])):
            actual_code = code
    return actual_code


def is_compiled(target: object) -> bool:
    """Whether calling `target` goes through torch.compile already."""
    if isinstance(target, torch._dynamo.eval_frame.OptimizedModule):
        return True
    if isinstance(target, torch.nn.Module):
        # A class of torch.jit has no `forward` to read.
        forward = getattr(type(target), "forward", None)
        return getattr(target, "_compiled_call_impl", None) is not None or is_compiled(forward)
    function = getattr(target, "__func__", target)
    return hasattr(function, "_torchdynamo_orig_callable") and not getattr(
        function, "_torchdynamo_disable", False
    )


def own_module_not_compiled(function: object, compiled: object) -> str | None:
    """The class of a module of torch's own for which `nn.Module.compile` had no effect; None for all else.

    torch starts no compile in code of its own. torch.compile puts a function of Dynamo's around such code, but before
    2.14 not around `_call_impl`, which `nn.Module.compile` passes. `compiled`: what torch.compile made of `function`.
    """
    module = getattr(function, "__self__", None)
    check = getattr(torch._dynamo.trace_rules, "check", None)
    if not isinstance(module, torch.nn.Module) or getattr(function, "__name__", "") != "_call_impl":
        return None
    if getattr(compiled, "_torchdynamo_orig_callable", function) != function:
        return None
    forward = getattr(type(module), "forward", None)
    is_own = isinstance(forward, FunctionType) and check is not None and bool(check(forward))
    return type(module).__name__ if is_own else None


def compiled_parts(module: torch.nn.Module, is_user_file: Callable[[str], bool]) -> tuple[str, ...]:
    """Name what of `module`, which itself is not compiled, goes through torch.compile: methods, attributes, submodules.

    A decorated method counts only where `is_user_file`: what a library's class compiles for itself says nothing
    about what the user wants compiled.
    """
    parts: list[str] = []
    for path, result in module.named_modules():
        if any(path.startswith(f"{above}.") for above in parts):
            continue
        if result is not module and is_compiled(result):
            parts.append(path)
            continue
        own = [name for name, value in vars(result).items() if any(map(_is_compiled_function, _items(value)))]
        own += [
            name
            for name, value in _class_attributes(type(result))
            if name not in vars(result)
            and _is_compiled_function(value)
            and (code := code_of(value)) is not None
            and is_user_file(code.co_filename)
        ]
        parts.extend(f"{path}.{name}" if path else name for name in own)
    return tuple(parts)


def compiled_callees(function: object, is_user_file: Callable[[str], bool]) -> tuple[str, ...]:
    """Name the globals that a plain function uses and that go through torch.compile: functions, modules.

    A function counts only where `is_user_file`, as in `compiled_parts`.
    """
    plain = getattr(function, "__func__", function)
    if not isinstance(plain, FunctionType):
        return ()
    callees = []
    for name in plain.__code__.co_names:
        value = plain.__globals__.get(name)
        is_module = isinstance(value, torch.nn.Module)
        if not (is_module or _is_compiled_function(value)) or not is_compiled(value):
            continue
        code = None if is_module else code_of(value)
        if is_module or (code is not None and is_user_file(code.co_filename)):
            callees.append(name)
    return tuple(dict.fromkeys(callees))


def _class_attributes(kind: type) -> Iterable[tuple[str, object]]:
    """What the bodies of a module's class and of its bases hold, each name once: as Python finds it."""
    seen: dict[str, object] = {}
    for base in kind.__mro__:
        if base is torch.nn.Module:
            break
        for name, value in vars(base).items():
            seen.setdefault(name, value)
    return seen.items()


def _items(value: object) -> Iterable[object]:
    if isinstance(value, dict):
        return tuple(value.values())
    return tuple(value) if isinstance(value, (list, tuple)) else (value,)


def _is_compiled_function(value: object) -> bool:
    kinds = (FunctionType, MethodType, staticmethod, classmethod)
    return isinstance(value, kinds) and is_compiled(value)


def _callables_of(target: object) -> Iterable[object]:
    seen: list[object] = []
    pending = [target]
    while pending:
        item = pending.pop(0)
        if item is None or any(item is other for other in seen):
            continue
        seen.append(item)
        if isinstance(item, torch.nn.Module):
            pending += [
                getattr(item, "_orig_mod", None),
                type(item).__call__ if type(item).__call__ is not torch.nn.Module.__call__ else None,
                item.forward,
            ]
        else:
            pending += [getattr(item, "_torchdynamo_orig_callable", None), getattr(item, "__func__", None)]
    return seen


_heard: list[Callable[[Any, Any], None]] = []
"""Called with what each torch.compile inside `replaced_compile` was given, and what it returned."""


@contextlib.contextmanager
def heard_compile(heard: Callable[[Any, Any], None]) -> Iterator[None]:
    """Inside, `heard(model, compiled)` is called after each torch.compile that `replaced_compile` replaces."""
    _heard.append(heard)
    try:
        yield
    finally:
        _heard.remove(heard)


def _told(model: Any, compiled: Any) -> Any:
    for heard in _heard:
        heard(model, compiled)
    return compiled


@contextlib.contextmanager
def replaced_compile(compile_: Callable[..., Any], optimize_: Callable[..., Any]) -> Iterator[None]:
    """Inside, `torch.compile(...)` is `compile_(real, ...)`, and `torch._dynamo.optimize` is `optimize_(real, wanted)`.

    `wanted` is the backend that `optimize` was given: a function, a name, or None. `nn.Module.compile` calls
    `torch.compile` by that name, and so is covered; so is `optimize` by `torch.compile`, which goes through it.
    Raises UnknownArgumentError in a call of `torch.compile` with an argument that this torch lacks.
    """
    parameters = inspect.signature(torch.compile).parameters
    takes_any = any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters.values())

    def compile_known(real: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        unknown = next((name for name in kwargs if name not in parameters), None)
        if unknown is not None and not takes_any:
            raise UnknownArgumentError(unknown, parameters)
        compiled = compile_(real, *args, **kwargs)
        model = args[0] if args else kwargs.get("model")
        if model is None:  # a decorator
            return lambda function: _told(function, compiled(function))
        return _told(model, compiled)

    def optimize(real: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        wanted = args[0] if args else kwargs.pop("backend", None)
        return optimize_(real, wanted, *args[1:], **kwargs)

    with wrapped(torch, "compile", compile_known), wrapped(torch._dynamo, "optimize", optimize):
        yield


@contextlib.contextmanager
def changed_compiled_calls(call: Callable[..., Any]) -> Iterator[None]:
    """Inside, a call of what torch.compile returns is `call(function, compiled, args, kwargs)`.

    `function` is what was compiled (of a module its bound `__call__`), `compiled` the compiled form. Code that is
    itself compiled calls the function as without this.
    """

    def optimize(real: Callable[..., Any], context: Any, fn: Any) -> Any:
        compiled = real(context, fn)
        if not isinstance(compiled, FunctionType):
            return compiled  # of a module: it compiles its `__call__` in the same way
        function = getattr(compiled, "_torchdynamo_orig_callable", fn)

        def changed(*args: Any, **kwargs: Any) -> Any:
            return call(function, compiled, args, kwargs)

        skip_frames(changed.__code__)
        functools.update_wrapper(changed, compiled)
        if hasattr(compiled, "_torchdynamo_wrapper_id"):
            vars(changed)["_torchdynamo_wrapper_id"] = id(changed)  # else torch takes it for another wrapper
        return changed

    with wrapped(torch._dynamo.eval_frame.OptimizeContext, "__call__", optimize):
        yield


def heard_precompile(heard: Callable[[], None]) -> contextlib.AbstractContextManager[None]:
    """Inside, `heard` is called before each capture by `torch.compiler.precompile`; before 2.14 there is none."""

    def call(real: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        heard()
        return real(*args, **kwargs)

    precompile = getattr(torch.compiler, "precompile", None)
    for owner, name in (
        (type(precompile), "__call__"),
        (precompile, "capture"),
    ):  # 2.14: an object, 2.15: a module
        if isinstance(getattr(owner, name, None), FunctionType):
            return wrapped(owner, name, call)
    return contextlib.nullcontext()


def backend_within(wanted: Any) -> Any:
    """The backend that `optimize` was given, without what torch.compile puts around it."""
    inner = getattr(wanted, "_torchdynamo_orig_backend", wanted)
    return getattr(inner, "compiler_fn", inner)


def backend_named(name: str) -> Callable[..., Any]:
    """The Dynamo backend of that name. Raises what torch raises for one that is not there."""
    backend: Callable[..., Any] = torch._dynamo.lookup_backend(name)
    return backend


def skip_frames(code: CodeType) -> bool:
    """Leave frames of `code` to Python; a caller that is compiled is still traced into it. False: this torch cannot."""
    skip = getattr(torch._dynamo.eval_frame, "skip_code", None)
    if skip is None:
        return False
    skip(code)
    return True


REPLACED_CALL_FILES = (__file__, torch._dynamo.eval_frame.__file__)
"""Files of the frames between a caller of what `seen_by_dynamo_as` returns and its function."""


def seen_by_dynamo_as(real: Callable[..., Any], function: Callable[..., Any]) -> Callable[..., Any]:
    """Return `function` with `real` as its first argument; Dynamo breaks there in the same words as at `real`."""

    def replaced(*args: Any, **kwargs: Any) -> Any:
        return function(real, *args, **kwargs)

    disabled: Any = torch.compiler.disable(replaced)  # type: ignore[no-untyped-call]
    traced: Callable[[], bool] = torch.compiler.is_dynamo_compiling

    def wrapper(*args: Any, **kwargs: Any) -> Any:
        return real(*args, **kwargs) if traced() else disabled(*args, **kwargs)

    # As a frame of its own it is left to Python: compiled, it would be the traced form that runs.
    skipped = skip_frames(wrapper.__code__)
    return functools.wraps(real)(wrapper if skipped else replaced)
