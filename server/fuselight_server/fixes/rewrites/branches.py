"""Branches on the data of a tensor: torch.where, torch.cond.

Invariant: torch.where computes both sides, so each side consists of expressions without side effects. The comments of
a branch go above the statement that replaces it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import libcst as cst
import libcst.matchers as m

from fuselight.shared.report import FactKind
from fuselight_server.fixes.rewrites.assertions import assert_remedies, raise_remedy
from fuselight_server.fixes.rewrites.remedy import FixClass, Remedy
from fuselight_server.fixes.rewrites.tensor_conditions import (
    TensorTest,
    condition_of,
    is_computed_once,
    is_pure_test,
    under_known,
)
from fuselight_server.fixes.syntax.refusals import RefusedRewrite, RewriteRefusedError
from fuselight_server.fixes.syntax.selections import (
    changes_of_cond,
    changes_of_where,
    check_condition,
    check_unchanged,
)
from fuselight_server.fixes.syntax.site import Replacement, Site
from fuselight_server.fixes.syntax.tensor_values import short_code
from fuselight_server.fixes.syntax.tree import descendants, is_flag

_CONDITION = "is_selected"


@dataclass(frozen=True)
class Alternative:
    """One side of a branch: what it assigns, or returns under the name "return"."""

    values: dict[str, cst.BaseExpression]


def branch_remedies(site: Site) -> Iterator[Remedy | RefusedRewrite]:
    """Remedies for a branch, a conditional expression or an assert whose condition is a tensor."""
    node = next(iter(site.nodes((cst.If, cst.IfExp, cst.Assert))), None)
    if isinstance(node, (cst.If, cst.IfExp, cst.Assert)) and m.findall(node.test, _ITEM):
        return  # compared as a number: what keeps the tensor comes first (numbers.py)
    if isinstance(node, cst.IfExp):
        yield from _conditional_expression(site, node)
    elif isinstance(node, cst.Assert):
        yield from assert_remedies(site, node)
    elif isinstance(node, cst.If):
        yield from _statement(site, node)


_ITEM = m.Call(func=m.Attribute(attr=m.Name("item")), args=[])


def _is_value(node: cst.BaseExpression) -> bool:
    """Whether torch.where could take it: no text, no collection, not None or a bool."""
    if isinstance(node, cst.Name):
        return node.value not in {"None", "True", "False"}
    return not isinstance(node, (cst.SimpleString, cst.Tuple, cst.List))


def _conditional_expression(site: Site, node: cst.IfExp) -> Iterator[Remedy | RefusedRewrite]:
    condition, torch = condition_of(site, node.test), site.torch
    if condition is None or not is_pure_test(site, node.test):
        return
    start, end = site.outer_range(node)
    sides = (node.body, node.orelse)
    texts = {
        "where": f"{torch}.where({condition}, {site.code(node.body)}, {site.code(node.orelse)})",
        "cond": f"{torch}.cond({condition}, lambda: {_computed_code(site, node.body)}, "
        f"lambda: {_computed_code(site, node.orelse)})",
    }
    reasons = []
    for kind, text in texts.items():
        try:
            check_condition(site, [node.test], sides)
            changes = _changes(site, kind, sides)
            _check_result(site, node, sides)
        except RewriteRefusedError as error:
            reasons.append(str(error))
            continue
        yield from (_where if kind == "where" else _cond)(site, (start, end, text), changes)
        return
    yield RefusedRewrite("where", _WHERE, reasons[0])


def _check_result(site: Site, node: cst.IfExp, sides: Sequence[cst.BaseExpression]) -> None:
    """Raise RewriteRefusedError if the result of a conditional expression is changed in place."""
    parent = site.parents[node]
    if isinstance(parent, cst.Attribute) and parent.attr.value.endswith("_"):
        raise RewriteRefusedError(f"`{parent.attr.value}` changes the result in place")
    targets = [target.target for target in parent.targets] if isinstance(parent, cst.Assign) else []
    for target in targets:
        if isinstance(target, cst.Name):
            check_unchanged(site, node, target.value, sides)
    if isinstance(parent, cst.Return):
        check_unchanged(site, node, "return", sides)


def _computed_code(site: Site, node: cst.BaseExpression) -> str:
    """The code of a side for torch.cond, which may not return what the caller holds already."""
    return f"{site.code(node)}.clone()" if isinstance(node, cst.Name) else site.code(node)


def _changes(site: Site, kind: str, values: Sequence[cst.BaseExpression]) -> str:
    """What changes with torch.where or torch.cond; empty if nothing does. Raises RewriteRefusedError."""
    for value in values:
        if not _is_value(value) or (kind == "cond" and not _is_simple(site, value)):
            raise RewriteRefusedError(
                f"torch.{kind} cannot compute `{short_code(site, value)}`: it returns tensors only"
            )
    return (changes_of_where if kind == "where" else changes_of_cond)(site, values)


_WHERE = "Use torch.where"


def _where(site: Site, replacement: Replacement, changes: str) -> Iterator[Remedy]:
    text = site.rewritten(replacement)
    if text is not None:
        fix_class = FixClass.CHANGES if changes else FixClass.EQUAL
        yield Remedy("where", _WHERE, fix_class, {site.finding.span.path: text}, changes)


def _cond(site: Site, replacement: Replacement, changes: str) -> Iterator[Remedy]:
    text = site.rewritten(replacement)
    if text is None:
        return
    texts = {site.finding.span.path: text}
    fix_class = FixClass.CHANGES if changes else FixClass.EQUAL
    yield Remedy("cond", "Use torch.cond", fix_class, texts, changes)
    inputs = site.report.inputs
    if inputs is not None and inputs.training:  # layers may draw random numbers, in another order
        title = "Use torch.cond, with other random numbers"
        both = "; ".join(filter(None, ("random numbers in compiled calls", changes)))
        yield Remedy("random_cond", title, FixClass.CHANGES, texts, both)


_SKIPPED_FIRST = re.compile(r"\bcond\((.*), lambda: (\w+)\.clone\(\), lambda: ", re.DOTALL)
_SKIPPED_LAST = re.compile(r"\bcond\((.*?), lambda: (.*), lambda: (\w+)\.clone\(\)\)", re.DOTALL)


def _computed(site: Site, replacement: Replacement) -> Iterator[Remedy]:
    """A layer that is skipped at random, computed in any case: torch.cond takes none that writes into a cache."""
    start, end, text = replacement
    text, first = _SKIPPED_FIRST.subn(r"where(\1, \2, ", text)
    text, last = _SKIPPED_LAST.subn(r"where(\1, \2, \3)", text)
    new = site.rewritten((start, end, text)) if first + last == 1 else None
    if new is not None:
        title = "Compute the layer also where it is skipped, and use torch.where"
        kept = "what a skipped layer keeps: it is computed, and its result is not used"
        zeros = "gradients of zero instead of None, which weight decay and momentum turn into changes"
        changes = f"random numbers, {zeros}, and {kept}"
        texts = {site.finding.span.path: new}
        yield Remedy("computed_where", title, FixClass.CHANGES, texts, changes)


_DRAWS = {"rand", "random", "randn", "uniform", "bernoulli", "uniform_", "bernoulli_"}
"""Functions and methods that draw random numbers."""


def _is_random(site: Site, node: cst.If, test: cst.BaseExpression) -> bool:
    """Whether a condition depends on a random number that it draws, or a name that it reads."""
    function, seen = site.function(node), set[str]()
    waiting: list[cst.BaseExpression | None] = [test]
    while waiting:
        value = waiting.pop()
        for descendant in descendants(value) if value is not None else ():
            if isinstance(descendant, cst.Attribute) and descendant.attr.value in _DRAWS:
                return True
            if isinstance(descendant, cst.Name) and descendant.value not in seen and function is not None:
                seen.add(descendant.value)
                waiting += site.assigned(function, descendant.value)
    return False


class _WithoutLines(cst.CSTTransformer):
    """Puts an expression in parentheses on one line; its comments go elsewhere."""

    def leave_ParenthesizedWhitespace(  # noqa: N802 - LibCST's name
        self, original_node: cst.ParenthesizedWhitespace, updated_node: cst.ParenthesizedWhitespace
    ) -> cst.SimpleWhitespace:
        del original_node, updated_node
        return cst.SimpleWhitespace(" ")


_SPACE_INSIDE = re.compile(r"(?<=[(\[{]) | (?=[)\]}])|,? (?=\)$)")


def _code(site: Site, node: cst.BaseExpression) -> str:
    """The text of a value; on one line if it has comments, which move above the statement."""
    if node not in site.ranges:
        return _name_of(node)
    if site.comments(*site.range_of(node)) == []:
        return site.code(node)
    return _on_one_line(node)


def _on_one_line(node: cst.BaseExpression) -> str:
    flat = node.visit(_WithoutLines())
    return _SPACE_INSIDE.sub("", cst.Module([]).code_for_node(flat)) if isinstance(flat, cst.CSTNode) else ""


_NOT_SIMPLE = (
    *(cst.NamedExpr, cst.Await, cst.Yield, cst.IfExp, cst.Lambda, cst.BaseDict, cst.BaseList, cst.BaseSet),
    *(cst.BaseComp, cst.BaseString, cst.BooleanOperation),
)


def _is_simple(site: Site, node: cst.BaseExpression) -> bool:
    """Whether a side can be a function of its own: one expression that changes nothing in place, without comments."""
    if not _is_value(node):
        return False
    for descendant in descendants(node):
        if isinstance(descendant, _NOT_SIMPLE) or (
            isinstance(descendant, cst.Arg) and descendant.star == "*"
        ):
            return False
        if isinstance(descendant, cst.Call):
            function = descendant.func
            name = (
                function.attr.value if isinstance(function, cst.Attribute) else _module_name(site, function)
            )
            if not name or name.endswith("_") or name in {"item", "tolist", "append"}:
                return False
    return True


def _module_name(site: Site, function: cst.BaseExpression) -> str:
    """The name of a function that Dynamo saw to be a module, or that is an element of an attribute; else empty."""
    if not isinstance(function, cst.Name):
        return ""
    values, around = site.values(function), site.function(function)
    is_module = bool(values) and all(value.kind is FactKind.MODULE for value in values)
    loops = (ancestor for ancestor in site.ancestors(function) if isinstance(ancestor, cst.For))
    is_element = (
        around is not None
        and set(site.assigned(around, function.value)) == {None}
        and any(_reads(loop.target, {function.value}) and "self." in site.code(loop.iter) for loop in loops)
    )
    return function.value if is_module or is_element else ""


def _statement(site: Site, node: cst.If) -> Iterator[Remedy | RefusedRewrite]:
    indent = site.indentation(node)
    test = TensorTest.of(site, node)
    if indent is None or test is None or isinstance(site.parents[node], cst.If):  # an elif
        return
    raised = raise_remedy(site, node, test, indent)
    skipped = _skipped(site, node, test.known)
    if raised is not None:
        yield raised
    elif skipped is not None:
        yield from _continue(site, node, test.rest, skipped, indent)
    else:
        yield from _selection(site, node, test, indent)


def _selection(site: Site, node: cst.If, test: TensorTest, indent: str) -> Iterator[Remedy | RefusedRewrite]:
    """A statement whose sides assign or return values."""
    start, end = site.range_of(node)
    sides = _sides(site, node, test.rest)
    if sides is None or (test.known and node.orelse is not None):
        return
    if sides.following is not None and not test.known:
        end = site.range_of(sides.following)[1]
    end = site.end_of_line(end)
    comments = site.comments(start, end)
    if comments is None:
        return
    reasons: list[str] = []
    for kind, lines, changes in _selections(site, node, sides, reasons):
        text = f"{site.newline}{indent}".join((*comments, *under_known(site, node, test.known, lines)))
        replaced = (start, end, text)
        flag = _decided_flag(sides)
        if flag:
            yield from _with_flag(site, node, replaced, flag)
        else:
            yield from (_where if kind == "where" else _cond)(site, replaced, changes)
        if kind == "cond" and not flag and _is_random(site, node, test.rest):
            yield from _computed(site, replaced)
        return
    if reasons:
        yield RefusedRewrite("where", _WHERE, reasons[0])


def _decided_flag(sides: Sides) -> str:
    """The only name that is assigned if it is True or False on one side; else empty."""
    constants = {
        name
        for _, side in sides.parts
        for name, value in side.values.items()
        if isinstance(value, cst.Name) and value.value in {"True", "False"}
    }
    return constants.pop() if len(constants) == len(sides.parts[0][1].values) == 1 else ""


def _with_flag(
    site: Site, node: cst.If, replaced: Replacement, flag: str
) -> Iterator[Remedy | RefusedRewrite]:
    """The remedies of the only later branch on a flag, in the text in which the flag is a tensor."""
    function = site.function(node)
    reads = site.loads(function, flag) if function is not None else []
    reads = [expression for expression in reads if site.range_of(expression)[0] >= replaced[1]]
    around = [
        next((at for at in site.ancestors(expression) if isinstance(at, cst.If)), None)
        for expression in reads
    ]
    branch = around[0] if len(around) == 1 else None
    if branch is None or not site.contains(branch.test, site.range_of(reads[0])[0]):
        return
    new, shift = site.rewritten(replaced), len(replaced[2]) - (replaced[1] - replaced[0])
    if new is None or len(new) - len(site.text) != shift:
        return
    first, last = site.outer_range(branch.test)
    moved = Site.at(site, new, first + shift, last + shift)
    yield from branch_remedies(moved) if moved is not None else ()


@dataclass(frozen=True)
class Skipped:
    """What `if condition: continue` skips: the rest of the loop's body."""

    line: cst.SimpleStatementLine
    name: str
    value: cst.BaseExpression
    around: str | None
    """The indentation of `else:`, where the line runs too if a test without a tensor is false; None without one."""
    known: Sequence[cst.BaseExpression]


