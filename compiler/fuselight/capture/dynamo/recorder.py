"""Records everything that Dynamo does while the recorder is entered.

Invariant: the recorder changes no decision of torch's. Hooks run inside a compile only, an exception in a hook becomes
a Problem, and on exit every replaced attribute of torch is restored. What no hook reported is absent, never made up:
the stack of a specialized symbol is the traced one at the moment when torch specialized it.
"""

from __future__ import annotations

import contextlib
import itertools
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import CodeType, FrameType
from typing import Any

import torch

from fuselight.adapters.torch_api import settings
from fuselight.adapters.torch_api.dynamo import errors, frames, hooks
from fuselight.adapters.torch_api.dynamo.identity_checks import IdentityCheck
from fuselight.adapters.torch_api.dynamo.key_lookups import KeyLookup
from fuselight.adapters.torch_api.dynamo.lost_changes import LostChange
from fuselight.adapters.torch_api.inductor import artifacts
from fuselight.capture.dynamo import eager_frames, graphs, guards, stacks
from fuselight.capture.dynamo.compile_under_way import CompileUnderWay
from fuselight.capture.dynamo.facts import FactLog
from fuselight.capture.dynamo.forecast_frames import ForecastFrames
from fuselight.capture.dynamo.frame_log import FrameLog, is_in_thread
from fuselight.capture.dynamo.modes import ModeLog
from fuselight.capture.dynamo.recompile_log import RecompileLog
from fuselight.capture.dynamo.unguarded_changes import UnseenLog
from fuselight.capture.dynamo.wrappers import callee_of
from fuselight.shared.report import (
    Break,
    Compile,
    Failure,
    Frame,
    FrameForecast,
    Location,
    NotCompiled,
    NotCompiledKind,
    Problem,
    Recompile,
    Stack,
    TracedFacts,
    UnseenChange,
    add_break,
)


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
    some functions are kept, for `forecasts`.
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
        self._frames = FrameLog()
        self._compiles: list[Compile] = []
        self._breaks: list[Break] = []
        self._recompiles = RecompileLog(roots)
        self._problems: dict[Problem, None] = {}
        self._texts: dict[str, str] = {}
        self._asked = ForecastFrames(roots)
        self._unseen = UnseenLog()
        self.nodes = stacks.NodeStacks()
        """Where the operators of all captured graphs stand."""
        self.modes: ModeLog | None = None
        """What the program sets, if the modes of compiles are recorded."""

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
            self._frames.refuse(uncompiled_code)
        return uncompiled_code

    def parts(self) -> Parts:
        """The parts recorded up to now."""
        return Parts(
            frames=self._frames.frames(),
            compiles=tuple(self._compiles),
            breaks=tuple(self._breaks),
            recompiles=self._recompiles.all(),
            not_compiled=self._frames.refused(),
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
        return self._asked.forecasts(
            self._recompiles.births, self._unseen.paused, lambda error: self.broke("forecast", error)
        )

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
        callee = callee_of(code, f_locals, self._roots)
        run = CompileUnderWay(code, callee, compile_id, stacks.without_resumed(above, code))
        run.makes_dynamic = settings.makes_dynamic()
        run.own_limit = frames.own_limit(_caller())
        run.modes = self.modes.read() if self.modes is not None else ()
        self._running.append(run)
        self._frames.add(code, callee)
        if self._facts is not None:
            self._asked.keep_locals(code, callee, f_locals)
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
            or not is_in_thread()
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

    def _keep_compile(
        self, run: CompileUnderWay, result: object, error: BaseException | None, seconds: float
    ) -> None:
        if error is not None:
            frames.keep_positions(error)
        if run.limit is not None:
            if not isinstance(error, errors.RecompileLimitHit):  # of fullgraph=True: the call failed
                refused = eager_frames.limit_reached(
                    run.code, run.limit, run.own_limit, caller=run.caller, call=self._call
                )
                self._frames.refuse_for_limit(refused, run.code)
            return  # nothing was compiled: only the refusal is reported
        frame = self._frames.add(run.code, run.callee)
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
        graph_break = replace(graph_break, in_thread=is_in_thread())
        if run is not None:
            graph_break = replace(graph_break, frame_function=run.callee.function)
        add_break(self._breaks, graph_break)
        if graph_break.rest_from is not None and run is not None:
            self._frames.refuse(eager_frames.rest_skipped(graph_break, run.code, run.caller), run.code)

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
            variables=artifacts.local_scope(output_graph) or {},
            used=artifacts.used_globals(output_graph),
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

    def key_looked_up(self, lookup: KeyLookup) -> None:
        """The trace looks a key up by an object, on which torch makes no guard."""
        self._unseen.key_looked_up(lookup)

    def identity_checked(self, check: IdentityCheck) -> None:
        """The trace compares two objects, and torch makes no guard that they are different."""
        self._unseen.identity_checked(check)

    def change_lost(self, change: LostChange) -> None:
        """The compile under way changes a container in eager mode only."""
        if self._running:
            run = self._running[-1]
            self._unseen.change_lost(run.callee.function, run.callee.location, change)

    def guards_built(self, manager: Any, output_graph: Any) -> None:
        """Dynamo built the guards of a compile."""
        run = self._running[-1] if self._running else None
        frame_guards = self._recompiles.add_guards(manager, output_graph, run)
        if run is None:
            return
        run.guards = frame_guards
        run.symbols.name_variables(
            artifacts.global_scope(output_graph), artifacts.local_scope(output_graph) or {}
        )
        run.guard_us = guards.check_latency(manager, output_graph)
        if run.graph is not None:
            self._unseen.guarded(manager, artifacts.global_scope(output_graph))

    def guards_dropped(self, manager: Any, deleted: Any) -> None:
        """Torch dropped compiled code, because an object that it was compiled for is being freed."""
        self._recompiles.drop_guards(manager, deleted)

    def guards_failed(self, entries: Sequence[Any], frame: Any, backend: object) -> None:
        """No cache entry matches, so Dynamo compiles the frame again."""
        if stacks.is_ours(frame.f_code.co_filename):
            return
        run = self._running[-1] if self._running else None
        with self._unseen.paused():
            self._recompiles.add_failures(entries, frame, backend, run, self._call)

    def guards_reasoned(self, reasons: Sequence[str]) -> None:
        """Torch's own text for the recompilation that was just recorded."""
        self._recompiles.add_reasons(reasons)

    def limit_checked(self, exceeded: bool, limit: str) -> None:  # noqa: FBT001 - torch's own pair
        """Whether the frame may be compiled once more."""
        if not exceeded or not self._running:
            return
        run = self._running[-1]
        run.limit = limit
        if run.recompile is not None:
            self._recompiles.prevent(run.recompile)

    def frame_fell_back(self, error: BaseException, code: CodeType) -> None:
        """A frame continues in eager mode because of an exception that Dynamo catches."""
        if eager_frames.is_limit(error):
            return  # `limit_checked` reports it, with the reasons
        if stacks.is_ours(code.co_filename):
            return
        self._mark_skipping_break(code)
        uncompiled_code = eager_frames.fell_back(error, code, caller=self._caller(code), call=self._call)
        self._frames.refuse(uncompiled_code, code)

    def frame_without_tensors(self, code: CodeType) -> None:
        """A frame has nothing to compile."""
        if stacks.resumes_at(code) is not None:
            return  # the rest of a function after a graph break, whose arguments are what it had left
        if stacks.is_user_code(code.co_filename, self._roots):
            reason = "no argument and no global that it uses holds a tensor"
            self._frames.refuse(
                eager_frames.refused(NotCompiledKind.NO_TENSORS, code, reason, self._caller(code), self._call)
            )

    def frame_skipped(self, reason: str, code: CodeType) -> None:
        """A frame was not compiled. Other hooks report most reasons in more detail."""
        if not stacks.is_user_code(code.co_filename, self._roots):
            return
        uncompiled_code = eager_frames.skipped(reason, code, caller=self._caller(code), call=self._call)
        if uncompiled_code is not None:
            self._frames.refuse(uncompiled_code)

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

    def _caller(self, code: CodeType) -> Stack:
        above = stacks.from_frames(frames.frames_above(_caller()))
        return stacks.without_resumed(self._in_user_code(above, code, {}), code)

    def _mark_skipping_break(self, code: CodeType) -> None:
        """Mark the newest break of a frame as the reason why the frame fell back to eager mode."""
        if not self._breaks or not self._compiles or self._breaks[-1].compile_id != self._compiles[-1].id:
            return
        if self._frames.frames()[self._compiles[-1].frame].location == self._frames.location(code):
            self._breaks[-1] = replace(self._breaks[-1], frame_skipped=True)


def _caller() -> FrameType:
    return sys._getframe(1)  # noqa: SLF001 - the documented way to walk the caller's stack
