"""One compile while it runs, and the symbols of its sizes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import CodeType
from typing import Any

from fuselight.adapters.torch_api.dynamo import frames
from fuselight.adapters.torch_api.inductor import artifacts
from fuselight.capture.dynamo import eager_frames, guards, stacks
from fuselight.capture.dynamo.variable_names import with_variable_names
from fuselight.capture.dynamo.wrappers import Callee
from fuselight.shared import torch_texts
from fuselight.shared.report import Compile, Graph, Mode, Outcome, Stack, Symbol


@dataclass
class _Born:
    symbol: Any
    source: str
    value: str
    marked: bool
    is_default: bool


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
        words, is_default = torch_texts.in_user_words(name), torch_texts.is_default(name)
        self.born.setdefault(name, _Born(symbol, words, str(value), marked, is_default))

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

    def name_variables(self, scope: Mapping[str, object], f_locals: Mapping[str, object]) -> None:
        """Name what functions hold, once the variables of the compiled function are known."""
        for born in self.born.values():
            born.source = with_variable_names(born.source, scope, f_locals)

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
                is_default=born.is_default,
                reason="torch compiles sizes 0 and 1 separately" if born.value in {"0", "1"} else None,
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
            is_default=born.is_default,
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
    own_limit: int | None = None
    """The argument `recompile_limit` of its torch.compile."""
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
            own_limit=self.own_limit,
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