def _continue(
    site: Site, node: cst.If, test: cst.BaseExpression, skipped: Skipped, indent: str
) -> Iterator[Remedy | RefusedRewrite]:
    """`if condition: continue` and one assignment after it, as an assignment of what the condition selects."""
    start, end = site.range_of(node)[0], site.end_of_line(site.range_of(skipped.line)[1])
    comments, value = site.comments(start, end), skipped.value
    sides = Sides(
        (
            (test, Alternative({skipped.name: cst.Name(skipped.name)})),
            (None, Alternative({skipped.name: value})),
        ),
        None,
    )
    if comments is None or not _is_bound(site, node, skipped.name):
        return
    reasons: list[str] = []
    for kind, lines, changes in _selections(site, node, sides, reasons):
        text = f"{site.newline}{indent}".join((*comments, *under_known(site, node, skipped.known, lines)))
        if skipped.around is not None:
            again = f"{skipped.name} = {_on_one_line(value)}"
            text += f"{site.newline}{skipped.around}else:"
            text += f"{site.newline}{skipped.around}{site.step(node)}{again}"
        yield from (_where if kind == "where" else _cond)(site, (start, end, text), changes)
        if kind == "cond" and _is_random(site, node, test):
            yield from _computed(site, (start, end, text))
        return
    if reasons:
        yield RefusedRewrite("where", _WHERE, reasons[0])


