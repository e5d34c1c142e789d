# ruff: noqa: SLF001, D102 - the one module that may reach private names; Listener's methods are told of in Recorder
"""Every private torch name that Fuselight reaches, each behind a function of its own.

Invariant: nothing outside this module names a private torch attribute, and every replaced attribute is put back by the
context manager that replaced it. Where a torch version lacks a name, the feature that needs it is reported to
`Listener.unavailable` and the rest goes on. Listeners never disturb the user's compile: what they raise goes to
`Listener.broke` and is not propagated. Written for torch 2.11 to 2.13; 2.6 to 2.10 degrade per feature.
"""

from __future__ import annotations

import contextlib
import functools
import importlib
import inspect
import json
import re
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from types import CodeType, FrameType, ModuleType
from typing import Any, Protocol

import torch
import torch._dynamo
import torch._dynamo.convert_frame
import torch._dynamo.device_interface
import torch._dynamo.eval_frame
import torch._dynamo.exc
import torch._dynamo.guards
import torch._dynamo.output_graph
import torch._dynamo.symbolic_convert
import torch._guards
import torch.fx.experimental.symbolic_shapes
import torch.utils._triton

OLDEST = (2, 6)
"""The oldest torch that the worker accepts."""

exceptions: ModuleType = torch._dynamo.exc
"""The module of Dynamo's exception types."""

OpOverload = torch._ops.OpOverload
"""The type of `torch.ops.aten.add.Tensor`."""

RESUME = re.compile(r"torch_dynamo_resume_in_(?P<name>.+)_at_(?P<line>\d+)$")


class Listener(Protocol):
    """What `listen` calls, always inside a compile and never on the hot path of a compiled call."""

    def broke(self, stage: str, error: Exception) -> None: ...
    def unavailable(self, feature: str, why: str) -> None: ...
    def compile_started(self, code: CodeType, f_locals: Mapping[str, object], compile_id: str) -> None: ...
    def compile_ended(self, result: object, error: BaseException | None, seconds: float) -> None: ...
    def restarted(self, reason: str) -> None: ...
    def graph_break(self, translator: Any, reason: str, error: Any) -> None: ...
    def graph_captured(self, output_graph: Any, module: torch.fx.GraphModule) -> None: ...
    def guards_built(self, manager: Any, output_graph: Any) -> None: ...
    def guards_failed(self, entries: Sequence[Any], frame: Any, backend: object) -> None: ...
    def guards_reasoned(self, reasons: Sequence[str]) -> None: ...
    def limit_checked(self, exceeded: bool, limit: str) -> None: ...  # noqa: FBT001 - torch's own pair
    def frame_fell_back(self, error: BaseException, code: CodeType) -> None: ...
    def frame_without_tensors(self, code: CodeType) -> None: ...
    def frame_skipped(self, reason: str, code: CodeType) -> None: ...
    def symbol_created(
        self, shape_env: Any, symbol: object, value: object, source: Any, *, marked: bool
    ) -> None: ...
    def symbol_fixed(self, shape_env: Any, symbol: object, value: object, reason: str) -> None: ...


def version() -> tuple[int, int]:
    """The major and minor version of torch."""
    major, minor = torch.__version__.split(".")[:2]
    return int(major), int(re.match(r"\d+", minor).group())  # type: ignore[union-attr]


def setting(name: str) -> object:
    """The value of `torch._dynamo.config.<name>`, None where this torch has no such setting."""
    return getattr(torch._dynamo.config, name, None)


Notify = Callable[..., None]


class _Installed:
    """The replaced attributes of one `listen`. After `undo` a wrapper that somebody else still holds does nothing."""

    def __init__(self, listener: Listener) -> None:
        self.listener = listener
        self.active = True
        self._undo: list[Callable[[], None]] = []

    def tell(self, stage: str, notify: Notify, *args: Any) -> None:
        if not self.active:
            return
        try:
            notify(*args)
        except Exception as error:  # noqa: BLE001 - an observer must not change what it observes
            self.listener.broke(stage, error)

    def replace(
        self, feature: str, owner: object, name: str, wrap: Callable[[Callable[..., Any]], Callable[..., Any]]
    ) -> None:
        try:
            real = inspect.getattr_static(owner, name)
        except AttributeError:
            where = getattr(owner, "__name__", repr(owner))
            self.listener.unavailable(feature, f"torch {torch.__version__} has no {where}.{name}")
            return
        mine = functools.wraps(real)(wrap(real))
        setattr(owner, name, mine)

        def undo() -> None:
            if inspect.getattr_static(owner, name) is mine:
                setattr(owner, name, real)

        self._undo.append(undo)

    def undo(self) -> None:
        self.active = False
        for undo in reversed(self._undo):
            undo()


