"""Facts and names to targets: what the source compiles, and what a user can point at.

Listed are: everything that the source compiles, wherever it stands; every nn.Module subclass and every plain function
that can be reached from outside (not those inside a function); methods only when compiled or under a directive.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from fuselight_server.finding import Span
from fuselight_server.static.facts import Expression
from fuselight_server.static.names import owner_scope, signature
from fuselight_server.static.reading import StaticTarget

if TYPE_CHECKING:
    from collections.abc import Iterator

    from fuselight_server.static.facts import Binding, CompileExpression, Definition, Extent, Facts, Scope
    from fuselight_server.static.names import Names, Signature

PROVIDER = "example_inputs"
"""Name of the function of a file that gives the inputs of its targets."""
_OVERLOAD = frozenset({"overload", "typing.overload", "typing_extensions.overload"})


@dataclass(frozen=True)
class Candidate:
    """A target, and whether it is listed even without a directive."""

    target: StaticTarget
    listed: bool


def candidates(facts: Facts, names: Names, *, path: str, line: int, column: int) -> tuple[Candidate, ...]:
    """The targets of one chunk that starts at `line` (its first row at byte `column`), in the order of the source."""
    maker = _Maker(names, path, line, column, facts.main_row)
    found = [
        *(made for d in facts.definitions if (made := maker.definition(d, facts)) is not None),
        *(made for binding in facts.bindings for made in maker.binding(binding)),
        *(made for call in facts.compile_calls for made in maker.compile_call(call)),
    ]
    return tuple(
        sorted(found, key=lambda item: (item.target.name_span.line, item.target.name_span.column or 0))
    )


def assignments(facts: Facts, names: Names, *, path: str, line: int, column: int) -> tuple[StaticTarget, ...]:
    """The variables of one chunk as targets, none of them compiled by the source: for directives above them."""
    maker = _Maker(names, path, line, column, facts.main_row)
    return tuple(maker.assignment(binding).target for binding in facts.bindings)


@dataclass(frozen=True)
class _Maker:
    names: Names
    path: str
    line: int
    column: int
    main_row: int | None

    def definition(self, item: Definition, facts: Facts) -> Candidate | None:
        compiled = any(self.names.compiles(decorator, item.scope) for decorator in item.decorators)
        own = (*item.scope, item.name)
        if any(decorator.dotted in _OVERLOAD for decorator in item.decorators):
            return None
        if item.is_class:
            is_module = self.names.is_module(own)
            if not compiled and not is_module and not self.names.may_be_module(own):
                return None
            forward = self.names.forward(own)
            compiled = compiled or (is_module and self._compiles_itself(own, facts))
            kind, parameters = "module", forward.parameters if forward else ()
        else:
            is_module = False
            kind = "method" if item.scope in self.names.classes else "function"
            parameters = signature(item, in_class=kind == "method").parameters
        if item.name == PROVIDER and kind == "function":
            return None
        target = StaticTarget(
            name=self._name(own),
            kind=kind,
            compiled=compiled,
            span=self._span(item.extent),
            name_span=self._span(item.name_extent),
            def_line=self.line + item.def_row,
            parameters=parameters,
        )
        listed = self._reachable(item.scope, item.extent) and (
            is_module if item.is_class else kind == "function"
        )
        return Candidate(target, listed=compiled or listed)

    def binding(self, item: Binding) -> Iterator[Candidate]:
        value = self.names.compiled(item.value, item.scope)
        if value is not None:
            yield self._variable(item.target, item.extent, item.name_extent, item.scope, wraps=value)

    def assignment(self, item: Binding) -> Candidate:
        """Any assignment, which is worth a target only where a directive stands above it."""
        return self._variable(
            item.target, item.extent, item.name_extent, item.scope, wraps=item.value, compiled=False
        )

    def compile_call(self, item: CompileExpression) -> Iterator[Candidate]:
        known = self.names.holds_module(item.owner, item.scope)
        if known or (item.as_torch and self.names.holds_unknown(item.owner, item.scope)):
            wraps = Expression(item.owner, dotted=item.owner)
            yield self._variable(item.owner, item.extent, item.name_extent, item.scope, wraps=wraps)

    def _variable(
        self,
        variable: str,
        extent: Extent,
        name_extent: Extent,
        scope: Scope,
        *,
        wraps: Expression,
        compiled: bool = True,
    ) -> Candidate:
        of_instance = variable.startswith("self.")
        called = self._called(wraps, scope)
        held = self.names.class_of(wraps, scope)
        owner = owner_scope(self.names, variable, scope)
        target = StaticTarget(
            name=self._name((*owner, variable.removeprefix("self."))),
            kind="variable",
            compiled=compiled,
            span=self._span(extent),
            name_span=self._span(name_extent),
            def_line=self.line + name_extent.row,
            parameters=called.parameters if called else (),
            wraps=wraps.text,
            holds=self._name(held) if held else None,
            attribute_of=self._name(owner) if of_instance and owner in self.names.classes else None,
        )
        return Candidate(target, listed=compiled)

    def _called(self, wraps: Expression, scope: Scope) -> Signature | None:
        """What runs when the compiled `wraps` is called, if it is in this file."""
        if wraps.dotted and (function := self.names.function_at(wraps.dotted, scope)) is not None:
            return function
        made = self.names.class_of(wraps, scope)
        return None if made is None else self.names.forward(made)

    def _reachable(self, scope: Scope, extent: Extent) -> bool:
        in_function = any(scope[:end] in self.names.functions for end in range(1, len(scope) + 1))
        return not in_function and (self.main_row is None or extent.row <= self.main_row)

    def _compiles_itself(self, own: Scope, facts: Facts) -> bool:
        """Whether a method of the class says `self.compile()`."""
        return any(call.owner == "self" and call.scope[: len(own)] == own for call in facts.compile_calls)

    def _name(self, path: Scope) -> str:
        """Python's `__qualname__`: `<locals>` after every function."""
        parts = []
        for end, part in enumerate(path, start=1):
            parts.append(part)
            if (
                end < len(path)
                and path[:end] in self.names.functions
                and path[:end] not in self.names.classes
            ):
                parts.append("<locals>")
        return ".".join(parts)

    def _span(self, extent: Extent) -> Span:
        return Span(
            self.path,
            self.line + extent.row,
            extent.column + (self.column if extent.row == 0 else 0),
            self.line + extent.end_row,
            extent.end_column + (self.column if extent.end_row == 0 else 0),
        )
