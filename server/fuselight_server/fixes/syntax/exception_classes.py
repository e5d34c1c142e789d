"""Whether an exception can be left out: its class does nothing but keep its arguments.

Invariant: a class is known if Python defines it, or if its definition and those of its bases are in the same file.
"""

from __future__ import annotations

import builtins

import libcst as cst

from fuselight_server.fixes.syntax.site import Site
from fuselight_server.fixes.syntax.tree import calls_in, dotted

_BUILTIN = frozenset(
    name
    for name, value in vars(builtins).items()
    if isinstance(value, type) and issubclass(value, BaseException)
)
_RUNS_CODE = frozenset({"__new__", "__setattr__", "__getattribute__"})
"""Methods that run when an exception is created, beside its constructor."""
_SHOWING = frozenset({"str", "repr", "int", "float", "len", "tuple", "list", "format", "type", "round"})
"""Functions of Python that only give a value."""
_MAX_BASES = 8


def only_keeps_arguments(site: Site, name: str, depth: int = 0) -> bool:
    """Whether the constructor of an exception only keeps its arguments and computes a message of them."""
    if name in _BUILTIN and not site.is_bound(name):
        return True
    definition = _definition(site, name) if depth < _MAX_BASES else None
    if definition is None or definition.decorators or definition.keywords:
        return False
    methods = [part for part in definition.body.body if isinstance(part, cst.FunctionDef)]
    names = {method.name.value for method in methods}
    constructors = [method for method in methods if method.name.value == "__init__"]
    return (
        not names & _RUNS_CODE
        and all(_is_plain_constructor(site, constructor, names) for constructor in constructors)
        and all(
            not base.star and only_keeps_arguments(site, dotted(base.value), depth + 1)
            for base in definition.bases
        )
    )


def _definition(site: Site, name: str) -> cst.ClassDef | None:
    """The only top-level class of that name in the file."""
    chunks = [
        chunk
        for chunk in site.chunks
        if any(part.name == name and part.scope == () for part in chunk.facts.definitions)
    ]
    if len(chunks) != 1 or any(
        binding.target == name and binding.scope == ()
        for chunk in site.chunks
        for binding in chunk.facts.bindings
    ):
        return None
    try:
        body = cst.parse_module(chunks[0].data.decode()).body
    except (UnicodeError, cst.ParserSyntaxError, RecursionError):
        return None
    classes = [part for part in body if isinstance(part, cst.ClassDef) and part.name.value == name]
    return classes[0] if len(classes) == 1 else None


def _is_plain_constructor(site: Site, constructor: cst.FunctionDef, methods: set[str]) -> bool:
    """Whether each statement calls the constructor of the base, or stores a value in an attribute."""
    if constructor.decorators:
        return False
    body = constructor.body.body
    statements = [
        small
        for line in body
        for small in (line.body if isinstance(line, cst.SimpleStatementLine) else (line,))
    ]
    return all(_is_plain_statement(site, statement, methods) for statement in statements)


def _is_plain_statement(site: Site, statement: cst.CSTNode, methods: set[str]) -> bool:
    if isinstance(statement, (cst.Assign, cst.AnnAssign)):
        targets = (
            [statement.target]
            if isinstance(statement, cst.AnnAssign)
            else [target.target for target in statement.targets]
        )
        names = [dotted(target) for target in targets]
        stores = all(name.startswith("self.") and name[5:] not in methods for name in names)
        return stores and all(_gives_value(site, call) for call in calls_in(statement))
    if isinstance(statement, cst.Expr):
        value = statement.value
        calls = calls_in(statement)
        if isinstance(value, cst.Call) and _is_base_constructor(value):
            calls = [call for argument in value.args for call in calls_in(argument)]
        return all(_gives_value(site, call) for call in calls)
    return isinstance(statement, cst.Pass)


def _is_base_constructor(call: cst.Call) -> bool:
    function = call.func
    if not isinstance(function, cst.Attribute) or function.attr.value != "__init__":
        return False
    owner = function.value
    return bool(dotted(owner)) or (
        isinstance(owner, cst.Call) and dotted(owner.func) == "super" and not owner.args
    )


def _gives_value(site: Site, call: cst.Call) -> bool:
    name = dotted(call.func)
    return name in _SHOWING and not site.is_bound(name)