@contextlib.contextmanager
def listen(listener: Listener, *, graphs: bool = True) -> Iterator[None]:
    """Report what Dynamo does to `listener` until the block ends."""
    installed = _Installed(listener)
    try:
        _listen_to_compiles(installed)
        _listen_to_breaks(installed)
        _listen_to_guards(installed)
        _listen_to_refusals(installed)
        _listen_to_symbols(installed)
        if graphs:
            _listen_to_graphs(installed)
        yield
    finally:
        installed.undo()


def _listen_to_compiles(installed: _Installed) -> None:
    listener = installed.listener

    def wrap(real: Callable[..., Any]) -> Callable[..., Any]:
        def compile_(*args: Any, **kwargs: Any) -> Any:
            code, f_locals = args[0], args[2]
            installed.tell(
                "compile", listener.compile_started, code, f_locals, str(kwargs.get("compile_id") or "?")
            )
            start = time.perf_counter()
            result, error = None, None
            try:
                result = real(*args, **kwargs)
            except BaseException as raised:
                error = raised
                raise
            finally:
                installed.tell("compile", listener.compile_ended, result, error, time.perf_counter() - start)
                del error  # a local that holds an exception holds this frame
            return result

        return compile_

    def wrap_restart(real: Callable[..., Any]) -> Callable[..., Any]:
        def __init__(self: Any, *args: Any, restart_reason: str | None = None, **kwargs: Any) -> None:  # noqa: N807 - stands in for one
            real(self, *args, restart_reason=restart_reason, **kwargs)
            installed.tell("restarts", listener.restarted, restart_reason or type(self).__name__)

        return __init__

    installed.replace("compiles", torch._dynamo.convert_frame, "_compile", wrap)
    installed.replace("restarts", torch._dynamo.exc.RestartAnalysis, "__init__", wrap_restart)


def _listen_to_breaks(installed: _Installed) -> None:
    listener = installed.listener

    def wrap(real: Callable[..., Any]) -> Callable[..., Any]:
        def log_graph_break(
            self: Any, code_options: Any, reason: str = "", exc: Any = None, **rest: Any
        ) -> Any:
            if not getattr(exc, "logged", False):
                installed.tell("breaks", listener.graph_break, self, reason, exc)
            return real(self, code_options, reason, exc, **rest)

        return log_graph_break

    installed.replace(
        "breaks", torch._dynamo.symbolic_convert.InstructionTranslatorBase, "log_graph_break", wrap
    )


def _listen_to_guards(installed: _Installed) -> None:
    listener = installed.listener

    def wrap_build(real: Callable[..., Any]) -> Callable[..., Any]:
        def __init__(self: Any, f_code: Any, output_graph: Any = None, *args: Any, **kwargs: Any) -> None:  # noqa: N807 - stands in for one
            real(self, f_code, output_graph, *args, **kwargs)
            installed.tell("guards", listener.guards_built, self.guard_manager, output_graph)

        return __init__

    def wrap_fail(real: Callable[..., Any]) -> Callable[..., Any]:
        def get_and_maybe_log_recompilation_reasons(
            entries: Any, frame: Any, backend: Any = None, *args: Any, **kwargs: Any
        ) -> Any:
            silent = bool(args[0] if args else kwargs.get("skip_logging", False))
            if not silent:
                installed.tell("recompiles", listener.guards_failed, _entry_list(entries), frame, backend)
            reasons = real(entries, frame, backend, *args, **kwargs)
            if not silent:
                installed.tell(
                    "recompiles", listener.guards_reasoned, [str(reason) for reason in reasons or ()]
                )
            return reasons

        return get_and_maybe_log_recompilation_reasons

    installed.replace("guards", torch._dynamo.guards.CheckFunctionManager, "__init__", wrap_build)
    installed.replace(
        "recompiles", torch._dynamo.convert_frame, "get_and_maybe_log_recompilation_reasons", wrap_fail
    )


