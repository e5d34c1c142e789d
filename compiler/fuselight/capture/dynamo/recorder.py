"""Records everything that Dynamo does while the recorder is entered.

Invariant: the recorder changes no decision of torch's. Hooks run inside a compile only, an exception in a hook becomes
a Problem, and on exit every replaced attribute of torch is restored. What no hook reported is absent, never made up:
the stack of a specialized symbol is the traced one at the moment when torch specialized it.
"""

from __future__ import annotations

import contextlib
import itertools
import sys
import threading
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import CodeType, FrameType
from typing import Any

import torch

from fuselight.adapters.torch_api import settings
from fuselight.adapters.torch_api.dynamo import errors, frames, hooks
from fuselight.adapters.torch_api.inductor import artifacts
from fuselight.capture.dynamo import eager_frames, graphs, guards, recompiles, stacks
from fuselight.capture.dynamo.facts import FactLog
from fuselight.capture.dynamo.forecast import (
    CompiledFrame,
    copied_locals,
    does_something_at_its_end,
    forecast,
)
from fuselight.capture.dynamo.modes import ModeLog
from fuselight.capture.dynamo.unguarded_changes import UnseenLog
from fuselight.capture.dynamo.wrappers import Callee, callee_of
from fuselight.shared import torch_texts
from fuselight.shared.report import (
    Break,
    Compile,
    Failure,
    Frame,
    FrameForecast,
    Graph,
    Location,
    Mode,
    NotCompiled,
    NotCompiledKind,
    Outcome,
    Problem,
    Recompile,
    Stack,
    Symbol,
    TracedFacts,
    UnseenChange,
)

FORECAST_FRAMES = 16
"""Functions, and parts of functions after graph breaks, of which the locals of one call stay alive during the run."""


@dataclass
class _Born:
    symbol: Any
    source: str
    value: str
    marked: bool


@dataclass
class SymbolLog:
    """Symbols of the newest attempt at one compile: a restart begins with a new ShapeEnv, and so does the log."""

    shape_env: Any = None
    born: dict[str, _Born] = field(default_factory=dict)
    fixed: dict[str, tuple[str, str, Stack]] = field(default_factory=dict)

    def _enter(self, shape_env: Any) -> None:
        if shape_env is not self.shape_env:
            self.shape_env = shape_env
            self.born.clear()
            self.fixed.clear()

    def created(self, shape_env: Any, symbol: object, value: object, source: Any, *, marked: bool) -> None:
        """A size was given to the ShapeEnv: it became a symbol, or a number at once."""
        self._enter(shape_env)
        name = artifacts.source_name(source)
        if "storage_offset" in name and not artifacts.is_symbol(symbol):
            return  # nearly every tensor starts at 0 of its storage
        self.born.setdefault(name, _Born(symbol, torch_texts.in_user_words(name), str(value), marked))

    def specialized(self, shape_env: Any, symbol: object, value: object, reason: str) -> None:
        """A symbol was specialized to a number. Only the first time is kept: it is the one that the user can act on.

        torch finds out late that a symbol is fixed which equals others: the line that fixed those did it.
        """
        self._enter(shape_env)
        equals = artifacts.replacing_symbols(shape_env, symbol)
        if equals and equals <= self.fixed.keys():
            _, reason, stack = next(facts for name, facts in reversed(self.fixed.items()) if name in equals)
        else:
            stack = stacks.from_summaries(frames.user_stack())
        self.fixed.setdefault(str(symbol), (artifacts.number_text(value), reason, stack))

    def read(self) -> tuple[Symbol, ...]:
        """Each size that could have been dynamic, as a Symbol."""
        return tuple(self._read(born) for born in self.born.values())

    def _read(self, born: _Born) -> Symbol:
        if not artifacts.is_symbol(born.symbol):
            return Symbol(
                name=str(born.symbol),
                source=born.source,
                hint=born.value,
                specialized_to=artifacts.number_text(born.symbol),
                marked=born.marked,
                reason="sizes 0 and 1 are always specialized" if born.value in {"0", "1"} else None,
            )
        hint, bounds = artifacts.symbol_facts(self.shape_env, born.symbol)
        value, reason, stack = self.fixed.get(str(born.symbol), (None, None, ()))
        return Symbol(
            name=str(born.symbol),
            source=born.source,
            hint=hint,
            range=bounds,
            specialized_to=value,
            marked=born.marked,
            reason=reason,
            stack=stack,
        )


