"""The names of a file, collected from the facts of its chunks.

Invariant: what is collected is a function of the outlines alone, in their order: while they stay equal, so do the
names, and all that was resolved with them stays valid.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from fuselight_server.static.facts import Definition, Expression, Facts, Scope
from fuselight_server.static.names import Class, Names, Signature

if TYPE_CHECKING:
    from collections.abc import Iterable


def owner_scope(names: Names, target: str, scope: Scope) -> Scope:
    """Where a variable lives: `self.f` belongs to the class around."""
    if not target.startswith("self."):
        return scope
    return next((scope[:end] for end in range(len(scope), 0, -1) if scope[:end] in names.classes), scope)


Outline = tuple[tuple[object, ...], ...]
"""What a chunk adds to the file's names, without the places where it stands."""


def outline(facts: Facts) -> Outline:
    """All of `facts` that `collect` reads: while the outlines of a file stay equal, so do its names."""
    return (
        *((one.name, one.scope, one.is_class, one.decorators, one.bases) for one in facts.definitions),
        *((one.parameters, one.annotations, one.is_async, one.is_generator) for one in facts.definitions),
        *((one.target, one.scope, one.value) for one in facts.bindings),
        *((one.name, one.full, one.scope) for one in facts.imports),
    )


def collect(chunks: Iterable[Facts]) -> Names:
    """The names of the file whose chunks, in order, have these facts."""
    names = Names()
    kept = [facts for facts in chunks if facts.definitions or facts.bindings or facts.imports]
    stars: list[str] = []
    for facts in kept:
        for item in facts.imports:
            if item.name == "*":
                stars.append(item.full)
            else:
                names.imported[item.scope, item.name] = item.full
        _add_definitions(names, facts)
    names.stars = tuple(dict.fromkeys(stars))
    for facts in kept:
        for definition in facts.definitions:
            scope = (*definition.scope, definition.name)
            for name, written in definition.annotations:
                if names.names_module(Expression(written, dotted=written), definition.scope):
                    names.instances[scope, name] = names.class_at(written, definition.scope)
        for binding in facts.bindings:
            _bind(names, binding.target, binding.value, binding.scope)
    return names


def _add_definitions(names: Names, facts: Facts) -> None:
    for definition in facts.definitions:
        path = (*definition.scope, definition.name)
        if definition.is_class:
            names.classes[path] = Class(definition.bases, None)
            continue
        owner = names.classes.get(definition.scope)
        taken = signature(definition, in_class=owner is not None)
        names.functions[path] = taken
        if definition.name == "forward" and owner is not None:
            names.classes[definition.scope] = Class(owner.bases, taken)


def signature(definition: Definition, *, in_class: bool) -> Signature:
    """The signature of a function of the file."""
    static = any(decorator.dotted == "staticmethod" for decorator in definition.decorators)
    takes_self = in_class and not static and bool(definition.parameters)
    return Signature(
        parameters=definition.parameters[1:] if takes_self else definition.parameters,
        is_async=definition.is_async,
        is_generator=definition.is_generator,
        takes_self=takes_self,
    )


def _bind(names: Names, target: str, value: Expression, scope: Scope) -> None:
    place = (owner_scope(names, target, scope), target)
    if value.dotted and not names.compiles(value, scope):
        full = names.full(value.dotted, scope)
        if full and "." not in target:
            names.imported.setdefault((scope, target), full)
    if names.compiles(value, scope):
        names.compilers.add(place)
    elif names.is_instance(value, scope):
        names.instances[place] = names.class_of(value, scope)
    elif names.makes_unknown(value, scope):
        names.unknown.add(place)