def _listen_to_refusals(installed: _Installed) -> None:  # noqa: C901 - one small wrapper a name
    """Frames that never get as far as a trace, which torch records nowhere as data."""
    listener, convert_frame = installed.listener, torch._dynamo.convert_frame

    def wrap_limit(real: Callable[..., Any]) -> Callable[..., Any]:
        def exceeds_recompile_limit(*args: Any, **kwargs: Any) -> Any:
            exceeded, limit = real(*args, **kwargs)
            installed.tell("limits", listener.limit_checked, exceeded, limit)
            return exceeded, limit

        return exceeds_recompile_limit

    def wrap_error(real: Callable[..., Any]) -> Callable[..., Any]:
        def format_error_msg(exc: Any, code: CodeType, *args: Any, **kwargs: Any) -> Any:
            installed.tell("skips", listener.frame_fell_back, exc, code)
            return real(exc, code, *args, **kwargs)

        return format_error_msg

    def wrap_tensors(real: Callable[..., Any]) -> Callable[..., Any]:
        def has_tensor_in_frame(frame: Any) -> bool:
            found = bool(real(frame))
            if not found:
                installed.tell("skips", listener.frame_without_tensors, frame.f_code)
            return found

        return has_tensor_in_frame

    def wrap_skip(real: Callable[..., Any]) -> Callable[..., Any]:
        def add_skip_reason(reason: str, frame: Any) -> Any:
            installed.tell("skips", listener.frame_skipped, reason, frame.f_code)
            return real(reason, frame)

        return add_skip_reason

    installed.replace("recompile limits", convert_frame, "exceeds_recompile_limit", wrap_limit)
    installed.replace("frames left to eager", convert_frame, "format_error_msg", wrap_error)
    installed.replace("frames without tensors", convert_frame, "has_tensor_in_frame", wrap_tensors)
    if hasattr(convert_frame, "add_skip_reason"):  # newer than 2.11; what it adds is the reason of skip files
        installed.replace("skipped frames", convert_frame, "add_skip_reason", wrap_skip)


def _listen_to_symbols(installed: _Installed) -> None:
    listener = installed.listener

    def wrap_create(real: Callable[..., Any]) -> Callable[..., Any]:
        def create_symbol(self: Any, val: Any, source: Any, *args: Any, **kwargs: Any) -> Any:
            symbol = real(self, val, source, *args, **kwargs)
            dynamic = args[0] if args else kwargs.get("dynamic_dim")
            constraint = args[1] if len(args) > 1 else kwargs.get("constraint_dim")
            if getattr(dynamic, "name", "") not in ("STATIC", "INFER_STRIDE"):
                asked = constraint is not None and not getattr(constraint, "warn_only", False)
                marked = asked or not torch._dynamo.config.assume_static_by_default
                created = functools.partial(listener.symbol_created, marked=marked)
                installed.tell("symbols", created, self, symbol, val, source)
            return symbol

        return create_symbol

    def wrap_fix(real: Callable[..., Any]) -> Callable[..., Any]:
        def _set_replacement(self: Any, a: Any, tgt: Any, msg: str = "", *args: Any, **kwargs: Any) -> Any:
            if not getattr(tgt, "free_symbols", True):
                installed.tell("symbols", listener.symbol_fixed, self, a, tgt, msg)
            return real(self, a, tgt, msg, *args, **kwargs)

        return _set_replacement

    shape_env = torch.fx.experimental.symbolic_shapes.ShapeEnv
    installed.replace("symbols", shape_env, "create_symbol", wrap_create)
    installed.replace("specialisations", shape_env, "_set_replacement", wrap_fix)


def _listen_to_graphs(installed: _Installed) -> None:
    listener = installed.listener

    def wrap(real: Callable[..., Any]) -> Callable[..., Any]:
        def call_user_compiler(self: Any, gm: torch.fx.GraphModule, *args: Any, **kwargs: Any) -> Any:
            installed.tell("graphs", listener.graph_captured, self, gm)
            return real(self, gm, *args, **kwargs)

        return call_user_compiler

    installed.replace("graphs", torch._dynamo.output_graph.OutputGraph, "call_user_compiler", wrap)


# What the artefacts say. Each function takes one of torch's objects and answers in plain values.


def _entry_list(entries: Any) -> list[Any]:
    """Cache entries: a list in 2.13, a linked list before."""
    if isinstance(entries, (list, tuple)):
        return list(entries)
    out = []
    while entries is not None:
        out.append(entries)
        entries = entries.next
    return out