@dataclass(frozen=True)
class Sides:
    """All sides of a statement, in order: each with its condition, None for the last."""

    parts: tuple[tuple[cst.BaseExpression | None, Alternative], ...]
    following: cst.SimpleStatementLine | None
    """The `return` after the statement, which is the last side."""


def _sides(site: Site, node: cst.If, test: cst.BaseExpression) -> Sides | None:
    """The sides of a statement whose first condition is `test`; None where it does not select values."""
    parts: list[tuple[cst.BaseExpression | None, Alternative]] = []
    following = None
    branch: cst.If | cst.Else | None = node
    while branch is not None:
        side = _alternative(branch.body)
        if side is None:
            return None
        condition = test if branch is node else branch.test if isinstance(branch, cst.If) else None
        parts.append((condition, side))
        branch = branch.orelse if isinstance(branch, cst.If) else None
    names = list(parts[0][1].values)
    if parts[-1][0] is not None:
        if "return" in names:
            following = _return_after(site, node)
            last = _alternative(cst.IndentedBlock([following])) if following is not None else None
        else:
            bound = all(_is_bound(site, node, name) for name in names)
            last = Alternative({name: cst.Name(name) for name in names}) if bound else None
        if last is None:
            return None
        parts.append((None, last))
    if any(set(side.values) != set(names) for _, side in parts):
        return None
    return Sides(tuple(parts), following)


