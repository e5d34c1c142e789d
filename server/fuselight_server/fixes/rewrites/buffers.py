"""A number that is an attribute of a module as a tensor, whose value has no guard.

Invariant: every statement of the workspace that reads or writes the attribute is known: it stands in the class itself,
and only computes with a tensor, counts, or stores a literal. One assignment in `__init__` becomes the tensor.

It is a tensor of the CPU and no registered buffer, so that it stays the number that it was: `half()`, `to(dtype)` and
mixed precision do not round it, `to_empty()` after the meta device does not lose it, DDP does not broadcast it, and
the state dict keeps its keys. Each assignment makes a new tensor: torch.compile computes wrong gradients with a tensor
that the compiled code reads and changes in place. The title names the price: under `torch.inference_mode()`, that is an
inference tensor.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

import libcst as cst

from fuselight.shared.report import GuardCause, GuardFailure, Recompile, Report
from fuselight_server.fixes.rewrites.remedy import FixClass, Remedy
from fuselight_server.fixes.syntax.attribute_uses import OwnedAttribute, other_texts
from fuselight_server.fixes.syntax.parameter_uses import is_operand, rounding_caveat
from fuselight_server.fixes.syntax.refusals import RefusedRewrite, RewriteRefusedError
from fuselight_server.fixes.syntax.site import Replacement, Site
from fuselight_server.fixes.syntax.tensor_values import short_code
from fuselight_server.fixes.syntax.tree import children_of, descendants, dotted

_ATTRIBUTE = re.compile(r"self\.([^\W\d]\w*)")
_INTEGER = re.compile(r"-?\d+")
_COUNTS = {cst.AddAssign: "+", cst.SubtractAssign: "-"}
_SCALES = {**_COUNTS, cst.MultiplyAssign: "*"}
_PLAIN_BASES = frozenset({"nn.Module", "torch.nn.Module", "Module"})


def buffer_remedies(
    failure: GuardFailure,
    recompilation: Recompile,
    site: Site,
    report: Report,
    read: Callable[[str], str | None],
) -> Iterator[Remedy | RefusedRewrite]:
    """A tensor in `__init__`, with the assignments in other methods as tensors."""
    named = _ATTRIBUTE.fullmatch(failure.source)
    if named is None or failure.cause not in {GuardCause.NUMBER, GuardCause.VALUE}:
        return
    is_integer = all(_INTEGER.fullmatch(value or "") for value in (failure.was, failure.now))
    if not is_integer and not _are_floats(failure.was, failure.now):
        return
    title, owner = f"Make `{failure.source}` a tensor", _class_at(site, recompilation)
    if owner is None:
        return
    try:
        replacements = _replacements(site, owner, named[1], is_integer=is_integer)
        _check_elsewhere(site, owner, named[1], report, read)
    except RewriteRefusedError as error:
        yield RefusedRewrite("buffer", title, str(error))
        return
    text = site.rewritten(*replacements)
    if _is_assigned_later(site, owner, named[1]):
        title = f"{title}, for no training after inference_mode"
    if text is not None:
        fix_class = FixClass.EXACT if is_integer else FixClass.EQUAL
        caveat = "" if is_integer else rounding_caveat(site, failure.source)
        yield Remedy("buffer", title, fix_class, {recompilation.location.path: text}, caveat=caveat)


def _is_assigned_later(site: Site, owner: cst.ClassDef, name: str) -> bool:
    """Whether another method than `__init__` assigns the attribute."""
    return any(
        isinstance(node, cst.Attribute)
        and node.attr.value == name
        and _assignment(site, node) is not None
        and (function := site.function(node)) is not None
        and function.name.value != "__init__"
        for node in descendants(owner)
    )


def _check_elsewhere(
    site: Site, owner: cst.ClassDef, name: str, report: Report, read: Callable[[str], str | None]
) -> None:
    """Raise RewriteRefusedError if code outside of the class may read or write the attribute."""
    path, class_name = site.finding.span.path, owner.name.value
    if site.parents[owner] is not site.module:
        raise RewriteRefusedError(f"the class `{class_name}` is not defined at top level")
    lines = site.line_number(owner), site.ranges[owner].end.line + site.line - 1
    bases = {dotted(base.value) for base in owner.bases}
    attribute = OwnedAttribute(name, class_name, bases <= _PLAIN_BASES, path, *lines)
    others = other_texts(path, name, report.roots, tuple(report.files), read)
    used = attribute.use_elsewhere(site.text, others)
    if used:
        raise RewriteRefusedError(f"{used} may read or write `{name}`, which would be a tensor")


def _are_floats(*values: str | None) -> bool:
    try:
        return all(float(value or "") == float(value or "") for value in values)
    except ValueError:
        return False


def _class_at(site: Site, recompilation: Recompile) -> cst.ClassDef | None:
    """The class of the method that was compiled."""
    for node in site.parents:
        if (
            not isinstance(node, cst.FunctionDef)
            or node.name.value != recompilation.function.rpartition(".")[2]
        ):
            continue
        first = site.line_number(node.decorators[0] if node.decorators else node)
        if first <= recompilation.location.line <= site.line_number(node):
            return next((above for above in site.ancestors(node) if isinstance(above, cst.ClassDef)), None)
    return None


def _replacements(site: Site, owner: cst.ClassDef, name: str, *, is_integer: bool) -> list[Replacement]:
    """The changes of all statements that assign the attribute. Raises RewriteRefusedError where one does not fit."""
    replacements: list[Replacement] = []
    created = 0
    for node in site.parents:
        if isinstance(node, cst.SimpleString) and node.evaluated_value == name:
            raise RewriteRefusedError(f'`"{name}"` on line {site.line_number(node)} may name the attribute')
        if not isinstance(node, cst.Attribute) or node.attr.value != name:
            continue
        line, statement, function = site.line_number(node), _assignment(site, node), site.function(node)
        if function is None or not _is_own(site, node, function, owner):
            raise RewriteRefusedError(
                f"line {line} uses `{short_code(site, node)}` outside of a method's own `self`"
            )
        if statement is not None and statement not in site.ranges:
            raise RewriteRefusedError(
                f"line {line} binds `{dotted(node)}` in another way than by an assignment"
            )
        if statement is None:
            _check_read(site, node, is_integer=is_integer)
            continue
        self_ = dotted(node.value)
        if function.name.value == "__init__":
            replacements.append(
                (*site.range_of(statement), _created(site, statement, self_, name, is_integer=is_integer))
            )
            created += 1
            continue
        stored = _stored(site, statement, f"{self_}.{name}", is_integer=is_integer)
        if stored:
            replacements.append((*site.range_of(statement), stored))
    if created != 1:
        how = f"assigns `{name}` in {created} places" if created else f"does not assign `{name}`"
        raise RewriteRefusedError(f"`__init__` {how}")
    return replacements


def _created(
    site: Site, statement: cst.BaseSmallStatement, self_: str, name: str, *, is_integer: bool
) -> str:
    """The statement of `__init__` that makes the tensor. Raises RewriteRefusedError."""
    value = statement.value if isinstance(statement, (cst.Assign, cst.AnnAssign)) else None
    if value is None or not _is_alone(site, statement):
        raise RewriteRefusedError(f"`{short_code(site, statement)}` does more than to assign `{name}`")
    function = site.function(statement)
    if not _is_literal(value, is_integer=is_integer) and not _is_annotated(
        site, function, value, is_integer=is_integer
    ):
        kind = "int" if is_integer else "float"
        raise RewriteRefusedError(
            f"another object may pass no {kind} for `{short_code(site, value)}`, which has no annotation as {kind}"
        )
    dtype = "" if is_integer else f", dtype={site.torch}.float64"
    return f'{self_}.{name} = {site.torch}.tensor({site.code(value)}{dtype}, device="cpu")'


def _is_literal(node: cst.BaseExpression, *, is_integer: bool) -> bool:
    """Whether it is a number as it is written."""
    if isinstance(node, cst.UnaryOperation) and isinstance(node.operator, cst.Minus):
        node = node.expression
    return isinstance(node, cst.Integer) or (not is_integer and isinstance(node, cst.Float))


def _is_annotated(
    site: Site, function: cst.FunctionDef | None, value: cst.BaseExpression, *, is_integer: bool
) -> bool:
    """Whether it is a parameter that is a number by its annotation."""
    params = function.params.params if function is not None else ()
    written = [
        site.code(parameter.annotation.annotation)
        for parameter in params
        if isinstance(value, cst.Name)
        and parameter.name.value == value.value
        and parameter.annotation is not None
    ]
    return written == ["int" if is_integer else "float"]


def _check_read(site: Site, node: cst.Attribute, *, is_integer: bool) -> None:
    """Raise RewriteRefusedError unless a use only computes with a tensor, or is part of counting."""
    if is_operand(site, node, is_integer=is_integer):
        return
    inner: cst.CSTNode = node
    for parent in site.ancestors(node):
        if isinstance(parent, cst.Assign) and parent.value is inner:
            target = parent.targets[0].target if len(parent.targets) == 1 else None
            if (
                target is not None
                and dotted(target) == dotted(node)
                and _counts(node, parent.value, is_integer=is_integer)
            ):
                return
        if not isinstance(parent, (cst.BinaryOperation, cst.UnaryOperation)):
            break
        inner = parent
    line = site.line_number(node)
    raise RewriteRefusedError(f"line {line} uses `{dotted(node)}` where a tensor may differ from a number")


def _counts(attribute: cst.Attribute, value: cst.BaseExpression, *, is_integer: bool) -> bool:
    """Whether a value is computed from the attribute and literals as a tensor computes it."""
    if dotted(value) == dotted(attribute):
        return True
    if isinstance(value, cst.BinaryOperation):
        plain = (cst.Add, cst.Subtract) if is_integer else (cst.Add, cst.Subtract, cst.Multiply)
        is_cycle = (
            is_integer and isinstance(value.operator, cst.Modulo) and isinstance(value.right, cst.Integer)
        )
        if not isinstance(value.operator, plain) and not is_cycle:
            return False
        return all(
            _counts(attribute, expression, is_integer=is_integer) for expression in (value.left, value.right)
        )
    return _is_literal(value, is_integer=is_integer)


def _assignment(site: Site, node: cst.Attribute) -> cst.BaseSmallStatement | None:
    """The statement that assigns the attribute; None where it is read."""
    parent = site.parents[node]
    if isinstance(parent, (cst.AugAssign, cst.AnnAssign)):
        return parent if parent.target is node else None
    for ancestor in site.ancestors(node):
        if isinstance(ancestor, (cst.AssignTarget, cst.For, cst.Del, cst.NamedExpr, cst.AsName)):
            inside = ancestor.target if isinstance(ancestor, (cst.AssignTarget, cst.For)) else ancestor
            if _contains(inside, node) and not _is_read(site, node, inside):
                statement = next(
                    (up for up in (ancestor, *site.ancestors(ancestor)) if _is_statement(up)), None
                )
                return statement if isinstance(statement, cst.BaseSmallStatement) else cst.Pass()
        if isinstance(ancestor, (cst.BaseSmallStatement, cst.BaseCompoundStatement)):
            return None
    return None


def _is_statement(node: cst.CSTNode) -> bool:
    return isinstance(node, (cst.BaseSmallStatement, cst.BaseCompoundStatement))


def _contains(outer: cst.CSTNode, node: cst.CSTNode) -> bool:
    return outer is node or any(_contains(child, node) for child in children_of(outer))


def _is_read(site: Site, node: cst.CSTNode, target: cst.CSTNode) -> bool:
    """Whether the attribute within a target is read, as in `self.items[self.index] = x`."""
    for ancestor in site.ancestors(node):
        if ancestor is target or node is target:
            return isinstance(target, (cst.Attribute, cst.Subscript)) and node is not target
        if isinstance(ancestor, (cst.Subscript, cst.Attribute, cst.Call)):
            return True
    return False


def _is_own(site: Site, node: cst.Attribute, function: cst.FunctionDef, owner: cst.ClassDef) -> bool:
    """Whether the attribute is of `self`, in a method of the class."""
    around = next(
        (ancestor for ancestor in site.ancestors(function) if not isinstance(ancestor, cst.IndentedBlock)),
        None,
    )
    parameters = (*function.params.posonly_params, *function.params.params)
    return around is owner and bool(parameters) and dotted(node.value) == parameters[0].name.value


def _is_alone(site: Site, statement: cst.BaseSmallStatement) -> bool:
    """Whether a statement assigns one attribute and has its line to itself."""
    if isinstance(statement, cst.Assign):
        targets = [target.target for target in statement.targets]
        if len(targets) != 1 or not isinstance(targets[0], cst.Attribute):
            return False
    return site.line_of(statement) is not None and site.comments(*site.range_of(statement)) == []


def _stored(site: Site, statement: cst.BaseSmallStatement, attribute: str, *, is_integer: bool) -> str:
    """The assignment of a tensor; empty where it can stay. Raises RewriteRefusedError where it does not fit."""
    code = short_code(site, statement)
    if not _is_alone(site, statement):
        raise RewriteRefusedError(f"`{code}` does more than to assign `{attribute}`")
    if isinstance(statement, cst.AugAssign):
        operator = (_COUNTS if is_integer else _SCALES).get(type(statement.operator))
        if operator and _is_constant(statement.value, is_integer=is_integer):
            return f"{attribute} = {attribute} {operator} {site.operand_of(statement.value)}"
    if isinstance(statement, cst.Assign):
        value = statement.value
        if _is_literal(value, is_integer=is_integer):
            return f"{attribute} = {site.torch}.full_like({attribute}, {site.code(value)})"
        target = statement.targets[0].target
        is_counting = isinstance(target, cst.Attribute) and _mentions(value, attribute)
        if (
            isinstance(target, cst.Attribute)
            and is_counting
            and _counts(target, value, is_integer=is_integer)
        ):
            return ""  # computes with the tensor
    raise RewriteRefusedError(f"`{code}` may store something else than a number, or wrap")


def _is_constant(node: cst.BaseExpression, *, is_integer: bool) -> bool:
    if isinstance(node, cst.BinaryOperation) and isinstance(
        node.operator, (cst.Add, cst.Subtract, cst.Multiply)
    ):
        return all(_is_constant(expression, is_integer=is_integer) for expression in (node.left, node.right))
    return _is_literal(node, is_integer=is_integer)


def _mentions(node: cst.BaseExpression, attribute: str) -> bool:
    return any(
        isinstance(descendant, cst.Attribute) and dotted(descendant) == attribute
        for descendant in descendants(node)
    )
