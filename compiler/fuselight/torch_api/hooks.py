# ruff: noqa: SLF001, D102 - private names are this package's business; Recorder documents Listener's methods
"""Reports what Dynamo does to a listener, as it happens.

Invariant: every replaced attribute is restored when the block ends. If this torch lacks a name, `Listener.unavailable`
gets the feature that needs it, and the other features work. Listeners never disturb the user's compile: an exception of
theirs goes to `Listener.broke` and is not propagated.
"""

from __future__ import annotations

import contextlib
import functools
import inspect
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import CodeType
from typing import Any, Protocol

import torch
import torch._dynamo
import torch._dynamo.convert_frame
import torch._dynamo.exc
import torch._dynamo.guards
import torch._dynamo.output_graph
import torch._dynamo.symbolic_convert
import torch.fx.experimental.symbolic_shapes

from fuselight.torch_api.artifacts import entry_list
from fuselight.torch_api.frame_text_cache import spare_stack_texts
from fuselight.torch_api.line_numbers import mend_places

LINE_EVERY = 0.1
"""Seconds between two calls of `Listener.line_reached`."""


class Listener(Protocol):
    """What `listen` calls, always inside a compile and never on the hot path of a compiled call."""

    def broke(self, stage: str, error: Exception) -> None: ...
    def unavailable(self, feature: str, why: str) -> None: ...
    def compile_started(self, code: CodeType, f_locals: Mapping[str, object], compile_id: str) -> None: ...
    def compile_ended(self, result: object, error: BaseException | None, seconds: float) -> None: ...
    def restarted(self, reason: str) -> None: ...
    def line_reached(self, translator: Any) -> None: ...
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


class _Installed:
    """The replaced attributes of one `listen`. After `undo` a wrapper that somebody else still holds does nothing."""

    def __init__(self, listener: Listener) -> None:
        self.listener = listener
        self.active = True
        self._undo: list[Callable[[], None]] = []

    def tell(self, stage: str, notify: Callable[..., None], *args: Any) -> None:
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
def listen(listener: Listener, *, graphs: bool = True, lines: bool = False) -> Iterator[None]:
    """Report what Dynamo does to `listener`, with corrected line numbers (`line_numbers`), until the block ends."""
    installed = _Installed(listener)
    try:
        mend_places(installed.replace)
        spare_stack_texts(installed.replace)
        _listen_to_compiles(installed)
        _listen_to_breaks(installed)
        _listen_to_guards(installed)
        _listen_to_refusals(installed)
        _listen_to_symbols(installed)
        if graphs:
            _listen_to_graphs(installed)
        if lines:
            _listen_to_lines(installed)
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
                installed.tell("recompiles", listener.guards_failed, entry_list(entries), frame, backend)
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

    def wrap_frame(real: Callable[..., Any]) -> Callable[..., Any]:
        def compile_frame(code: CodeType, *args: Any, **kwargs: Any) -> Any:
            try:
                return real(code, *args, **kwargs)
            except torch._dynamo.exc.SkipFrame as skip:
                installed.tell("skips", listener.frame_skipped, str(skip), code)
                raise

        return compile_frame

    installed.replace("recompile limits", convert_frame, "exceeds_recompile_limit", wrap_limit)
    installed.replace("frames that run in eager mode", convert_frame, "format_error_msg", wrap_error)
    installed.replace("frames without tensors", convert_frame, "has_tensor_in_frame", wrap_tensors)
    if hasattr(convert_frame, "add_skip_reason"):  # newer than 2.11; what it adds is the reason of skip files
        installed.replace("skipped frames", convert_frame, "add_skip_reason", wrap_skip)
    else:
        installed.replace("skipped frames", convert_frame, "compile_frame", wrap_frame)


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
    installed.replace("specializations", shape_env, "_set_replacement", wrap_fix)


def _listen_to_graphs(installed: _Installed) -> None:
    listener = installed.listener

    def wrap(real: Callable[..., Any]) -> Callable[..., Any]:
        def call_user_compiler(self: Any, gm: torch.fx.GraphModule, *args: Any, **kwargs: Any) -> Any:
            installed.tell("graphs", listener.graph_captured, self, gm)
            return real(self, gm, *args, **kwargs)

        return call_user_compiler

    installed.replace("graphs", torch._dynamo.output_graph.OutputGraph, "call_user_compiler", wrap)


def _listen_to_lines(installed: _Installed) -> None:
    """Report the traced line from time to time. The wrapper runs at each line, so it only reads the clock."""
    listener = installed.listener
    due = time.monotonic() + LINE_EVERY

    def wrap(real: Callable[..., Any]) -> Callable[..., Any]:
        def starts_line(self: Any, lineno: int) -> None:
            nonlocal due
            real(self, lineno)
            now = time.monotonic()
            if now >= due:
                due = now + LINE_EVERY
                installed.tell("lines", listener.line_reached, self)

        return starts_line

    installed.replace("lines", torch._dynamo.symbolic_convert.InstructionTranslatorBase, "starts_line", wrap)
