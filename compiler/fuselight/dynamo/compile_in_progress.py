"""One running compile of a frame: collects what the hooks report and builds the Compile from it.

Invariant: what no hook reported is absent from the Compile, never made up.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from types import CodeType

from fuselight.dynamo import eager_frames, guards
from fuselight.dynamo.symbols import SymbolLog
from fuselight.dynamo.wrappers import Callee
from fuselight.report import Compile, Graph, Outcome, Stack
from fuselight.torch_api import artifacts


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
            guards=self.callee.guards(self.guards.kept) if self.guards else (),
            guard_count=self.guards.count if self.guards else None,
            guard_places=self.guards.places if self.guards else (),
            guard_us=self.guard_us,
            symbols=self.callee.symbols(self.symbols.read()),
            seconds=seconds,
            restarts=tuple(self.restarts),
            caller=self.caller,
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