@dataclass
class CompileUnderWay:
    """One compile that is running."""

    code: CodeType
    callee: Callee
    compile_id: str
    caller: Stack
    graph: Graph | None = None
    guards: guards.Guards | None = None
    guard_us: float | None = None
    restarts: list[str] = field(default_factory=list)
    symbols: SymbolLog = field(default_factory=SymbolLog)
    recompile: int | None = None
    """Index of its Recompile in the recording; None for the first compile of a frame."""
    limit: str | None = None
    """The recompile limit that prevented this compile."""
    makes_dynamic: bool | None = None
    """Whether a size that changed becomes dynamic in this compile."""
    modes: tuple[Mode, ...] = ()
    """As it started, those of torch; then those of the modules that its graph calls."""
    module_modes: tuple[Mode, ...] = ()

    def restarted(self, reason: str) -> None:
        """Record that Dynamo restarted the trace."""
        self.restarts.append(reason.split("\n", 1)[0])

    def ended(
        self, result: object, error: BaseException | None, seconds: float, *, frame: int, call: int | None
    ) -> Compile:
        """Return the finished Compile; `frame` is the number of its frame in the recording."""
        outcome = self._outcome(result, error)
        return Compile(
            id=self.compile_id,
            frame=frame,
            outcome=outcome,
            call=call,
            graph=self.graph if outcome is Outcome.COMPILED else None,
            guards=self.callee.sources(self.guards.kept) if self.guards else (),
            guard_count=self.guards.count if self.guards else None,
            guard_places=self.guards.places if self.guards else (),
            guard_us=self.guard_us,
            symbols=self.callee.sources(self.symbols.read()),
            seconds=seconds,
            restarts=tuple(self.restarts),
            caller=self.caller,
            makes_dynamic=self.makes_dynamic,
            modes=(*self.modes, *self.module_modes),
        )

    def _outcome(self, result: object, error: BaseException | None) -> Outcome:
        if error is not None:
            return Outcome.SKIPPED if eager_frames.is_graph_break(error) else Outcome.FAILED
        if artifacts.is_empty_result(result):
            return (
                Outcome.SKIPPED
                if (artifacts.skip_reason(result) or "").find("No ops traced") < 0
                else Outcome.EMPTY
            )
        return Outcome.COMPILED if self.graph is not None else Outcome.EMPTY


@dataclass(frozen=True)
class Parts:
    """What was recorded, as fields of a Report."""

    frames: tuple[Frame, ...] = ()
    compiles: tuple[Compile, ...] = ()
    breaks: tuple[Break, ...] = ()
    recompiles: tuple[Recompile, ...] = ()
    not_compiled: tuple[NotCompiled, ...] = ()
    unseen: tuple[UnseenChange, ...] = ()
    failures: tuple[Failure, ...] = ()
    problems: tuple[Problem, ...] = ()
    texts: dict[str, str] = field(default_factory=dict)


