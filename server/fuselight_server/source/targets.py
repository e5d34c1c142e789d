"""Facts and names to targets: what the source compiles, and what a user can point at.

Listed are: everything that the source compiles, wherever it stands; every nn.Module subclass and every plain function
that can be reached from outside (not those inside a function); methods only when compiled or under a directive.
"""

from __future__ import annotations

from dataclasses import dataclass

from fuselight_server.source.facts import (
    Binding,
    Chunk,
    CompileExpression,
    Definition,
    Expression,
    Extent,
    Scope,
)
from fuselight_server.source.names import Names, signature
from fuselight_server.source.reading import StaticTarget

PROVIDER = "example_inputs"
"""Name of the function of a file that gives the inputs of its targets."""
_OVERLOAD = frozenset({"overload", "typing.overload", "typing_extensions.overload"})


@dataclass(frozen=True)
class Candidate:
    """A target, and whether it is listed even without a directive."""

    target: StaticTarget
    listed: bool


def candidates(chunk: Chunk, names: Names) -> tuple[Candidate, ...]:
    """The targets of one chunk, in the order of the source."""
    maker, facts = _Maker(names, chunk), chunk.facts
    candidates = [
        *(maker.definition(definition) for definition in facts.definitions),
        *(maker.binding(binding) for binding in facts.bindings),
        *(maker.compile_call(call) for call in facts.compile_calls),
    ]
    return tuple(sorted(filter(None, candidates), key=lambda item: item.target.name_span.start))


def assignments(chunk: Chunk, names: Names) -> tuple[StaticTarget, ...]:
    """The variables of one chunk as targets, none of them compiled by the source: for directives above them."""
    maker = _Maker(names, chunk)
    return tuple(maker.variable(item, item.value, compiled=False).target for item in chunk.facts.bindings)


@dataclass(frozen=True)
class _Maker:
    names: Names
    chunk: Chunk

    def definition(self, item: Definition) -> Candidate | None:
        compiled = any(self.names.compiles(decorator, item.scope) for decorator in item.decorators)
        own = (*item.scope, item.name)
        if any(decorator.dotted in _OVERLOAD for decorator in item.decorators):
            return None
        if item.is_class:
            is_module = self.names.is_module(own)
            if not compiled and not is_module and not self.names.may_be_module(own):
                return None
            forward = self.names.forward(own)
            compiled = compiled or (is_module and self._compiles_itself(own))
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
            span=self.chunk.span(item.extent),
            name_span=self.chunk.span(item.name_extent),
            def_line=self.chunk.line + item.def_row,
            parameters=parameters,
            computes=kind == "module" or item.computes,
        )
        listed = self._reachable(item.scope, item.extent) and (
            is_module if item.is_class else kind == "function"
        )
        return Candidate(target, listed=compiled or listed)

    def binding(self, item: Binding) -> Candidate | None:
        value = self.names.compiled(item.value, item.scope)
        return None if value is None else self.variable(item, value)

    def compile_call(self, item: CompileExpression) -> Candidate | None:
        known = self.names.holds_module(item.target, item.scope)
        if known or (item.as_torch and self.names.holds_unknown(item.target, item.scope)):
            return self.variable(item, item.value)
        return None

    def variable(self, item: Binding, wraps: Expression, *, compiled: bool = True) -> Candidate:
        of_instance = item.target.startswith("self.")
        held = self.names.class_of(wraps, item.scope)
        called = self.names.function_at(wraps.dotted, item.scope) if wraps.dotted else None
        if called is None and held is not None:  # what runs when it is called, if that is in this file
            called = self.names.forward(held)
        owner = self.names.owner(item.target, item.scope)
        target = StaticTarget(
            name=self._name((*owner, item.target.removeprefix("self."))),
            kind="variable",
            compiled=compiled,
            span=self.chunk.span(item.extent),
            name_span=self.chunk.span(item.name_extent),
            def_line=self.chunk.line + item.name_extent.row,
            parameters=called.parameters if called else (),
            wraps=wraps.text,
            holds=self._name(held) if held else None,
            attribute_of=self._name(owner) if of_instance and owner in self.names.classes else None,
        )
        return Candidate(target, listed=compiled)

    def _reachable(self, scope: Scope, extent: Extent) -> bool:
        in_function = any(scope[:end] in self.names.functions for end in range(1, len(scope) + 1))
        main_row = self.chunk.facts.main_row
        return not in_function and (main_row is None or extent.row <= main_row)

    def _compiles_itself(self, own: Scope) -> bool:
        """Whether a method of the class says `self.compile()`."""
        calls = self.chunk.facts.compile_calls
        return any(call.target == "self" and call.scope[: len(own)] == own for call in calls)

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