def is_deleted(manager: object) -> str | None:
    """Why a cache entry was invalidated, None for one that lives."""
    kind = getattr(torch._dynamo.guards, "DeletedGuardManagerWrapper", None)
    if kind is not None and isinstance(manager, kind):
        return str(
            getattr(manager, "invalidation_reason", "") or "an object that it was compiled for is gone"
        )
    return None


def current_compile_id() -> str | None:
    """The compile that is going on in this thread."""
    compile_id = torch._guards.CompileContext.current_compile_id()
    return None if compile_id is None else str(compile_id)


def user_stack() -> list[Any]:
    """The traced frames at this moment, outermost first, as `traceback.FrameSummary`; empty outside a trace."""
    context = torch._guards.TracingContext.try_get()
    return [] if context is None else list(torch._guards.TracingContext.extract_stack())


def real_stack(error: BaseException) -> list[Any]:
    """The traced frames that an exception of Dynamo carries, outermost first."""
    found = getattr(error, "real_stack", None)
    if not found and isinstance(error, torch._dynamo.exc.InternalTorchDynamoError):
        # it stands for the exception that the tracer raised, and that one has the stack
        found = getattr(error.__context__, "real_stack", None)
    innermost = getattr(error, "innermost_user_frame_summary", None)
    return list(found or ([] if innermost is None else [innermost]))


@functools.cache
def gb_ids() -> Mapping[str, str]:
    """The registry of graph breaks: type to id. Empty before 2.8, which has none."""
    load = getattr(torch._dynamo.exc, "_load_gb_type_to_gb_id_map", None)
    return {} if load is None else dict(load())


def root_code(translator: Any) -> CodeType:
    """The code object of the frame that is being compiled, for a translator of any depth in it."""
    code: CodeType = translator.output.root_tx.f_code
    return code


def original_code(code: CodeType) -> CodeType:
    """The user's code object for that of a resume function; itself for any other."""
    module = importlib.import_module("torch._dynamo.resume_execution")
    cache = getattr(getattr(module, "ContinueExecutionCache", None), "generated_code_metadata", {})
    for _ in range(8):
        if code not in cache:
            return code
        code = cache[code].code
    return code


def is_empty_result(result: object) -> bool:
    """Whether `_compile` answered without a compiled frame."""
    if result is None:
        return True
    if hasattr(result, "guarded_code"):
        return result.guarded_code is None
    return False


def skip_reason(result: object) -> str | None:
    """Why a frame that raised nothing was not compiled, where this torch says."""
    reason = getattr(result, "skip_reason", None)
    return None if reason is None else str(reason)


def guards_of(output_graph: Any) -> list[Any]:
    """The guards of a compile, as torch's Guard objects."""
    return list(getattr(output_graph, "guards", None) or ())


def local_scope(output_graph: Any) -> dict[str, object] | None:
    """The frame's locals against which its guards were built, None where guards are not checked (export)."""
    if getattr(output_graph, "skip_guards_check", False) or getattr(output_graph, "export", False):
        return None
    scope: dict[str, object] | None = getattr(output_graph, "local_scope", None)
    return scope


def managers(manager: Any) -> Iterator[Any]:
    """Every node of a tree of guard managers. pybind makes a fresh wrapper at each call: never key them by `id`."""
    stack = [manager.root]
    while stack:
        node = stack.pop()
        if node is None:
            continue
        yield node
        stack += node.get_child_managers()
        if hasattr(node, "get_key_value_managers"):
            for key, value in node.get_key_value_managers().values():
                stack += [key, value]


def is_relational(leaf: object) -> bool:
    """Whether a leaf guard keeps state between nodes, so that only the root may run it."""
    kind = getattr(torch._C._dynamo.guards, "RelationalGuard", None)
    return kind is not None and isinstance(leaf, kind)


