# ruff: noqa: SLF001, D102 - private names are this package's business; Recorder documents Listener's methods
"""Reports what Dynamo does to a listener, as it happens.

Invariant: every replaced attribute is restored when the block ends. If this torch lacks a name, `Listener.unavailable`
gets the feature that needs it, and the other features work. Listeners never disturb the user's compile: an exception of
theirs goes to `Listener.broke` and is not propagated.
"""

from __future__ import annotations

import contextlib
import functools
import os
import sys
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
import torch.nn.modules.module
import torch.utils.hooks

from fuselight.adapters.torch_api.dynamo.frame_text_cache import cache_stack_texts
from fuselight.adapters.torch_api.dynamo.identity_checks import (
    COMPARISON,
    IdentityCheck,
    comparing_module,
    read_check,
)
from fuselight.adapters.torch_api.dynamo.key_lookups import KeyLookup, lookup_methods, read_lookup
from fuselight.adapters.torch_api.dynamo.line_numbers import fix_places
from fuselight.adapters.torch_api.dynamo.lost_changes import (
    ContainerChanges,
    LostChange,
    generated_values,
    side_effects_class,
)
from fuselight.adapters.torch_api.inductor.artifacts import entry_list
from fuselight.adapters.torch_api.patching import wrapped

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
    def guards_dropped(self, manager: Any, deleted: Any) -> None: ...
    def guards_failed(self, entries: Sequence[Any], frame: Any, backend: object) -> None: ...
    def guards_reasoned(self, reasons: Sequence[str]) -> None: ...
    def limit_checked(self, exceeded: bool, limit: str) -> None: ...  # noqa: FBT001 - torch's own pair
    def hook_registered(self, module: Any, kind: str, hooks: Any, identity: int) -> None: ...
    def hook_removed(self, identity: int) -> None: ...
    def variable_read(self, name: str) -> None: ...
    def change_lost(self, change: LostChange) -> None: ...
    def key_looked_up(self, lookup: KeyLookup) -> None: ...
    def identity_checked(self, check: IdentityCheck) -> None: ...
    def frame_fell_back(self, error: BaseException, code: CodeType) -> None: ...
    def frame_without_tensors(self, code: CodeType) -> None: ...
    def frame_skipped(self, reason: str, code: CodeType) -> None: ...
    def symbol_created(
        self, shape_env: Any, symbol: object, value: object, source: Any, *, marked: bool
    ) -> None: ...
    def symbol_fixed(self, shape_env: Any, symbol: object, value: object, reason: str) -> None: ...


class StepListener(Protocol):
    """What `listen` calls at each instruction that Dynamo traces in code that `traces` accepts."""

    def traces(self, code: CodeType) -> bool: ...
    def instruction_started(self, code: CodeType, instruction: Any, stack: Sequence[Any]) -> None: ...
    def instruction_traced(
        self, code: CodeType, instruction: Any, stack: Sequence[Any], *, jumped: bool
    ) -> None: ...
    def trace_stopped(
        self, code: CodeType, instructions: Sequence[Any], local_variables: Mapping[str, Any]
    ) -> None: ...


class _Installed:
    """The replaced attributes of one `listen`. After `close` a wrapper that other code still holds reports nothing."""

    def __init__(self, listener: Listener) -> None:
        self.listener = listener
        self._active = True
        self._stack = contextlib.ExitStack()

    def tell(self, stage: str, notify: Callable[..., None], *args: Any) -> None:
        if not self._active:
            return
        try:
            notify(*args)
        except Exception as error:  # noqa: BLE001 - an observer must not change what it observes
            self.listener.broke(stage, error)

    def replace(self, feature: str, owner: object, name: str, function: Callable[..., Any]) -> None:
        """Have a call of `owner.name` be `function(real, ...)`; `feature` is lost where this torch lacks the name."""
        if hasattr(owner, name):
            self._stack.enter_context(wrapped(owner, name, function))
        else:
            where = getattr(owner, "__name__", repr(owner))
            self.listener.unavailable(feature, f"torch {torch.__version__} has no {where}.{name}")

    def at_end(self, function: Callable[[], object]) -> None:
        """Have a function called when the block ends."""
        self._stack.callback(function)

    def close(self) -> None:
        self._active = False
        self._stack.close()


