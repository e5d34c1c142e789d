"""A number that is an attribute of a module as a buffer, whose value has no guard.

Invariant: all assignments to the attribute are rewritten, or none is. Only the class itself may assign it: one
assignment in `__init__`, which becomes the buffer, and any number in its other methods. The buffer is not persistent,
so that the state dict keeps its keys.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import libcst as cst

from fuselight.report import GuardCause
from fuselight_server.fixes.purity import dotted
from fuselight_server.fixes.remedy import FixClass, Remedy

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from fuselight.report import GuardFailure, Recompile, Report
    from fuselight_server.fixes.site import Replacement, Site

_ATTRIBUTE = re.compile(r"self\.([^\W\d]\w*)")
_INTEGER = re.compile(r"-?\d+")
_STORED = (
    r"\.\s*{0}\s*(?::[^=\n]*)?(?:=(?!=)|(?:[-+*/%@&|^]|//|\*\*|<<|>>)=)"
    r"|\b(?:setattr|delattr)\([^\n]*[\"']{0}[\"']"
)
"""A statement that assigns an attribute of that name."""
_OPERATORS = {
    cst.AddAssign: "+",
    cst.SubtractAssign: "-",
    cst.MultiplyAssign: "*",
    cst.FloorDivideAssign: "//",
    cst.ModuloAssign: "%",
}


def buffer_remedies(
    failure: GuardFailure, one: Recompile, site: Site, report: Report, read: Callable[[str], str | None]
) -> Iterator[Remedy]:
    """`self.register_buffer` in `__init__`, with the assignments in other methods as tensors."""
    named = _ATTRIBUTE.fullmatch(failure.source)
    if named is None or failure.cause not in {GuardCause.NUMBER, GuardCause.VALUE}:
        return
    is_integer = all(_INTEGER.fullmatch(value or "") for value in (failure.was, failure.now))
    if not is_integer and not _are_floats(failure.was, failure.now):
        return
    name, path = named[1], one.location.path
    owner = _class_at(site, one)
    stored = re.compile(_STORED.format(re.escape(name)))
    elsewhere = (read(other) or "" for other in report.files if other != path)
    rest = site.text[: site.start], site.text[site.start + len(site.source) :]
    if owner is None or any(map(stored.search, (*rest, *elsewhere))):
        return
    replacements = _replacements(site, owner, name, is_integer=is_integer)
    text = site.rewritten(*replacements) if replacements else None
    if text is not None:
        yield Remedy(
            *("buffer", f"Make `{failure.source}` a buffer"),
            FixClass.EXACT if is_integer else FixClass.EQUAL,
            {path: text},
        )


def _are_floats(*values: str | None) -> bool:
    try:
        return all(float(value or "") == float(value or "") for value in values)
    except ValueError:
        return False


def _class_at(site: Site, one: Recompile) -> cst.ClassDef | None:
    """The class of the method that was compiled."""
    for node in site.parents:
        if not isinstance(node, cst.FunctionDef) or node.name.value != one.function.rpartition(".")[2]:
            continue
        first = site.line_number(node.decorators[0] if node.decorators else node)
        if first <= one.location.line <= site.line_number(node):
            return next((above for above in site.ancestors(node) if isinstance(above, cst.ClassDef)), None)
    return None


def _replacements(
    site: Site, owner: cst.ClassDef, name: str, *, is_integer: bool
) -> list[Replacement] | None:
    """The changes of all statements that assign the attribute; None where one does not fit."""
    found: list[Replacement] = []
    created = 0
    for node in site.parents:
        if not isinstance(node, cst.Attribute) or node.attr.value != name:
            continue
        statement = _assignment(site, node)
        if statement is None:
            continue
        function = site.function(node)
        if function is None or not _is_own(site, node, function, owner):
            return None
        self_ = dotted(node.value)
        if function.name.value == "__init__":
            value = statement.value if isinstance(statement, (cst.Assign, cst.AnnAssign)) else None
            if value is None or not _is_alone(site, statement):
                return None
            dtype = "" if is_integer else f", dtype={site.torch}.float64"
            tensor = f"{site.torch}.tensor({site.code(value)}{dtype})"
            text = f'{self_}.register_buffer("{name}", {tensor}, persistent=False)'
            found.append((*site.range_of(statement), text))
            created += 1
            continue
        stored = _stored(site, statement, f"{self_}.{name}")
        if stored is None:
            return None
        if stored:
            found.append((*site.range_of(statement), stored))
    return found if created == 1 else None


def _assignment(site: Site, node: cst.Attribute) -> cst.BaseSmallStatement | None:
    """The statement that assigns the attribute; None where it is read."""
    parent = site.parents[node]
    if isinstance(parent, (cst.AugAssign, cst.AnnAssign)):
        return parent if parent.target is node else None
    for one in site.ancestors(node):
        if isinstance(one, (cst.AssignTarget, cst.For, cst.Del, cst.NamedExpr, cst.AsName)):
            inside = one.target if isinstance(one, (cst.AssignTarget, cst.For)) else one
            if _contains(inside, node) and not _is_read(site, node, inside):
                statement = next((up for up in (one, *site.ancestors(one)) if _is_statement(up)), None)
                return statement if isinstance(statement, cst.BaseSmallStatement) else cst.Pass()
        if isinstance(one, (cst.BaseSmallStatement, cst.BaseCompoundStatement)):
            return None
    return None


def _is_statement(node: cst.CSTNode) -> bool:
    return isinstance(node, (cst.BaseSmallStatement, cst.BaseCompoundStatement))


def _contains(outer: cst.CSTNode, node: cst.CSTNode) -> bool:
    return outer is node or any(_contains(child, node) for child in outer.children)


def _is_read(site: Site, node: cst.CSTNode, target: cst.CSTNode) -> bool:
    """Whether the attribute within a target is read, as in `self.items[self.index] = x`."""
    for one in site.ancestors(node):
        if one is target or node is target:
            return isinstance(target, (cst.Attribute, cst.Subscript)) and node is not target
        if isinstance(one, (cst.Subscript, cst.Attribute, cst.Call)):
            return True
    return False


def _is_own(site: Site, node: cst.Attribute, function: cst.FunctionDef, owner: cst.ClassDef) -> bool:
    """Whether the attribute is of `self`, in a method of the class."""
    around = next((one for one in site.ancestors(function) if not isinstance(one, cst.IndentedBlock)), None)
    parameters = (*function.params.posonly_params, *function.params.params)
    return around is owner and bool(parameters) and dotted(node.value) == parameters[0].name.value


def _is_alone(site: Site, statement: cst.BaseSmallStatement) -> bool:
    """Whether a statement assigns one attribute and has its line to itself."""
    if isinstance(statement, cst.Assign):
        targets = [one.target for one in statement.targets]
        if len(targets) != 1 or not isinstance(targets[0], cst.Attribute):
            return False
    return site.line_of(statement) is not None and site.comments(*site.range_of(statement)) == []


def _stored(site: Site, statement: cst.BaseSmallStatement, attribute: str) -> str | None:
    """The assignment of a tensor; empty where it can stay, None where it does not fit."""
    if not _is_alone(site, statement):
        return None
    if isinstance(statement, cst.AugAssign):
        operator = _OPERATORS.get(type(statement.operator))
        return (
            f"{attribute} = {attribute} {operator} {site.operand_of(statement.value)}" if operator else None
        )
    if isinstance(statement, cst.Assign):
        value = statement.value
        if isinstance(value, cst.BinaryOperation) and attribute in {dotted(value.left), dotted(value.right)}:
            return ""  # computes with the tensor
        return f"{attribute} = {site.torch}.full_like({attribute}, {site.code(value)})"
    return None