def _alternative(body: cst.BaseSuite) -> Alternative | None:
    """What a block assigns or returns; None where it does anything else, or assigns a name twice."""
    if not isinstance(body, cst.IndentedBlock):
        return None
    values: dict[str, cst.BaseExpression] = {}
    for line in body.body:
        if not isinstance(line, cst.SimpleStatementLine) or len(line.body) != 1 or "return" in values:
            return None
        statement = line.body[0]
        if isinstance(statement, cst.Return) and statement.value is not None and not values:
            values["return"] = statement.value
        elif (
            isinstance(statement, cst.Assign)
            and len(statement.targets) == 1
            and isinstance(name := statement.targets[0].target, cst.Name)
            and name.value not in values
        ):
            values[name.value] = statement.value
        else:
            return None
    return Alternative(values) if values else None


def _after(site: Site, node: cst.CSTNode) -> Sequence[cst.BaseStatement]:
    """The statements that follow a statement in its block."""
    block = site.parents[node]
    if not isinstance(block, cst.IndentedBlock):
        return ()
    index = next(at for at, statement in enumerate(block.body) if statement is node)
    return block.body[index + 1 :]


def _return_after(site: Site, node: cst.If) -> cst.SimpleStatementLine | None:
    """The `return` that follows a statement in its block."""
    after = next(iter(_after(site, node)), None)
    if (
        isinstance(after, cst.SimpleStatementLine)
        and len(after.body) == 1
        and isinstance(after.body[0], cst.Return)
    ):
        return after
    return None