@contextlib.contextmanager
def listen(listener: Listener, *, lines: bool = False, steps: StepListener | None = None) -> Iterator[None]:
    """Report what Dynamo does to `listener`, with corrected line numbers (`line_numbers`), until the block ends."""
    installed = _Installed(listener)
    try:
        fix_places(installed.replace)
        cache_stack_texts(installed.replace)
        _listen_to_compiles(installed)
        _listen_to_breaks(installed)
        _listen_to_guards(installed)
        _listen_to_refusals(installed)
        _listen_to_symbols(installed)
        _listen_to_graphs(installed)
        _listen_to_module_hooks(installed)
        _listen_to_variables(installed)
        _listen_to_changes(installed)
        _listen_to_lookups(installed)
        _listen_to_identity(installed)
        if lines:
            _listen_to_lines(installed)
        if steps is not None:
            _listen_to_steps(installed, steps)
        yield
    finally:
        installed.close()


def _listen_to_compiles(installed: _Installed) -> None:
    listener = installed.listener

    def compile_(real: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
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

    def restart(
        real: Callable[..., Any], self: Any, *args: Any, restart_reason: str | None = None, **kwargs: Any
    ) -> None:
        real(self, *args, restart_reason=restart_reason, **kwargs)
        installed.tell("restarts", listener.restarted, restart_reason or type(self).__name__)

    installed.replace("compiles", torch._dynamo.convert_frame, "_compile", compile_)
    installed.replace("restarts", torch._dynamo.exc.RestartAnalysis, "__init__", restart)


def _listen_to_breaks(installed: _Installed) -> None:
    def log_graph_break(
        real: Callable[..., Any], self: Any, code_options: Any, reason: str = "", exc: Any = None, **rest: Any
    ) -> Any:
        if not getattr(exc, "logged", False):
            installed.tell("breaks", installed.listener.graph_break, self, reason, exc)
        return real(self, code_options, reason, exc, **rest)

    translator = torch._dynamo.symbolic_convert.InstructionTranslatorBase
    installed.replace("breaks", translator, "log_graph_break", log_graph_break)


def _listen_to_guards(installed: _Installed) -> None:
    listener = installed.listener

    def build(
        real: Callable[..., Any], self: Any, f_code: Any, output_graph: Any = None, *args: Any, **kwargs: Any
    ) -> None:
        real(self, f_code, output_graph, *args, **kwargs)
        installed.tell("guards", listener.guards_built, self.guard_manager, output_graph)

    def explain(
        real: Callable[..., Any], entries: Any, frame: Any, backend: Any = None, *args: Any, **kwargs: Any
    ) -> Any:
        silent = bool(args[0] if args else kwargs.get("skip_logging", False))
        if not silent:
            installed.tell("recompiles", listener.guards_failed, entry_list(entries), frame, backend)
        reasons = real(entries, frame, backend, *args, **kwargs)
        if not silent:
            installed.tell("recompiles", listener.guards_reasoned, [str(reason) for reason in reasons or ()])
        return reasons

    def invalidate(real: Callable[..., Any], self: Any, *args: Any, **kwargs: Any) -> None:
        before = getattr(self, "guard_manager", None)
        real(self, *args, **kwargs)
        after = getattr(self, "guard_manager", None)
        if after is not before:
            installed.tell("dropped guards", listener.guards_dropped, before, after)

    installed.replace("guards", torch._dynamo.guards.CheckFunctionManager, "__init__", build)
    installed.replace("dropped guards", torch._dynamo.guards.CheckFunctionManager, "invalidate", invalidate)
    installed.replace(
        "recompiles", torch._dynamo.convert_frame, "get_and_maybe_log_recompilation_reasons", explain
    )


def _listen_to_refusals(installed: _Installed) -> None:
    """Frames that never get as far as a trace, which torch records nowhere as data.

    Torch gives a reason for every skipped frame, also for one whose exception or lack of tensors it reported just
    before. Such a frame is recognized by its code: the texts of these reasons change with the release.
    """
    listener, convert_frame = installed.listener, torch._dynamo.convert_frame
    explained: set[CodeType] = set()

    def exceeds_limit(real: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        exceeded, limit = real(*args, **kwargs)
        installed.tell("limits", listener.limit_checked, exceeded, limit)
        return exceeded, limit

    def format_error(real: Callable[..., Any], exc: Any, code: CodeType, *args: Any, **kwargs: Any) -> Any:
        explained.add(code)
        installed.tell("skips", listener.frame_fell_back, exc, code)
        return real(exc, code, *args, **kwargs)

    def has_tensor(real: Callable[..., Any], frame: Any) -> bool:
        tensor = bool(real(frame))
        if not tensor:
            explained.add(frame.f_code)
            installed.tell("skips", listener.frame_without_tensors, frame.f_code)
        return tensor

    def add_skip_reason(real: Callable[..., Any], reason: str, frame: Any) -> Any:
        code = frame.f_code
        if code not in explained and code not in convert_frame.output_codes:  # nor is torch's own code
            installed.tell("skips", listener.frame_skipped, reason, code)
        explained.discard(code)
        return real(reason, frame)

    def compile_frame(real: Callable[..., Any], code: CodeType, *args: Any, **kwargs: Any) -> Any:
        try:
            return real(code, *args, **kwargs)
        except torch._dynamo.exc.SkipFrame as skip:
            installed.tell("skips", listener.frame_skipped, str(skip), code)
            raise

    installed.replace("recompile limits", convert_frame, "exceeds_recompile_limit", exceeds_limit)
    installed.replace("frames that run in eager mode", convert_frame, "format_error_msg", format_error)
    installed.replace("frames without tensors", convert_frame, "has_tensor_in_frame", has_tensor)
    if hasattr(convert_frame, "add_skip_reason"):  # newer than 2.11; what it adds is the reason of skip files
        installed.replace("skipped frames", convert_frame, "add_skip_reason", add_skip_reason)
    else:
        installed.replace("skipped frames", convert_frame, "compile_frame", compile_frame)


def _listen_to_symbols(installed: _Installed) -> None:
    listener = installed.listener

    def create_symbol(
        real: Callable[..., Any], self: Any, val: Any, source: Any, *args: Any, **kwargs: Any
    ) -> Any:
        symbol = real(self, val, source, *args, **kwargs)
        dynamic = args[0] if args else kwargs.get("dynamic_dim")
        constraint = args[1] if len(args) > 1 else kwargs.get("constraint_dim")
        if getattr(dynamic, "name", "") not in ("STATIC", "INFER_STRIDE"):
            asked = constraint is not None and not getattr(constraint, "warn_only", False)
            marked = asked or not torch._dynamo.config.assume_static_by_default
            created = functools.partial(listener.symbol_created, marked=marked)
            installed.tell("symbols", created, self, symbol, val, source)
        return symbol

    def set_replacement(
        real: Callable[..., Any], self: Any, a: Any, tgt: Any, msg: str = "", *args: Any, **kwargs: Any
    ) -> Any:
        if not getattr(tgt, "free_symbols", True):
            installed.tell("symbols", listener.symbol_fixed, self, a, tgt, msg)
        return real(self, a, tgt, msg, *args, **kwargs)

    files: set[str] = set()

    def uninteresting_files(real: Callable[..., Any]) -> set[str]:
        if not files:
            files.update(real(), _OWN_FILES)  # else torch names these wrappers as what fixed a size
        return files

    shapes = torch.fx.experimental.symbolic_shapes
    installed.replace("symbols", shapes.ShapeEnv, "create_symbol", create_symbol)
    installed.replace("specializations", shapes.ShapeEnv, "_set_replacement", set_replacement)
    installed.replace("lines of guards", shapes, "uninteresting_files", uninteresting_files)


_OWN_FILES = {__file__, wrapped.__globals__["__file__"]}


def _listen_to_graphs(installed: _Installed) -> None:
    def call_user_compiler(
        real: Callable[..., Any], self: Any, gm: torch.fx.GraphModule, *args: Any, **kwargs: Any
    ) -> Any:
        installed.tell("graphs", installed.listener.graph_captured, self, gm)
        return real(self, gm, *args, **kwargs)

    owner = torch._dynamo.output_graph.OutputGraph
    installed.replace("graphs", owner, "call_user_compiler", call_user_compiler)


def _listen_to_module_hooks(installed: _Installed) -> None:
    """Hooks that modules get and lose, outside of a trace."""
    _HEARING.append(installed)
    installed.at_end(functools.partial(_HEARING.remove, installed))
    installed.replace("hooks of modules", torch.utils.hooks.RemovableHandle, "__init__", _create_handle)
    installed.replace("hooks of modules", torch.utils.hooks.RemovableHandle, "remove", _remove_handle)


_HEARING: list[_Installed] = []
"""Who hears of hooks. It is no variable of the functions below: a trace of them represents all of their closure."""


def _create_handle(real: Callable[..., Any], self: Any, hooks_dict: Any, **options: Any) -> None:
    real(self, hooks_dict, **options)
    if not torch.compiler.is_compiling():  # a constant to a trace, which then has nothing of ours
        _tell_of_hook(hooks_dict, self.id)


def _remove_handle(real: Callable[..., Any], self: Any) -> None:
    real(self)
    if not torch.compiler.is_compiling():
        for installed in _HEARING:
            installed.tell("hooks of modules", installed.listener.hook_removed, self.id)


def _tell_of_hook(hooks: Any, identity: int) -> None:
    """Report a hook of a module: the one who registers it is found above the handle that he gets."""
    frame: Any = sys._getframe(1)
    for _ in range(_FRAMES_TO_REGISTRATION):
        if frame is None:
            return
        code = frame.f_code
        if code.co_filename == torch.nn.modules.module.__file__ and code.co_name.startswith("register_"):
            module = frame.f_locals.get("self")
            if getattr(torch._dynamo.config, "skip_nnmodule_hook_guards", False) or module is None:
                for installed in _HEARING:
                    heard = installed.listener.hook_registered
                    installed.tell("hooks of modules", heard, module, code.co_name, hooks, identity)
            return
        frame = frame.f_back


_FRAMES_TO_REGISTRATION = 6


def _listen_to_variables(installed: _Installed) -> None:
    """Environment variables that the trace reads; torch has a guard only on one that os.environ finds."""
    readers = (os.getenv, type(os.environ).__getitem__)

    def inline_call(
        real: Callable[..., Any],
        parent: Any,
        function: Any,
        args: Any,
        kwargs: Any,
        *more: Any,
        **options: Any,
    ) -> Any:
        if getattr(function, "fn", None) in readers:
            given = (getattr(argument, "value", None) for argument in (*args, *kwargs.values()))
            name = next((value for value in given if isinstance(value, str)), None)
            if name is not None:
                installed.tell("variables", installed.listener.variable_read, name)
        return real(parent, function, args, kwargs, *more, **options)

    translator = torch._dynamo.symbolic_convert.InliningInstructionTranslator
    installed.replace("variables", translator, "inline_call", inline_call)


def _listen_to_changes(installed: _Installed) -> None:
    """Changes of containers that the trace has seen, and that compiled code does not make."""
    changes, feature = ContainerChanges(), "lost changes"

    def report(side_effects: Any, generated: set[int]) -> None:
        for change in changes.lost(side_effects, generated):
            installed.tell(feature, installed.listener.change_lost, change)

    def mutation(real: Callable[..., Any], self: Any, variable: Any, *args: Any, **kwargs: Any) -> Any:
        installed.tell(feature, changes.changing, self, variable)
        return real(self, variable, *args, **kwargs)

    def generate(real: Callable[..., Any], self: Any, codegen: Any, *args: Any, **kwargs: Any) -> Any:
        with generated_values(codegen) as generated:
            result = real(self, codegen, *args, **kwargs)
        installed.tell(feature, report, self, generated)
        return result

    owner = side_effects_class()
    installed.replace(feature, owner, "mutation", mutation)
    installed.replace(feature, owner, "codegen_update_mutated", generate)


def _listen_to_lookups(installed: _Installed) -> None:
    """Lookups by objects of the program, on which torch has no guard."""

    def report(container: Any, key: Any) -> None:
        lookup = read_lookup(container, key)
        if lookup is not None:
            installed.tell("lookups", installed.listener.key_looked_up, lookup)

    def look_up(real: Callable[..., Any], self: Any, *args: Any, **kwargs: Any) -> Any:
        if args:
            installed.tell("lookups", report, self, args[-1])
        return real(self, *args, **kwargs)

    for model, name in lookup_methods():
        installed.replace("lookups", model, name, look_up)


def _listen_to_identity(installed: _Installed) -> None:
    """Comparisons by `is` of two objects that are different: torch has no guard that they are."""

    def report(left: Any, right: Any) -> None:
        check = read_check(left, right)
        if check is not None:
            installed.tell("identity", installed.listener.identity_checked, check)

    def compare(real: Callable[..., Any], left: Any, right: Any) -> Any:
        outcome = real(left, right)
        if outcome is not None and outcome.as_python_constant() is False:
            installed.tell("identity", report, left, right)
        return outcome

    module = comparing_module()
    if module is not None:
        installed.replace("identity", module, COMPARISON[1], compare)


def _listen_to_lines(installed: _Installed) -> None:
    """Report the traced line from time to time. The wrapper runs at each line, so it only reads the clock."""
    due = time.monotonic() + LINE_EVERY

    def starts_line(real: Callable[..., Any], self: Any, lineno: int) -> None:
        nonlocal due
        real(self, lineno)
        now = time.monotonic()
        if now >= due:
            due = now + LINE_EVERY
            installed.tell("lines", installed.listener.line_reached, self)

    translator = torch._dynamo.symbolic_convert.InstructionTranslatorBase
    installed.replace("lines", translator, "starts_line", starts_line)


def _listen_to_steps(installed: _Installed, steps: StepListener) -> None:
    """Report the instructions of the user's code. The wrapper runs at every instruction; other code costs a lookup."""
    traces, started, traced = steps.traces, steps.instruction_started, steps.instruction_traced

    def stopped(translator: Any) -> None:
        steps.trace_stopped(translator.f_code, translator.instructions, translator.symbolic_locals)

    def step(real: Callable[..., Any], self: Any) -> Any:
        code, at = self.f_code, self.instruction_pointer
        if at is None or not traces(code):
            return real(self)
        instruction = self.instructions[at]
        installed.tell("facts", started, code, instruction, self.stack)
        try:
            goes_on = real(self)
        except Exception:
            installed.tell("facts", stopped, self)
            raise
        if goes_on or instruction.opname.startswith("RETURN_"):
            jumped = self.instruction_pointer != at + 1
            installed.tell("facts", functools.partial(traced, jumped=jumped), code, instruction, self.stack)
        else:  # the instruction broke the graph
            installed.tell("facts", stopped, self)
        return goes_on

    translator = torch._dynamo.symbolic_convert.InstructionTranslatorBase
    installed.replace("values of expressions", translator, "step", step)
