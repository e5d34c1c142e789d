"""Recompilations of a run, with the guards that failed and where each of them was born."""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from fuselight.adapters.torch_api.dynamo import frames
from fuselight.capture.dynamo import guards, recompiles, stacks
from fuselight.capture.dynamo.compile_under_way import CompileUnderWay
from fuselight.capture.dynamo.wrappers import callee_of
from fuselight.shared.report import Recompile


class RecompileLog:
    """The births of all guards that live, by their manager, and the recompilations that their failures caused."""

    def __init__(self, roots: tuple[str, ...]) -> None:
        self._roots = roots
        self._recompiles: list[Recompile] = []
        self.births: weakref.WeakKeyDictionary[Any, guards.Births] = weakref.WeakKeyDictionary()

    def all(self) -> tuple[Recompile, ...]:
        """The recompilations, in their order."""
        return tuple(self._recompiles)

    def add_guards(self, manager: Any, output_graph: Any, run: CompileUnderWay | None) -> guards.Guards:
        """Read the guards of a compile; `run` is None if it began before the recording."""
        frame_guards, births = guards.read_guards(manager, output_graph, self._roots)
        called = run.callee.inner_function if run else None
        self.births[manager] = births if called is None else replace(births, inner_function=called)
        return frame_guards

    def drop_guards(self, manager: Any, deleted: Any) -> None:
        """Torch replaced guards by `deleted`, because an object that they hold for is being freed."""
        known = self.births.get(manager)
        if known is not None:
            self.births[deleted] = replace(known, dropped=stacks.calling_frames())

    def add_failures(
        self,
        entries: Sequence[Any],
        frame: Any,
        backend: object,
        run: CompileUnderWay | None,
        call: int | None,
    ) -> None:
        """No cache entry of a frame matches; `run` is the compile that this leads to, if it has begun."""
        callee = run.callee if run else callee_of(frame.f_code, frame.f_locals, self._roots)
        called = callee.inner_function
        mismatches = recompiles.read_mismatches(entries, frame, backend, self.births, called)
        self._recompiles.append(
            Recompile(
                function=callee.function,
                location=callee.location,
                entries=callee.mismatches(mismatches),
                compile_id=run.compile_id if run else frames.current_compile_id(),
                caller=run.caller if run else (),
                call=call,
            )
        )
        if run:
            run.recompile = len(self._recompiles) - 1

    def add_reasons(self, reasons: Sequence[str]) -> None:
        """Torch's own text for the newest recompilation."""
        if self._recompiles:
            self._recompiles[-1] = replace(self._recompiles[-1], reasons=tuple(reasons))

    def prevent(self, index: int) -> None:
        """A limit prevented the compile that this recompilation asked for."""
        self._recompiles[index] = replace(self._recompiles[index], compile_id=None)
