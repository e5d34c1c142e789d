"""Facts and names to targets: what the source compiles, and what a user can point at.

Listed are: everything that the source compiles, wherever it stands; every nn.Module subclass and every plain function
that can be reached from outside (not those inside a function); methods only when compiled or under a directive.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from fuselight_server.finding import Span
from fuselight_server.static.names import owner_scope, signature
from fuselight_server.static.reading import StaticTarget

if TYPE_CHECKING:
    from collections.abc import Iterator

    from fuselight_server.static.facts import (
        Binding,
        CompileCall,
        Definition,
        Expression,
        Extent,
        Facts,
        Scope,
    )
    from fuselight_server.static.names import Names

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
    maker = _Maker(names, path, line, column)
    found = [
        *(made for d in facts.definitions if (made := maker.definition(d, facts)) is not None),
        *(made for binding in facts.bindings for made in maker.binding(binding)),
        *(made for call in facts.compile_calls for made in maker.compile_call(call)),
    ]
    return tuple(
        sorted(found, key=lambda item: (item.target.name_span.line, item.target.name_span.column or 0))
    )


@dataclass(frozen=True)
class _Maker:
    names: Names
    path: str
    line: int
    column: int

    def definition(self, item: Definition, facts: Facts) -> Candidate | None:
        compiled = any(self.names.compiles(decorator, item.scope) for decorator in item.decorators)
        own = (*item.scope, item.name)
        if any(decorator.dotted in _OVERLOAD for decorator in item.decorators):
            return None
        if item.is_class:
            if not compiled and not self.names.is_module(own):
                return None
            kind, parameters = "module", _forward(self.names, own)
            compiled = compiled or self._compiles_itself(own, facts)
        else:
            kind = "method" if item.scope in self.names.classes else "function"
            parameters = signature(item, in_class=kind == "method").parameters
        if item.name == PROVIDER and kind == "function":
            return None
        inside_function = any(
            item.scope[:end] in self.names.functions for end in range(1, len(item.scope) + 1)
        )
        target = StaticTarget(
            name=self._name(own),
            kind=kind,
            compiled=compiled,
            span=self._span(item.extent),
            name_span=self._span(item.name_extent),
            def_line=self.line + item.def_row,
            parameters=parameters,
            is_async=item.is_async,
            is_generator=item.is_generator,
        )
        return Candidate(target, listed=compiled or (kind != "method" and not inside_function))

    def binding(self, item: Binding) -> Iterator[Candidate]:
        value = self.names.compiled(item.value, item.scope)
        if value is not None:
            scope = owner_scope(self.names, item.target, item.scope)
            name = self._name((*scope, item.target.removeprefix("self.")))
            yield self._variable(name, item.extent, item.name_extent, value, item.scope)

    def compile_call(self, item: CompileCall) -> Iterator[Candidate]:
        if not self.names.holds_module(item.owner, item.scope):
            return
        scope = owner_scope(self.names, item.owner, item.scope)
        name = self._name((*scope, item.owner.removeprefix("self.")))
        yield Candidate(
            StaticTarget(
                name=name,
                kind="variable",
                compiled=True,
                span=self._span(item.extent),
                name_span=self._span(item.name_extent),
                def_line=self.line + item.name_extent.row,
                wraps=item.owner,
            ),
            listed=True,
        )

    def _variable(
        self, name: str, extent: Extent, name_extent: Extent, value: Expression, scope: Scope
    ) -> Candidate:
        function = self.names.function_at(value.dotted, scope) if value.dotted else None
        made = (
            self.names.class_at(value.function.dotted, scope)
            if value.function and value.function.dotted
            else None
        )
        parameters: tuple[str, ...] = ()
        if function is not None:
            parameters = function.parameters
        elif made is not None:
            parameters = _forward(self.names, made)
        return Candidate(
            StaticTarget(
                name=name,
                kind="variable",
                compiled=True,
                span=self._span(extent),
                name_span=self._span(name_extent),
                def_line=self.line + name_extent.row,
                parameters=parameters,
                wraps=value.text,
                is_async=function is not None and function.is_async,
                is_generator=function is not None and function.is_generator,
            ),
            listed=True,
        )

    def _compiles_itself(self, own: Scope, facts: Facts) -> bool:
        """Whether a method of the class says `self.compile()`."""
        return any(call.owner == "self" and call.scope[: len(own)] == own for call in facts.compile_calls)

    def _name(self, path: Scope) -> str:
        """Python's `__qualname__`: `<locals>` behind every function."""
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


def _forward(names: Names, path: Scope, depth: int = 0) -> tuple[str, ...]:
    """Parameters of the module's `forward`, inherited within the file; empty when it is not in the file."""
    found = names.classes[path]
    if found.forward is not None:
        return found.forward.parameters
    for base in found.bases if depth < len(names.classes) else ():
        own = names.class_at(base.dotted, path[:-1]) if base.dotted else None
        if own is not None and own != path and (parameters := _forward(names, own, depth + 1)):
            return parameters
    return ()