def _skipped(site: Site, node: cst.If, known: Sequence[cst.BaseExpression]) -> Skipped | None:
    """The only statement that `if condition: continue` skips: in the body of a loop, or in an `if` at its top."""
    only = node.body.body[0] if len(node.body.body) == 1 and node.orelse is None else None
    is_continue = isinstance(only, cst.SimpleStatementLine) and isinstance(only.body[0], cst.Continue)
    after, outer, around = _after(site, node), site.parents[site.parents[node]], None
    if known:
        around = site.indentation(node)
    if is_continue and isinstance(outer, cst.If) and not after and not known and outer.orelse is None:
        around = site.indentation(outer)
        after, outer = _after(site, outer), site.parents[site.parents[outer]]
    line = after[0] if len(after) == 1 and isinstance(outer, (cst.For, cst.While)) else None
    if not is_continue or not isinstance(line, cst.SimpleStatementLine):
        return None
    side = _alternative(cst.IndentedBlock([line]))
    if side is None or "return" in side.values:
        return None
    ((name, value),) = side.values.items()
    return Skipped(line, name, value, around, known)


def _is_bound(site: Site, node: cst.If, name: str) -> bool:
    """Whether a name has a value before the statement, whichever way it is reached."""
    inner: cst.CSTNode = node
    for parent in site.ancestors(node):
        if isinstance(parent, cst.IndentedBlock):
            for statement in parent.body:
                if statement is inner:
                    break
                if isinstance(statement, cst.SimpleStatementLine) and any(
                    _binds(part, name) for part in statement.body
                ):
                    return True
        if isinstance(parent, cst.FunctionDef):
            parameters = parent.params
            known = (*parameters.posonly_params, *parameters.params, *parameters.kwonly_params)
            return any(parameter.name.value == name for parameter in known)
        inner = parent
    return False


def _binds(statement: cst.BaseSmallStatement, name: str) -> bool:
    if isinstance(statement, cst.Assign):
        targets: list[cst.BaseExpression] = [node.target for node in statement.targets]
    elif isinstance(statement, cst.AnnAssign) and statement.value is not None:
        targets = [statement.target]
    else:
        return False
    while targets:
        target = targets.pop()
        if isinstance(target, cst.Name) and target.value == name:
            return True
        if isinstance(target, (cst.Tuple, cst.List)):
            targets += [element.value for element in target.elements]
    return False


def _selections(
    site: Site, node: cst.If, sides: Sides, reasons: list[str]
) -> Iterator[tuple[str, list[str], str]]:
    """`where` or `cond`, the statements, and what changes; `reasons` gets why a kind is refused."""
    for kind in ("where", "cond"):
        try:
            selected = _selected(site, node, sides, kind)
        except RewriteRefusedError as error:
            reasons.append(str(error))
            continue
        if selected is not None:
            yield kind, *selected


def _selected(site: Site, node: cst.If, sides: Sides, kind: str) -> tuple[list[str], str] | None:
    """The statements that replace an `if`, and what changes with them; None where they do not fit.

    Raises RewriteRefusedError where they are not the same for other calls.
    """
    conditions, columns = _conditions(site, sides), _columns(sides)
    if not conditions or columns is None or _is_entangled(columns):
        return None
    if min(len(columns), len(conditions)) > 1 or (kind == "cond" and len(columns) * len(conditions) > 1):
        return None
    changes = _checked(site, node, sides, columns, kind)
    lines = []
    if len(columns) > 1 and not conditions[0].isidentifier():
        name = site.free_name(node, _CONDITION)
        lines.append(f"{name} = {conditions[0]}")
        conditions = [name]
    texts = [_call(site, kind, conditions, values) for _, values in columns]
    if columns[0][0] == "return":
        return [*lines, f"return {', '.join(texts)}"], changes
    return [*lines, *(f"{name} = {text}" for (name, _), text in zip(columns, texts, strict=True))], changes


