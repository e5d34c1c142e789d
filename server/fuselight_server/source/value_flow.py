"""Branches that a value decides: from the call that gives the value, through the lines of its function.

Invariant: less rather than more. A value flows through assignments, operators, methods and functions that compute with
it; not through shapes, dtypes and types, nor through functions that are not known to compute with their arguments.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from fuselight.shared.codec import read_words

Scope = ast.Module | ast.FunctionDef | ast.AsyncFunctionDef

_WRITES = {
    **dict.fromkeys(
        ("all_reduce", "broadcast", "reduce", "all_gather", "all_gather_into_tensor", "all_gather_object"), 0
    ),
    **dict.fromkeys(("reduce_scatter", "reduce_scatter_tensor", "all_to_all", "all_to_all_single"), 0),
    **dict.fromkeys(("scatter", "recv", "irecv", "all_reduce_coalesced", "all_gather_coalesced"), 0),
    **dict.fromkeys(("gather", "gather_object"), 1),
}
"""By collective: the argument that the call writes to, where its result is not used."""
_NAMES = read_words(__file__)
_OUTPUT_NAMES = _NAMES["output_names"]
_SETS_UP = _NAMES["sets_up"]
"""Calls whose collectives are no values of the program, or are real."""
_FACTS = _NAMES["facts"]
"""Attributes that do not depend on the data of a tensor."""
_FACT_CALLS = _NAMES["fact_calls"]
_COMPUTES = _NAMES["computes"]
"""Functions of Python whose result depends on the values of their arguments."""
_MODULES = _NAMES["modules"]
_MUTATORS = _NAMES["mutators"]
_STATEMENTS: dict[type, str] = {
    ast.If: "_run_if",
    ast.While: "_run_while",
    **dict.fromkeys((ast.For, ast.AsyncFor), "_run_for"),
    ast.Assert: "_run_assert",
    ast.Match: "_run_match",
    **dict.fromkeys((ast.With, ast.AsyncWith), "_run_with"),
    ast.Try: "_run_try",
}
"""Which method runs a statement that has others in it, or a condition."""
_EXPRESSIONS: dict[type, str] = {
    ast.Name: "_name_has",
    ast.Attribute: "_attribute_has",
    ast.Call: "_call_has",
    ast.Compare: "_comparison_has",
    ast.IfExp: "_choice_has",
    ast.NamedExpr: "_assignment_has",
    **dict.fromkeys((ast.ListComp, ast.SetComp, ast.GeneratorExp, ast.DictComp), "_comprehension_has"),
}
"""Which method reads an expression that is more than its parts."""
_PASSES = 2
"""Over the body of a loop, so that what its end assigns reaches its start."""


@dataclass(frozen=True)
class ValueBranches:
    """What depends on the value of a call, in the function that makes the call."""

    branches: tuple[ast.expr, ...] = ()
    """The conditions, in order of their lines."""
    is_returned: bool = False
    parameters: tuple[str, ...] = ()
    """Parameters of the function whose data the call has overwritten."""
    positions: tuple[int, ...] = ()
    """Of these parameters."""
    is_method: bool = False


@dataclass(frozen=True)
class CallSite:
    """A call on a line, as a stack names it."""

    line: int
    callee: str = ""
    """The function of the program that it calls, if any; else a collective, or a library that calls one."""
    is_returned: bool = True
    """Of a function of the program: whether its result has the value."""
    parameters: tuple[str, ...] = ()
    positions: tuple[int, ...] = ()
    """Of a function of the program: parameters that it overwrites."""
    is_method: bool = False
    """Of a function of the program: whether its first parameter is the object."""


def branches_on(module: ast.Module, site: CallSite) -> ValueBranches:
    """The branches of a function that depend on the value of a call in it."""
    scope = _scope_of(module, site.line)
    flow = _Flow(site, _calls_at(scope, site))
    flow.run(scope.body)
    names = _parameters(scope)
    written = [name for name in names if name in flow.written]
    return ValueBranches(
        tuple(sorted(flow.branches, key=lambda node: (node.lineno, node.col_offset))),
        flow.is_returned,
        tuple(written),
        tuple(names.index(name) for name in written),
        is_method=names[:1] in (["self"], ["cls"]),
    )


def _parameters(scope: Scope) -> list[str]:
    if isinstance(scope, ast.Module):
        return []
    return [item.arg for item in (*scope.args.posonlyargs, *scope.args.args, *scope.args.kwonlyargs)]


def _scope_of(module: ast.Module, line: int) -> Scope:
    """The innermost function with a line, or the module."""
    scope: Scope = module
    for node in ast.walk(module):
        if (
            isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
            and node.body[0].lineno <= line <= (node.end_lineno or node.lineno)
            and (isinstance(scope, ast.Module) or node.lineno >= scope.lineno)
        ):
            scope = node
    return scope


def _own_nodes(scope: ast.AST) -> Iterator[ast.AST]:
    """The nodes of a scope without those of functions in it."""
    for node in ast.iter_child_nodes(scope):
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda | ast.ClassDef):
            yield node
            yield from _own_nodes(node)


def _calls_at(scope: Scope, site: CallSite) -> frozenset[ast.Call]:
    """The calls that a site can mean: by name where names decide."""
    calls = [
        node
        for node in _own_nodes(scope)
        if isinstance(node, ast.Call) and node.lineno <= site.line <= (node.end_lineno or node.lineno)
    ]
    wanted = {site.callee} if site.callee else _WRITES.keys()
    named = frozenset(call for call in calls if _name(call) in wanted)
    if named:
        return named
    calls = [call for call in calls if call.lineno == site.line] or calls
    setting_up = [call for call in calls if _name(call) in _SETS_UP or _name(call)[:1].isupper()]
    without_value = {node for call in setting_up for node in ast.walk(call)}
    return frozenset(call for call in calls if call not in without_value)


def _name(call: ast.Call) -> str:
    function = call.func
    return function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")


def _key(node: ast.expr) -> str | None:
    """A variable or an attribute as text: `x`, `self.loss`."""
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute):
        base = _key(node.value)
        return None if base is None else f"{base}.{node.attr}"
    return _key(node.value) if isinstance(node, ast.Subscript | ast.Starred) else None


@dataclass
class _Flow:
    """Runs over the statements of a scope, and keeps which variables have the value."""

    site: CallSite
    calls: frozenset[ast.Call]
    names: set[str] = field(default_factory=set)
    written: set[str] = field(default_factory=set)
    """Variables that the call overwrote, while they were still the arguments of the function."""
    branches: set[ast.expr] = field(default_factory=set)
    is_returned: bool = False
    _assigned: set[str] = field(default_factory=set)

    def run(self, body: Sequence[ast.stmt]) -> None:
        for statement in body:
            self._run(statement)

    def _run(self, statement: ast.stmt) -> None:
        name = _STATEMENTS.get(type(statement))
        if name is not None:
            getattr(self, name)(statement)
        elif not isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            self._simple(statement)

    def _run_if(self, statement: ast.If) -> None:
        self._decide(statement.test)
        self._either(statement.body, statement.orelse)

    def _run_while(self, statement: ast.While) -> None:
        for _ in range(_PASSES):
            self._decide(statement.test)
            self._either(statement.body, ())
        self.run(statement.orelse)

    def _run_for(self, statement: ast.For | ast.AsyncFor) -> None:
        for _ in range(_PASSES):
            self._bind(statement.target, has_value=self._has(statement.iter))
            self._either(statement.body, ())
        self.run(statement.orelse)

    def _run_assert(self, statement: ast.Assert) -> None:
        self._decide(statement.test)

    def _run_match(self, statement: ast.Match) -> None:
        self._decide(statement.subject)
        for case in statement.cases:
            self._either(case.body, ())

    def _run_with(self, statement: ast.With | ast.AsyncWith) -> None:
        for item in statement.items:
            has_value = self._has(item.context_expr)
            if item.optional_vars is not None:
                self._bind(item.optional_vars, has_value=has_value)
        self.run(statement.body)

    def _run_try(self, statement: ast.Try) -> None:
        self._either(statement.body, ())
        for handler in statement.handlers:
            self._either(handler.body, ())
        self.run((*statement.orelse, *statement.finalbody))

    def _simple(self, statement: ast.stmt) -> None:
        match statement:
            case ast.Assign():
                for target in statement.targets:
                    self._bind(target, has_value=self._has(statement.value), value=statement.value)
            case ast.AnnAssign() if statement.value is not None:
                self._bind(statement.target, has_value=self._has(statement.value), value=statement.value)
            case ast.AugAssign():
                if self._has(statement.value):
                    self._mark(statement.target)
            case ast.Return():
                self.is_returned |= statement.value is not None and self._has(statement.value)
            case ast.Expr():
                self._has(statement.value)
                self._mutate(statement.value)
            case _:
                pass
        for call in self.calls:
            if any(node is call for node in ast.walk(statement)):
                self._write(call, statement)

    def _either(self, first: Sequence[ast.stmt], second: Sequence[ast.stmt]) -> None:
        before = set(self.names)
        self.run(first)
        after, self.names = self.names, before
        self.run(second)
        self.names |= after

    def _decide(self, test: ast.expr) -> None:
        if self._has(test):
            self.branches.add(test)

    def _bind(self, target: ast.expr, *, has_value: bool, value: ast.expr | None = None) -> None:
        if isinstance(target, ast.Tuple | ast.List):
            parts = value.elts if isinstance(value, ast.Tuple | ast.List) else []
            for index, part in enumerate(target.elts):
                has = self._has(parts[index]) if len(parts) == len(target.elts) else has_value
                self._bind(part, has_value=has)
            return
        key = _key(target)
        if has_value:
            self._mark(target)
        elif key is not None and not isinstance(target, ast.Subscript):
            self.names = {name for name in self.names if name != key and not name.startswith(f"{key}.")}
        if isinstance(target, ast.Name):
            self._assigned.add(target.id)

    def _mark(self, target: ast.expr) -> None:
        key = _key(target)
        if key is not None:
            self.names.add(key)

    def _mutate(self, value: ast.expr) -> None:
        """`values.append(loss)`, `mean.copy_(loss)`."""
        if isinstance(value, ast.Call) and isinstance(value.func, ast.Attribute):
            is_mutator = value.func.attr in _MUTATORS or value.func.attr.endswith("_")
            if is_mutator and any(self._has(item) for item in value.args):
                self._mark(value.func.value)

    def _write(self, call: ast.Call, statement: ast.stmt) -> None:
        """The arguments that the call overwrites have the value from here on."""
        for target in self._outputs(call, statement):
            for part in target.elts if isinstance(target, ast.List | ast.Tuple) else (target,):
                self._mark(part)
                if isinstance(part, ast.Name) and part.id not in self._assigned:
                    self.written.add(part.id)

    def _outputs(self, call: ast.Call, statement: ast.stmt) -> Iterator[ast.expr]:
        site = self.site
        if site.callee:
            yield from (call.args[index] for index in self._positions(call) if index < len(call.args))
            yield from (item.value for item in call.keywords if item.arg in site.parameters)
        elif _name(call) in _WRITES and _is_in_place(call, statement):
            position = _WRITES[_name(call)]
            yield from call.args[position : position + 1]
            yield from (item.value for item in call.keywords if item.arg in _OUTPUT_NAMES)

    def _positions(self, call: ast.Call) -> Iterable[int]:
        """Of the overwritten parameters in this call: `self` of a method is no argument."""
        shift = int(self.site.is_method and isinstance(call.func, ast.Attribute))
        return (index - shift for index in self.site.positions if index >= shift)

    def _has(self, node: ast.expr | None) -> bool:
        """Whether an expression depends on the value."""
        name = _EXPRESSIONS.get(type(node))
        if name is not None:
            return bool(getattr(self, name)(node))
        if node is None or isinstance(node, ast.Lambda):
            return False
        return self._any(item for item in ast.iter_child_nodes(node) if isinstance(item, ast.expr))

    def _any(self, nodes: Iterable[ast.expr]) -> bool:
        """Whether an expression depends on it; each is read, as it can assign."""
        return True in [self._has(item) for item in nodes]

    def _name_has(self, node: ast.Name) -> bool:
        return node.id in self.names

    def _attribute_has(self, node: ast.Attribute) -> bool:
        return node.attr not in _FACTS and (_key(node) in self.names or self._has(node.value))

    def _comparison_has(self, node: ast.Compare) -> bool:
        is_identity = all(isinstance(operator, ast.Is | ast.IsNot) for operator in node.ops)
        return self._any((node.left, *node.comparators)) and not is_identity

    def _choice_has(self, node: ast.IfExp) -> bool:
        self._decide(node.test)
        return self._any((node.body, node.orelse))

    def _assignment_has(self, node: ast.NamedExpr) -> bool:
        has_value = self._has(node.value)
        self._bind(node.target, has_value=has_value)
        return has_value

    def _comprehension_has(self, node: ast.ListComp | ast.SetComp | ast.GeneratorExp | ast.DictComp) -> bool:
        self._generate(node.generators)
        return self._any((node.key, node.value) if isinstance(node, ast.DictComp) else (node.elt,))

    def _generate(self, generators: Sequence[ast.comprehension]) -> None:
        for generator in generators:
            self._bind(generator.target, has_value=self._has(generator.iter))
            for test in generator.ifs:
                self._decide(test)

    def _call_has(self, call: ast.Call) -> bool:
        has_argument = self._any((*call.args, *(item.value for item in call.keywords)))
        if call in self.calls:
            return self.site.is_returned
        if _name(call) in _FACT_CALLS:
            return False
        if isinstance(call.func, ast.Attribute):
            root = (_key(call.func) or "").split(".", 1)[0]
            return self._has(call.func.value) or (root in _MODULES and has_argument)
        return _name(call) in _COMPUTES and has_argument


def _is_in_place(call: ast.Call, statement: ast.stmt) -> bool:
    """Whether a collective writes to its argument: torch.distributed's, of which a program uses no result."""
    if any(item.arg == "async_op" for item in call.keywords) or _name(call) == "irecv":
        return True
    return isinstance(statement, ast.Expr) and statement.value is call