class Recorder:
    """Records Dynamo between `__enter__` and `__exit__`.

    `roots` are the user's folders: frames outside them that hold no tensors are not reported.
    `on_frame(count, path, line)` is called when the trace of a frame starts, `on_line(path, line)` from time to time
    with the traced line, `on_call(code, f_locals)` with the inputs of each call that compiles, and `on_compiled()` when
    the compile of a frame ends. They run inside the user's compile; an exception of theirs becomes a Problem.
    `compiled_at(code, f_locals)` gives the line that passed what a frame is a call of to torch.compile, if known. With
    `facts`, what each expression of the user's files was is recorded too, and the locals of the last compiled call of
    at most `FORECAST_FRAMES` functions are kept, for `forecasts`: the first one that compiles, and the user's.
    """

    def __init__(
        self,
        *,
        roots: tuple[str, ...],
        on_frame: Callable[[int, str, int], None] | None = None,
        on_line: Callable[[str, int], None] | None = None,
        on_call: Callable[[CodeType, Mapping[str, object]], None] | None = None,
        on_compiled: Callable[[], None] | None = None,
        compiled_at: Callable[[CodeType, Mapping[str, object]], Location | None] | None = None,
        facts: bool = False,
    ) -> None:
        self._roots = roots
        self._facts = FactLog(roots) if facts else None
        self._on_frame = on_frame
        self._on_line = on_line
        self._on_call = on_call
        self._on_compiled = on_compiled
        self._compiled_at = compiled_at
        self._exit = contextlib.ExitStack()
        self._running: list[CompileUnderWay] = []
        self._call: int | None = None
        self._frames: dict[tuple[object, ...], int] = {}
        self._frame_list: list[Frame] = []
        self._callees: dict[CodeType, Callee] = {}
        self._compiles: list[Compile] = []
        self._breaks: list[Break] = []
        self._recompiles: list[Recompile] = []
        self._not_compiled: dict[NotCompiled, None] = {}
        self._problems: dict[Problem, None] = {}
        self._texts: dict[str, str] = {}
        self._asked: dict[CodeType, CompiledFrame] = {}
        self._unseen = UnseenLog()
        self.nodes = stacks.NodeStacks()
        """Where the operators of all captured graphs stand."""
        self.modes: ModeLog | None = None
        """What the program sets, if the modes of compiles are recorded."""
        self._births: weakref.WeakKeyDictionary[Any, guards.Births] = weakref.WeakKeyDictionary()

    def __enter__(self) -> Recorder:  # noqa: PYI034 - `Self` is younger than Python 3.10
        self._exit.enter_context(hooks.listen(self, lines=self._on_line is not None, steps=self._facts))
        return self

    def __exit__(self, *exc: object) -> None:
        self._exit.close()
        self._unseen.close()

    @contextlib.contextmanager
    def call(self, index: int) -> Iterator[None]:
        """TracedFacts recorded inside the block belong to call `index`."""
        before, self._call = self._call, index
        try:
            yield
        finally:
            self._call = before

    def inspect_target(self, target: object) -> NotCompiled | None:
        """Record that calling `target` never reaches Dynamo, if it is disabled: torch leaves no trace of that."""
        uncompiled_code = eager_frames.disabled(target)
        if uncompiled_code is not None:
            self._refuse(uncompiled_code)
        return uncompiled_code

    def parts(self) -> Parts:
        """The parts recorded up to now."""
        return Parts(
            frames=tuple(self._frame_list),
            compiles=tuple(self._compiles),
            breaks=tuple(self._breaks),
            recompiles=tuple(self._recompiles),
            not_compiled=tuple(self._not_compiled),
            unseen=self._unseen.changes(),
            problems=(*self._problems, *(self._facts.problems() if self._facts else ())),
            texts=dict(self._texts),
        )

    @property
    def has_facts(self) -> bool:
        """Whether it records what expressions were."""
        return self._facts is not None

    def facts(self) -> TracedFacts:
        """What the expressions of the user's files were in the compiles that ended."""
        return TracedFacts() if self._facts is None else self._facts.facts()

    def forecasts(self) -> tuple[FrameForecast, ...]:
        """What would compile each function again; to be called in the modes of the recorded calls."""
        forecasts = []
        for frame in self._asked.values():
            try:
                with self._unseen.paused():
                    forecasts.append(forecast(frame, self._births, self._roots))
            except Exception as error:  # noqa: BLE001 - the report is worth more than its forecast
                self.broke("forecast", error)
        return tuple(frame_forecast for frame_forecast in forecasts if frame_forecast is not None)

    # What follows is `hooks.Listener`.

    def broke(self, stage: str, error: Exception) -> None:
        """A hook of Fuselight's raised: its fact is lost, and the user's compile continues."""
        where = stacks.innermost_of_ours(error)
        self._problems.setdefault(
            Problem(stage, f"a fact was lost at {where}", f"{type(error).__name__}: {error}")
        )

    def unavailable(self, feature: str, why: str) -> None:
        """This torch lacks what a feature needs."""
        self._problems.setdefault(Problem("dynamo", f"{feature} cannot be recorded", why))

    def compile_started(self, code: CodeType, f_locals: Mapping[str, object], compile_id: str) -> None:
        """Dynamo starts to compile a frame."""
        if self._facts is not None:
            self._facts.compile_started()
        self._unseen.compile_started()
        above = self._in_user_code(stacks.from_frames(frames.frames_above(_caller())), code, f_locals)
        callee = self._callees[code] = callee_of(code, f_locals, self._roots)
        run = CompileUnderWay(code, callee, compile_id, stacks.without_resumed(above, code))
        run.makes_dynamic = settings.makes_dynamic()
        run.modes = self.modes.read() if self.modes is not None else ()
        self._running.append(run)
        self._frame(code, callee)
        self._keep_locals(code, callee, f_locals)
        if self._on_frame is not None:
            line = stacks.resumes_at(code) or code.co_firstlineno
            self._on_frame(len(self._compiles) + len(self._running), code.co_filename, line)
        if self._on_call is not None:
            self._on_call(code, f_locals)

    def _in_user_code(self, above: Stack, code: CodeType, f_locals: Mapping[str, object]) -> Stack:
        """The stack above a frame; in a thread without a line of the user's, below the line that compiles it.

        As in `pool.submit(model, x)`: the line that gave the call to the thread is on no stack.
        """
        find = self._compiled_at
        if (
            find is None
            or not _is_in_thread()
            or any(stacks.is_user_code(location.path, self._roots) for location in above)
        ):
            return above
        calls = ((frame.f_code, frame.f_locals) for frame in frames.frames_above(_caller()))
        places = (find(code, variables) for code, variables in itertools.chain([(code, f_locals)], calls))
        place = next((location for location in places if location is not None), None)
        return above if place is None else (place, *above)

    def compile_ended(self, result: object, error: BaseException | None, seconds: float) -> None:
        """Dynamo finished the frame of the last `compile_started`."""
        if self._facts is not None:
            self._facts.compile_ended()
        self._keep_compile(self._running.pop(), result, error, seconds)
        if self._on_compiled is not None:
            self._on_compiled()

    def _keep_locals(self, code: CodeType, callee: Callee, f_locals: Mapping[str, object]) -> None:
        if self._facts is None:
            return
        # The first function is the target itself: a model of a library is forecast like the user's.
        first = next(iter(self._asked.values())).callee if self._asked else callee
        is_asked = callee.location == first.location or stacks.is_user_code(callee.location.path, self._roots)
        if self._asked and does_something_at_its_end(f_locals):
            self._asked.pop(code, None)
        elif code in self._asked or (is_asked and len(self._asked) < FORECAST_FRAMES):
            self._asked[code] = CompiledFrame(code, callee, copied_locals(f_locals))

    def _keep_compile(
        self, run: CompileUnderWay, result: object, error: BaseException | None, seconds: float
    ) -> None:
        if error is not None:
            frames.keep_positions(error)
        if run.limit is not None:
            self._refuse_for_limit(run, run.limit, error)
            return  # nothing was compiled: only the refusal is reported
        frame = self._frame(run.code, run.callee)
        self._compiles.append(run.ended(result, error, seconds, frame=frame, call=self._call))

    def line_reached(self, translator: Any) -> None:
        """Dynamo traces a line."""
        if self._on_line is None:
            return
        for path, line in frames.traced_places(translator):
            if stacks.is_shown(path):
                self._on_line(stacks.absolute(path), line)
                return

    def restarted(self, reason: str) -> None:
        """Dynamo restarted the trace of a frame with what it learned."""
        if self._facts is not None:
            self._facts.restarted()
        self._unseen.compile_started()
        if self._running:
            self._running[-1].restarted(reason)

    def graph_break(self, translator: Any, reason: str, error: Any) -> None:
        """Dynamo handles a graph break."""
        run = self._running[-1] if self._running else None
        if run is not None and stacks.is_ours(run.code.co_filename) and run.callee.wrapper is None:
            return  # code of ours that calls a function of the user's breaks where that function does
        graph_break = eager_frames.read_break(
            translator,
            reason,
            error,
            compile_id=run.compile_id if run else frames.current_compile_id() or "?",
            above=run.caller if run else (),
            call=self._call,
        )
        graph_break = replace(graph_break, in_thread=_is_in_thread())
        self._breaks.append(replace(graph_break, frame_function=run.callee.function) if run else graph_break)
        if graph_break.rest_from is not None and run is not None:
            self._refuse(
                self._as_known(eager_frames.rest_skipped(graph_break, run.code, run.caller), run.code)
            )

    def graph_captured(self, output_graph: Any, module: torch.fx.GraphModule) -> None:
        """A graph goes to the backend."""
        if not self._running:
            return
        run = self._running[-1]
        run.graph = graphs.read_graph(module, self._texts)
        self.nodes.add_graph(run.code, module)
        self._unseen.compiled(
            run.callee.function,
            run.callee.location,
            run.code,
            modules=artifacts.called_modules(module),
            traced=frames.traced_codes(),
            values=[
                *(artifacts.local_scope(output_graph) or {}).values(),
                *artifacts.used_globals(output_graph),
            ],
        )
        if self.modes is not None:
            run.module_modes = self.modes.of_modules(self._unseen.last_modules())

    def hook_registered(self, module: Any, kind: str, hooks: Any, identity: int) -> None:
        """A module, or None for all modules, gets a hook."""
        self._unseen.hook_registered(module, kind, hooks, identity)

    def hook_removed(self, identity: int) -> None:
        """A hook is removed."""
        self._unseen.hook_removed(identity)

    def variable_read(self, name: str) -> None:
        """The trace reads an environment variable, on which torch makes no guard."""
        self._unseen.variable_read(name)

    def guards_built(self, manager: Any, output_graph: Any) -> None:
        """Dynamo built the guards of a compile."""
        frame_guards, self._births[manager] = guards.read_guards(output_graph, self._roots)
        if not self._running:
            return
        self._running[-1].guards = frame_guards
        self._running[-1].guard_us = guards.check_latency(manager, output_graph)
        if self._running[-1].graph is not None:
            self._unseen.guarded(manager)

    def guards_dropped(self, manager: Any, deleted: Any) -> None:
        """Torch dropped compiled code, because an object that it was compiled for is being freed."""
        known = self._births.get(manager)
        if known is not None:
            self._births[deleted] = replace(known, dropped=stacks.calling_frames())

    def guards_failed(self, entries: Sequence[Any], frame: Any, backend: object) -> None:
        """No cache entry matches, so Dynamo compiles the frame again."""
        if stacks.is_ours(frame.f_code.co_filename):
            return
        run = self._running[-1] if self._running else None
        callee = run.callee if run else callee_of(frame.f_code, frame.f_locals, self._roots)
        with self._unseen.paused():
            mismatches = recompiles.read_mismatches(entries, frame, backend, self._births)
        self._recompiles.append(
            Recompile(
                function=callee.function,
                location=callee.location,
                entries=callee.mismatches(mismatches),
                compile_id=run.compile_id if run else frames.current_compile_id(),
                caller=run.caller if run else (),
                call=self._call,
            )
        )
        if run:
            run.recompile = len(self._recompiles) - 1

    def guards_reasoned(self, reasons: Sequence[str]) -> None:
        """Torch's own text for the recompilation that was just recorded."""
        if self._recompiles:
            self._recompiles[-1] = replace(self._recompiles[-1], reasons=tuple(reasons))

    def limit_checked(self, exceeded: bool, limit: str) -> None:  # noqa: FBT001 - torch's own pair
        """Whether the frame may be compiled once more."""
        if not exceeded or not self._running:
            return
        run = self._running[-1]
        run.limit = limit
        if run.recompile is not None:
            self._recompiles[run.recompile] = replace(self._recompiles[run.recompile], compile_id=None)

    def frame_fell_back(self, error: BaseException, code: CodeType) -> None:
        """A frame continues in eager mode because of an exception that Dynamo catches."""
        if eager_frames.is_limit(error):
            return  # `limit_checked` reports it, with the reasons
        if stacks.is_ours(code.co_filename):
            return
        self._mark_skipping_break(code)
        uncompiled_code = eager_frames.fell_back(error, code, caller=self._caller(code), call=self._call)
        self._refuse(self._as_known(uncompiled_code, code))

    def frame_without_tensors(self, code: CodeType) -> None:
        """A frame has nothing to compile."""
        if stacks.resumes_at(code) is not None:
            return  # the rest of a function after a graph break, whose arguments are what it had left
        if stacks.is_user_code(code.co_filename, self._roots):
            reason = "no argument and no global that it uses holds a tensor"
            self._refuse(
                eager_frames.refused(NotCompiledKind.NO_TENSORS, code, reason, self._caller(code), self._call)
            )

    def frame_skipped(self, reason: str, code: CodeType) -> None:
        """A frame was not compiled. Other hooks report most reasons in more detail."""
        if not stacks.is_user_code(code.co_filename, self._roots):
            return
        uncompiled_code = eager_frames.skipped(reason, code, caller=self._caller(code), call=self._call)
        if uncompiled_code is not None:
            self._refuse(uncompiled_code)

    def symbol_created(
        self, shape_env: Any, symbol: object, value: object, source: Any, *, marked: bool
    ) -> None:
        """A size that may be dynamic was given to the ShapeEnv."""
        if self._running:
            self._running[-1].symbols.created(shape_env, symbol, value, source, marked=marked)

    def symbol_fixed(self, shape_env: Any, symbol: object, value: object, reason: str) -> None:
        """A symbol was fixed to a number."""
        if self._running:
            self._running[-1].symbols.specialized(shape_env, symbol, value, reason)
        elif stacks.is_called_by_export():  # which runs the code, and traces none of it
            self.nodes.add_fixed(artifacts.number_text(value), stacks.calling_frames())

    # Bookkeeping.

    def _refuse_for_limit(self, run: CompileUnderWay, limit: str, error: BaseException | None) -> None:
        """Report the limit once, although each later call without a matching cache entry reaches it again."""
        if isinstance(error, errors.RecompileLimitHit):
            return  # fullgraph=True: the call failed and did not continue in eager mode
        uncompiled_code = self._as_known(
            eager_frames.limit_reached(run.code, limit, caller=run.caller, call=self._call), run.code
        )
        if not any(
            (old.kind, old.location) == (uncompiled_code.kind, uncompiled_code.location)
            for old in self._not_compiled
        ):
            self._refuse(uncompiled_code)

    def _refuse(self, uncompiled_code: NotCompiled) -> None:
        self._not_compiled.setdefault(replace(uncompiled_code, in_thread=_is_in_thread()))

    def _as_known(self, uncompiled_code: NotCompiled, code: CodeType) -> NotCompiled:
        """The refusal, with the function name that the user knows."""
        callee = self._callees.get(code)
        if callee is None:
            return uncompiled_code
        return replace(
            uncompiled_code, function=callee.function, location=callee.location, wrapper=callee.wrapper
        )

    def _caller(self, code: CodeType) -> Stack:
        above = stacks.from_frames(frames.frames_above(_caller()))
        return stacks.without_resumed(self._in_user_code(above, code, {}), code)

    def _mark_skipping_break(self, code: CodeType) -> None:
        """Mark the newest break of a frame as the reason why the frame fell back to eager mode."""
        if not self._breaks or not self._compiles or self._breaks[-1].compile_id != self._compiles[-1].id:
            return
        callee = self._callees.get(code)
        location = callee.location if callee else stacks.def_location(code)
        if self._frame_list[self._compiles[-1].frame].location == location:
            self._breaks[-1] = replace(self._breaks[-1], frame_skipped=True)

    def _frame(self, code: CodeType, callee: Callee) -> int:
        resumed = stacks.resumes_at(code)
        original = frames.original_code(code)
        carried = None if resumed is None else stacks.carried(code)
        columns = None if resumed is None else stacks.resumes_in_line(code)
        key = (original.co_filename, callee.function, original.co_firstlineno, resumed, carried, columns)
        index = self._frames.setdefault(key, len(self._frame_list))
        if index == len(self._frame_list):
            taken = callee.parameters
            self._frame_list.append(
                Frame(
                    callee.function,
                    callee.location,
                    resumed,
                    parameters=taken,
                    wrapper=callee.wrapper,
                    wraps=callee.wraps,
                    carried=carried,
                )
            )
        return index


def _is_in_thread() -> bool:
    return threading.current_thread() is not threading.main_thread()


def _caller() -> FrameType:
    return sys._getframe(1)  # noqa: SLF001 - the documented way to walk the caller's stack
