"""Autocast inside a compiled function, entered around it instead: its state is then part of the key of a cache.

Invariant: only code that autocast does not touch comes under it that was not before, and each call of the compiled
function that the file has is under it. Where another call may exist, there is no remedy, and the reason says so.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import libcst as cst

from fuselight_server.fixes.rewrites.compiled_modules import calls_of_module
from fuselight_server.fixes.rewrites.remedy import FixClass, Remedy
from fuselight_server.fixes.syntax.autocast_effects import is_untouched, is_untouched_statement
from fuselight_server.fixes.syntax.file_tree import Change, FileTree
from fuselight_server.fixes.syntax.refusals import RefusedRewrite, RewriteRefusedError
from fuselight_server.fixes.syntax.tree import dotted

IsImported = Callable[[str], bool]
"""Whether another file of the project imports a name of the file."""

_KIND = "autocast_outside"
_TITLE = "Enter autocast around `{}`"
_GRAD_MODES = ("no_grad", "enable_grad", "inference_mode", "set_grad_enabled")


@dataclass(frozen=True)
class AutocastPlace:
    """Where a compiled function enters autocast."""

    path: str
    line: int
    """The `with` statement or the decorator."""
    function: str
    """The compiled function."""
    function_line: int
    """Its `def` or its first decorator."""


@dataclass(frozen=True)
class _Entry:
    """What enters autocast: an item of a `with` statement, or a decorator."""

    function: cst.FunctionDef
    call: cst.Call
    statement: cst.With | None
    """None for a decorator."""


def autocast_remedies(
    place: AutocastPlace, text: str, is_imported: IsImported
) -> Iterator[Remedy | RefusedRewrite]:
    """The file with autocast around the calls of the compiled function."""
    title = _TITLE.format(place.function)
    tree = FileTree.of(place.path, text)
    if tree is None:
        return
    try:
        new = _Move(tree, place, is_imported).text()
    except RewriteRefusedError as why:
        yield RefusedRewrite(_KIND, title, str(why))
        return
    if new is not None:
        yield Remedy(_KIND, title, FixClass.EXACT, {place.path: new}, is_setting=True)


@dataclass(frozen=True)
class _Move:
    """One rewrite. Its methods raise RewriteRefusedError."""

    tree: FileTree
    place: AutocastPlace
    is_imported: IsImported

    def text(self) -> str | None:
        """The new text."""
        entry = self._entry()
        self._check_function(entry)
        self._check_arguments(entry)
        if entry.statement is not None:
            self._check_body(entry.function, entry.statement)
        changes: dict[cst.CSTNode, Change] = {}
        decorator = self._compile_decorator(entry.function)
        if decorator is None:
            changes.update(self._around_calls(entry))
        changes[entry.function] = lambda node: _without_entry(node, entry, decorator)
        return self.tree.changed(changes)

    # What there is.

    def _entry(self) -> _Entry:
        entries = [entry for entry in self._entries() if self._is_at(entry, self.place.line)]
        if len(entries) != 1:
            raise RewriteRefusedError(f"line {self.place.line} enters no autocast of its own")
        return entries[0]

    def _is_at(self, entry: _Entry, line: int) -> bool:
        first = self.tree.ranges[entry.statement if entry.statement is not None else entry.call]
        last = self.tree.ranges[entry.call].end.line
        return first.start.line <= line <= last

    def _entries(self) -> Iterator[_Entry]:
        for node in self.tree.all():
            if isinstance(node, cst.With):
                function = next(
                    (up for up in self.tree.ancestors(node) if isinstance(up, cst.FunctionDef)), None
                )
                calls = [item.item for item in node.items if _is_autocast(item.item)]
                if function is not None and len(calls) == 1:
                    yield _Entry(function, cst.ensure_type(calls[0], cst.Call), node)
            elif isinstance(node, cst.FunctionDef):
                for decorator in node.decorators:
                    if _is_autocast(decorator.decorator):
                        yield _Entry(node, cst.ensure_type(decorator.decorator, cst.Call), None)

    def _compile_decorator(self, function: cst.FunctionDef) -> cst.Decorator | None:
        compiling = [item for item in function.decorators if self._is_compile(item.decorator)]
        return compiling[0] if compiling else None

    def _is_compile(self, node: cst.BaseExpression) -> bool:
        name = dotted(node.func if isinstance(node, cst.Call) else node)
        return bool(self.tree.torch) and name == f"{self.tree.torch}.compile"

    # What must hold.

    def _check_function(self, entry: _Entry) -> None:
        function = entry.function
        name = self.tree.qualified_name(function)
        if self.place.function_line not in self.tree.lines(function):
            raise RewriteRefusedError(
                f"autocast is entered in `{name}`, a part of what is compiled as `{self.place.function}`"
            )
        yields = any(isinstance(node, (cst.Yield, cst.Await)) for node in self.tree.all(function.body))
        if yields or function.asynchronous is not None:
            raise RewriteRefusedError(f"`{name}` is a generator or a coroutine, which runs on after its call")
        if self.tree.loads(function.body, function.name.value):
            raise RewriteRefusedError(f"`{name}` calls itself")
        for decorator in function.decorators:
            if not self._is_untouched_decorator(decorator.decorator):
                line = self.tree.line(decorator)
                raise RewriteRefusedError(
                    f"the decorator on line {line} may compute, and would come under autocast"
                )

    def _is_untouched_decorator(self, node: cst.BaseExpression) -> bool:
        name = dotted(node.func if isinstance(node, cst.Call) else node)
        return self._is_compile(node) or _is_autocast(node) or name.endswith(_GRAD_MODES)

    def _check_arguments(self, entry: _Entry) -> None:
        for name in sorted({name for item in entry.call.args for name in self.tree.names_read(item.value)}):
            bound = self.tree.stores(name)
            inner = [node for node in bound if self.tree.scope(node) is not self.tree.module]
            if inner or len(bound) > 1:
                raise RewriteRefusedError(f"the arguments of autocast depend on `{name}`")

    def _check_body(self, function: cst.FunctionDef, statement: cst.With) -> None:
        if self.tree.parents[statement] is not function.body:
            raise RewriteRefusedError("autocast is entered in a branch, a loop or another block")
        others = [item.item for item in statement.items if not _is_autocast(item.item)]
        modes = (other.func for other in others if isinstance(other, cst.Call))
        if len([mode for mode in modes if dotted(mode).endswith(_GRAD_MODES)]) != len(others) or any(
            item.asname for item in statement.items
        ):
            raise RewriteRefusedError("the `with` statement enters something else, too")
        for other in function.body.body:
            if other is not statement and not is_untouched_statement(other):
                line = self.tree.line(other)
                raise RewriteRefusedError(f"line {line} is outside of autocast, and would come under it")

    # Where the compiled function is called.

    def _around_calls(self, entry: _Entry) -> dict[cst.CSTNode, Change]:
        owner = self.tree.scope(entry.function)
        if isinstance(owner, cst.ClassDef):
            return self._around_module_calls(entry, owner)
        name = entry.function.name.value
        if len(self.tree.stores(name)) > 2 or self.is_imported(name):  # noqa: PLR2004 - its def, and the compiled one
            raise RewriteRefusedError(f"`{name}` may be called without torch.compile, too")
        loads = self.tree.loads(self.tree.module, name)
        compiling = [call for load in loads if (call := self._compiling(load)) is not None]
        if len(compiling) != 1:
            raise RewriteRefusedError(f"no single torch.compile of `{name}` is in this file")
        call = compiling[0]
        others = [load for load in loads if load is not call.args[0].value]
        if others and not self._replaces(call, name, others):
            line = self.tree.line(others[0])
            raise RewriteRefusedError(f"line {line} uses `{name}` without torch.compile")
        return {call: lambda node: _called(entry.call, node)}

    def _compiling(self, load: cst.Name) -> cst.Call | None:
        """The torch.compile whose first argument is a name."""
        call = self.tree.parents[self.tree.parents[load]]
        is_first = isinstance(call, cst.Call) and bool(call.args) and call.args[0].value is load
        return call if isinstance(call, cst.Call) and is_first and self._is_compile(call) else None

    def _replaces(self, call: cst.Call, name: str, others: Sequence[cst.Name]) -> bool:
        """Whether a compiled function takes the name of what it compiles, before any other use of the name."""
        assign = self.tree.parents[call]
        is_same = (
            isinstance(assign, cst.Assign)
            and assign.value is call
            and [dotted(target.target) for target in assign.targets] == [name]
            and self.tree.scope(assign) is self.tree.module
        )
        return is_same and all(self.tree.is_before(call, other) for other in others)

    def _around_module_calls(self, entry: _Entry, owner: cst.ClassDef) -> dict[cst.CSTNode, Change]:
        if entry.function.name.value != "forward":
            raise RewriteRefusedError(
                f"it is not certain where the program calls `{self.tree.qualified_name(entry.function)}`"
            )
        calls = calls_of_module(self.tree, owner, self.is_imported)
        result = self.tree.free_name(self.tree.module, "output")
        changes: dict[cst.CSTNode, Change] = {}
        for call in calls:
            line = self._statement_of(call)
            if line in changes:
                raise RewriteRefusedError(f"line {self.tree.line(call)} calls the compiled module twice")
            changes[line] = self._around(line, call, entry.call, result)
        return changes

    def _statement_of(self, call: cst.Call) -> cst.SimpleStatementLine:
        """The statement that evaluates a call before anything else that may have an effect."""
        where = f"the call on line {self.tree.line(call)}"
        if not all(is_untouched(argument.value) for argument in call.args):
            raise RewriteRefusedError(
                f"arguments of {where} are computed with it, and would come under autocast"
            )
        inner: cst.CSTNode = call
        for parent in self.tree.ancestors(call):
            if isinstance(parent, cst.SimpleStatementLine):
                if len(parent.body) == 1 and isinstance(
                    inner, (cst.Expr, cst.Assign, cst.AnnAssign, cst.Return)
                ):
                    return parent
                break
            if not _is_first(parent, inner):
                break
            inner = parent
        raise RewriteRefusedError(f"{where} is not the first that its statement evaluates")

    def _around(
        self, line: cst.SimpleStatementLine, call: cst.Call, entered: cst.Call, result: str
    ) -> Change:
        statement = line.body[0]
        has_value = isinstance(statement, (cst.Expr, cst.Return, cst.Assign)) and statement.value is call
        if has_value and not (isinstance(statement, cst.Assign) and not _binds_names(statement)):
            return lambda _node: _with(entered, line)
        assign = cst.Assign([cst.AssignTarget(cst.Name(result))], call)
        first = cst.SimpleStatementLine([assign], leading_lines=line.leading_lines)
        left = cst.ensure_type(line.deep_replace(call, cst.Name(result)), cst.SimpleStatementLine)
        rest = left.with_changes(leading_lines=())
        return lambda _node: cst.FlattenSentinel([_with(entered, first), rest])


def _is_autocast(node: cst.BaseExpression) -> bool:
    return isinstance(node, cst.Call) and dotted(node.func).rpartition(".")[2] == "autocast"


def _is_first(parent: cst.CSTNode, inner: cst.CSTNode) -> bool:
    """Whether a node evaluates `inner` before its other parts, and always."""
    if isinstance(parent, (cst.Attribute, cst.Subscript)):
        return parent.value is inner
    if isinstance(parent, cst.Call):
        return parent.func is inner or (bool(dotted(parent.func)) and parent.args[0] is inner)
    if isinstance(parent, (cst.BinaryOperation, cst.Comparison)):
        return parent.left is inner
    return isinstance(parent, (cst.Arg, cst.UnaryOperation, cst.Expr, cst.Assign, cst.AnnAssign, cst.Return))


def _binds_names(statement: cst.Assign) -> bool:
    """Whether an assignment has nothing to evaluate for its targets."""
    targets = [target.target for target in statement.targets]
    return all(
        isinstance(target, cst.Name)
        or (
            isinstance(target, (cst.Tuple, cst.List))
            and all(isinstance(element.value, cst.Name) for element in target.elements)
        )
        for target in targets
    )


def _called(function: cst.Call, argument: cst.CSTNode) -> cst.Call:
    return cst.Call(function, [cst.Arg(cst.ensure_type(argument, cst.Call))])


def _with(entered: cst.Call, line: cst.SimpleStatementLine) -> cst.With:
    body = cst.IndentedBlock([line.with_changes(leading_lines=())])
    return cst.With([cst.WithItem(entered)], body, leading_lines=line.leading_lines)


# The function without its autocast.


def _without_entry(node: cst.CSTNode, entry: _Entry, decorator: cst.Decorator | None) -> cst.FunctionDef:
    function = cst.ensure_type(node, cst.FunctionDef)
    decorators = list(function.decorators)
    place = entry.function.decorators.index(decorator) if decorator is not None else 0
    if entry.statement is None:
        old = next(item for item in decorators if _is_autocast(item.decorator))
        place -= decorators.index(old) < place
        decorators.remove(old)
    else:
        index = next(
            number for number, line in enumerate(entry.function.body.body) if line is entry.statement
        )
        function = function.with_changes(body=_unwrapped(function.body, index))
    if decorator is not None:
        decorators.insert(place, cst.Decorator(entry.call))
    return function.with_changes(decorators=decorators)


def _unwrapped(body: cst.BaseSuite, index: int) -> cst.BaseSuite:
    """A body whose `with` statement at an index no longer enters autocast."""
    lines = list(body.body)
    statement = cst.ensure_type(lines[index], cst.With)
    others = [item for item in statement.items if not _is_autocast(item.item)]
    if others:
        others[-1] = others[-1].with_changes(comma=cst.MaybeSentinel.DEFAULT)
        lines[index] = statement.with_changes(items=others)
        return body.with_changes(body=lines)
    if isinstance(statement.body, cst.IndentedBlock):
        inner = list(statement.body.body)
    else:
        inner = [cst.SimpleStatementLine(cst.ensure_type(statement.body, cst.SimpleStatementSuite).body)]
    above = [*statement.leading_lines, *_header(statement)]
    inner[0] = _below(above, inner[0])
    footer = statement.body.footer if isinstance(statement.body, cst.IndentedBlock) else ()
    lines[index : index + 1] = inner
    after = index + len(inner)
    if footer and after < len(lines):
        lines[after] = _below(footer, lines[after])
    elif footer:
        body = body.with_changes(footer=[*footer, *cst.ensure_type(body, cst.IndentedBlock).footer])
    return body.with_changes(body=lines)


def _below(lines: Sequence[cst.EmptyLine], statement: cst.CSTNode) -> Any:
    """A statement with comments and empty lines above its own."""
    old: Sequence[cst.EmptyLine] = getattr(statement, "leading_lines", ())
    return statement.with_changes(leading_lines=[*lines, *old])


def _header(statement: cst.With) -> list[cst.EmptyLine]:
    """The comment after the colon, on a line of its own."""
    header = statement.body.header if isinstance(statement.body, cst.IndentedBlock) else None
    comment = header.comment if header is not None else None
    return [cst.EmptyLine(comment=comment)] if comment is not None else []