def _checked(
    site: Site,
    node: cst.If,
    sides: Sides,
    columns: Sequence[tuple[str, Sequence[cst.BaseExpression]]],
    kind: str,
) -> str:
    """What changes with the statements. Raises RewriteRefusedError."""
    tests = [test for test, _ in sides.parts if test is not None]
    check_condition(site, tests, [_at(site, node, value) for _, values in columns for value in values])
    checked = list[str]()
    for name, values in columns:
        if kind == "where" and any(is_flag(value) for value in values):
            if not all(is_flag(value) or _name_of(value) == name for value in values):
                raise RewriteRefusedError(f"`{name}` is True or False on one side only")
            continue
        placed = [_at(site, node, value) for value in values]
        checked.append(_changes(site, kind, placed))
        check_unchanged(site, node, name, placed)
    return next(filter(None, checked), "")


def _at(site: Site, node: cst.If, value: cst.BaseExpression) -> cst.BaseExpression:
    """The value of a side in the text; for one that is only implied, a use of its name in the function."""
    if value in site.ranges or not isinstance(value, cst.Name):
        return value
    function = site.function(node)
    uses = site.loads(function, value.value) if function is not None else []
    if not uses:
        raise RewriteRefusedError(
            f"nothing but the branch reads `{value.value}`: whether it is a tensor is not known"
        )
    return uses[0]


def _conditions(site: Site, sides: Sides) -> list[str] | None:
    """The conditions of all sides but the last, None where one is not a tensor of bools or has a side effect."""
    tests = [test for test, _ in sides.parts if test is not None]
    if not is_computed_once(site, tests[0]) or not all(is_pure_test(site, test) for test in tests[1:]):
        return None
    conditions = [condition for test in tests if (condition := condition_of(site, test))]
    return conditions if len(conditions) == len(tests) else None


def _call(site: Site, kind: str, conditions: Sequence[str], values: Sequence[cst.BaseExpression]) -> str:
    """Nested calls that select one of the values."""
    codes = [_code(site, value) for value in values]
    if kind == "cond":  # a side may not return what the caller holds already
        copies = [".clone()" if isinstance(value, cst.Name) else "" for value in values]
        codes = [f"lambda: {code}{copy}" for code, copy in zip(codes, copies, strict=True)]
    text = codes[-1]
    for condition, code in zip(reversed(conditions), reversed(codes[:-1]), strict=True):
        text = f"{site.torch}.{kind}({condition}, {code}, {text})"
    return text


def _name_of(node: cst.BaseExpression) -> str:
    return node.value if isinstance(node, cst.Name) else ""


def _columns(sides: Sides) -> list[tuple[str, list[cst.BaseExpression]]] | None:
    """For each name, its value on each side; a returned tuple is one column per element."""
    first = sides.parts[0][1].values
    if "return" not in first:
        return [(name, [side.values[name] for _, side in sides.parts]) for name in first]
    values = [side.values["return"] for _, side in sides.parts]
    if not all(isinstance(value, cst.Tuple) for value in values):
        return [("return", values)]
    rows = [value.elements for value in values if isinstance(value, cst.Tuple)]
    if len({len(row) for row in rows}) > 1 or len(rows[0]) < 2:  # noqa: PLR2004 - a tuple of one needs its comma
        return None
    if not all(isinstance(element, cst.Element) for row in rows for element in row):
        return None
    return [("return", [row[at].value for row in rows]) for at in range(len(rows[0]))]


def _is_entangled(columns: Sequence[tuple[str, Sequence[cst.BaseExpression]]]) -> bool:
    """Whether a value reads a name that an earlier assignment of the replacement changes."""
    assigned: set[str] = set()
    for name, values in columns:
        if any(_reads(value, assigned) for value in values):
            return True
        assigned.add(name)
    return False


def _reads(node: cst.CSTNode, names: set[str]) -> bool:
    return any(
        isinstance(descendant, cst.Name) and descendant.value in names for descendant in descendants(node)
    )
