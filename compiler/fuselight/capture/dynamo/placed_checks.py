"""Comparisons by `is` of a compiled function, made again with the variables of a later call.

Invariant: attributes are read as objects hold them, and no code of the user's runs; what cannot be read so is unknown.
"""

from __future__ import annotations

import ast
import linecache
from collections.abc import Mapping
from dataclasses import dataclass

import torch

from fuselight.adapters.torch_api.dynamo.identity_checks import IdentityCheck
from fuselight.capture.dynamo import stacks
from fuselight.shared.own_attributes import own_attributes
from fuselight.shared.report import Stack
from fuselight.shared.torch_texts import in_user_words

_PLAIN = (bool, int, float, complex, str, bytes, type(None))
"""Values that Python may keep once or several times: torch has guards on them."""
_OF_MODULES = ("_modules", "_parameters", "_buffers")


@dataclass(frozen=True)
class PlacedCheck:
    """A comparison of two objects that were different at the compile."""

    left: ast.expr
    right: ast.expr
    name: str
    """As the line has it: `self.active is self.primary`."""
    stack: Stack

    def is_same(self, variables: Mapping[str, object], global_variables: Mapping[str, object]) -> bool:
        """Whether a call with these variables has one object in both places."""
        try:
            left, right = (_value(node, variables, global_variables) for node in (self.left, self.right))
        except (LookupError, TypeError):
            return False
        return left is right and not isinstance(left, _PLAIN)


def placed_check(check: IdentityCheck) -> PlacedCheck | None:
    """The comparison of a trace; None if torch names an object in a way that has to run code to be read."""
    try:
        left, right = (ast.parse(source, mode="eval").body for source in (check.left, check.right))
    except (SyntaxError, ValueError, RecursionError):
        return None
    return PlacedCheck(left, right, _name(check), stacks.from_summaries(check.stack))


def _value(node: ast.expr, variables: Mapping[str, object], global_variables: Mapping[str, object]) -> object:
    """What a source leads to: `L['self'].active`. Raises LookupError or TypeError where it cannot be read."""
    if isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Constant):
        key = node.slice.value
        if isinstance(node.value, ast.Name) and node.value.id in {"L", "G"}:
            return (variables if node.value.id == "L" else global_variables)[str(key)]
        held = _value(node.value, variables, global_variables)
        if type(held) not in {list, tuple, dict}:
            raise LookupError
        return held[key]  # type: ignore[index]
    if not isinstance(node, ast.Attribute):
        raise TypeError
    owner = _value(node.value, variables, global_variables)
    attributes = own_attributes(owner)
    if node.attr == "__dict__":
        return attributes
    if node.attr in attributes:
        return attributes[node.attr]
    tables = [attributes.get(name, {}) for name in _OF_MODULES] if isinstance(owner, torch.nn.Module) else []
    table = next((table for table in tables if node.attr in table), None)
    if table is None:
        raise LookupError
    return table[node.attr]


def _name(check: IdentityCheck) -> str:
    """The comparison as its line has it; in the names of torch if the line has several, or none."""
    frame = check.stack[-1] if check.stack else None
    text = linecache.getline(frame.filename, frame.lineno or 0).strip() if frame is not None else ""
    written = _comparisons(text)
    if len(written) == 1:
        return written[0]
    return f"{in_user_words(check.left)} is {in_user_words(check.right)}"


def _comparisons(line: str) -> list[str]:
    """The comparisons by `is` in a line, which may be the head of a statement."""
    for text in (line, f"{line} pass", f"if True: pass\n{line} pass"):
        try:
            tree = ast.parse(text)
        except (SyntaxError, ValueError, RecursionError):
            continue
        return [
            ast.unparse(node)
            for node in ast.walk(tree)
            if isinstance(node, ast.Compare)
            and len(node.ops) == 1
            and isinstance(node.ops[0], (ast.Is, ast.IsNot))
            and not isinstance(node.comparators[0], ast.Constant)
        ]
    return []