def guard_scope(manager: Any, f_locals: Mapping[str, object]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Globals and locals in which a guard's expression can be evaluated."""
    sympy_names = dict(getattr(torch._dynamo.guards, "SYMPY_INTERP", {}))
    world = dict(manager.global_scope or {})
    return {**sympy_names, **world}, {**(manager.closure_vars or {}), "L": f_locals, "G": world.get("G", {})}


def symbol_facts(shape_env: Any, symbol: Any) -> tuple[str | None, str | None]:
    """Hint and range of a symbol, as text."""
    values = getattr(shape_env, "backed_var_to_val", None)
    if values is None:
        values = getattr(shape_env, "var_to_val", {})
    hint = values.get(symbol)
    bounds = getattr(shape_env, "var_to_range", {}).get(symbol)
    text = None if bounds is None else f"[{_bound(bounds.lower)}, {_bound(bounds.upper)}]"
    return (None if hint is None else str(hint)), text


def _bound(value: object) -> str:
    text = str(value)
    return {"int_oo": "inf", "oo": "inf", "-int_oo": "-inf", "-oo": "-inf"}.get(text, text)


def is_symbol(value: object) -> bool:
    """Whether a size became a symbol, and not a number at once."""
    return bool(getattr(value, "is_Symbol", False))


def disabled_reason(target: object) -> str | None:
    """Why calling `target` never reaches Dynamo (`torch.compiler.disable`), None if it does. Empty: no reason given."""
    for candidate in _callables_of(target):
        if getattr(candidate, "_torchdynamo_disable", False):
            return str(getattr(candidate, "_torchdynamo_disable_msg", None) or "")
    return None


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


def changed_config() -> dict[str, str]:
    """Dynamo's settings that are not at their default: name to repr."""
    config = torch._dynamo.config
    out: dict[str, str] = {}
    entries: Mapping[str, Any] = getattr(config, "_config", {})
    for name, entry in entries.items():
        if name.startswith("_") or getattr(entry, "alias", None) is not None:
            continue
        if getattr(entry, "deprecated", False):
            continue  # reading one prints a warning into the user's program, and it does nothing
        value, default = getattr(config, name, None), getattr(entry, "default", None)
        if value != default and not callable(value):
            out[name] = repr(value)
    return out


def dynamo_modules() -> tuple[ModuleType, ...]:
    """What a host may import ahead of a run, so that the first trace does not pay for it."""
    names = (
        "torch._dynamo.convert_frame",
        "torch._dynamo.variables.builder",
        "torch._dynamo.backends.debugging",
    )
    return tuple(importlib.import_module(name) for name in names)


def frames_above(start: FrameType | None = None) -> Iterator[FrameType]:
    """Python frames outside Dynamo, innermost first: everything above the outermost frame of the running compile."""
    frame = start or sys._getframe(1)
    marker = torch._dynamo.convert_frame.__file__
    inside = True
    current: FrameType | None = frame
    while current is not None:
        name = current.f_code.co_filename
        if inside and name == marker:
            inside = False
            while current is not None and current.f_code.co_filename == marker:
                current = current.f_back
            continue
        if not inside:
            yield current
        current = current.f_back


def dispatch_keys(tensor: torch.Tensor) -> set[str]:
    """The names of a tensor's dispatch keys under the modes that are on, as its guard sees them."""
    keys = torch._C._dispatch_keys(tensor) | torch._C._dispatch_tls_local_include_set()
    text = str(keys - torch._C._dispatch_tls_local_exclude_set())
    return set(text.partition("(")[2].rstrip(")").split(", "))


def global_state() -> dict[str, Any] | None:
    """The global state as torch's guard records it, None where this torch's guard does not tell."""
    guard = torch._C._dynamo.guards.GlobalStateGuard()
    read = getattr(guard, "__getstate__", None)
    try:
        state = None if read is None else read()
        decoded = json.loads(state) if isinstance(state, str) else None
    except (TypeError, ValueError, RuntimeError):
        return None
    return decoded if isinstance(decoded, dict) else None


def code_of(target: object) -> CodeType | None:
    """The code object of the user's own function behind wrappers, None for what has none."""
    found: CodeType | None = None
    for candidate in _callables_of(target):
        code = getattr(candidate, "__code__", None)
        if isinstance(code, CodeType) and not code.co_filename.startswith(str(torch.__path__[0])):
            found = code
    return found


@contextlib.contextmanager
def replaced_compile(compile_: Callable[..., Any], backend: Callable[..., Any]) -> Iterator[None]:
    """Inside, `torch.compile(...)` is `compile_(real, ...)`, and `torch._dynamo.optimize` gets `backend`.

    `nn.Module.compile` calls `torch.compile` by that name, and so is covered.
    """
    real, real_optimize = torch.compile, torch._dynamo.optimize

    @functools.wraps(real)
    def compile(*args: Any, **kwargs: Any) -> Any:  # noqa: A001 - stands in for torch.compile
        return compile_(real, *args, **kwargs)

    @functools.wraps(real_optimize)
    def optimize(*args: Any, **kwargs: Any) -> Any:
        wanted = args[0] if args else kwargs.pop("backend", None)
        inner = getattr(wanted, "_torchdynamo_orig_backend", wanted)
        keep = getattr(inner, "compiler_fn", inner) is backend
        return real_optimize(wanted if keep else backend, *args[1:], **kwargs)

    patched = [(torch, "compile", real, compile), (torch._dynamo, "optimize", real_optimize, optimize)]
    for owner, name, _, mine in patched:
        setattr(owner, name, mine)
    try:
        yield
    finally:
        for owner, name, before, mine in patched:
            if getattr(owner, name) is mine:
                setattr(owner, name, before)


def guard_on_data() -> type[BaseException]:
    """What torch raises for a branch on a value that it does not have while it traces."""
    return _exception(torch.fx.experimental.symbolic_shapes, "GuardOnDataDependentSymNode")


def constraint_violation() -> type[BaseException]:
    """What torch raises where the code fixes a size that was marked dynamic."""
    return _exception(torch.fx.experimental.symbolic_shapes, "ConstraintViolationError")


def recompile_limit_hit() -> type[BaseException]:
    """What torch raises at the recompile limit where it may not go on in eager."""
    return _exception(torch._dynamo.exc, "FailOnRecompileLimitHit")


def _exception(module: ModuleType, name: str) -> type[BaseException]:
    found = getattr(module, name, None)
    return found if isinstance(found, type) and issubclass(found, BaseException) else _Never


class _Never(BaseException):
    """Raised by nobody."""


def is_compiled(target: object) -> bool:
    """Whether calling `target` goes through torch.compile already."""
    if isinstance(target, torch._dynamo.eval_frame.OptimizedModule):
        return True
    if isinstance(target, torch.nn.Module):
        return getattr(target, "_compiled_call_impl", None) is not None or is_compiled(type(target).forward)
    function = getattr(target, "__func__", target)
    return hasattr(function, "_torchdynamo_orig_callable") and not getattr(
        function, "_torchdynamo_disable", False
    )


def fake_tensors() -> contextlib.AbstractContextManager[Any]:
    """Make tensors without data while entered; tensors that exist already are taken as they are."""
    fakes = importlib.import_module("torch._subclasses.fake_tensor")
    mode: contextlib.AbstractContextManager[Any] = fakes.FakeTensorMode(allow_non_fake_inputs=True)
    return mode


def warm_up() -> None:
    """Trace one tiny function, so that what Dynamo loads at its first frame is loaded in this process."""

    def tiny(x: torch.Tensor) -> torch.Tensor:
        return x.sin() + 1

    with _cuda_hidden():
        torch.compile(tiny, backend="eager")(torch.ones(2))
        torch._dynamo.reset()


@contextlib.contextmanager
def _cuda_hidden() -> Iterator[None]:
    """Let torch see no GPU until the block ends.

    Where it sees one, each trace saves CUDA's random state (convert_frame.preserve_global_state) and asks for the
    device's properties (has_triton), and both initialise CUDA, after which no forked child can use it (seen on an
    H200 with torch 2.11). Answers that were cached meanwhile are forgotten again.
    """
    real = torch.cuda.is_available
    torch.cuda.is_available = lambda: False
    try:
        yield
    finally:
        torch.cuda.is_available = real
        for owner in (torch.utils._triton, torch._dynamo.device_interface, torch._dynamo.utils):
            for member in vars(owner).values():
                forget = getattr(member, "cache_clear", None)
                if callable(forget):
                    forget()


def set_dynamo_config(name: str, value: object) -> None:
    """Change one of Dynamo's settings for this process. Raises AttributeError for a name that it does not have."""
    if not hasattr(torch._dynamo.config, name):
        raise AttributeError(f"torch._dynamo.config has no setting {name}")
    setattr(torch._dynamo.config, name, value)


def source_name(source: Any) -> str:
    """A source's expression: a property in 2.11 and newer, a method before."""
    name = source.name
    return str(name() if callable(name) else name)


def local_name(guard: Any) -> str | None:
    """The name of the local variable that a guard by identity looks at, None for any other guard."""
    found = re.fullmatch(r"L\['(\w+)'\]", source_name(guard))
    return found[1] if found and guard.create_fn_name() == "ID_MATCH" else None
