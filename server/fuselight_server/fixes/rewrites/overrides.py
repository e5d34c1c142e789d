"""Methods whose result a rewrite takes for a tensor, because the run's own method gave one, and who replaces them.

Invariant: the search reads texts and runs nothing. A method is replaced by a class that derives from its class, by an
assignment to an attribute of its name, by `setattr` with its name, or in the table of a call of `type`.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from pathlib import PurePath

import libcst as cst

from fuselight.shared.foreign_data import try_parse_python
from fuselight_server.fixes.rewrites.callers import bases_of, classes_of, definitions, last_name
from fuselight_server.fixes.syntax.attribute_uses import other_texts
from fuselight_server.fixes.syntax.site import Site
from fuselight_server.fixes.syntax.tree import descendants, dotted

_SETTERS = frozenset({"setattr", "object"})
"""`setattr`, that of pytest's `monkeypatch`, and `mock.patch.object`."""
_TABLE = 3
"""Arguments of `type` that make a class."""


def replaced_method(site: Site, read: Callable[[str], str | None]) -> str:
    """What replaces a method that the condition of the finding calls: ``m.py:9 replaces `gate` ``; empty if nothing."""
    node = next(iter(site.nodes((cst.If, cst.IfExp, cst.Assert))), None)
    around = site.ancestors(node) if node is not None else ()
    owner = next((each for each in around if isinstance(each, cst.ClassDef)), None)
    if owner is None or not isinstance(node, (cst.If, cst.IfExp, cst.Assert)):
        return ""
    for name in dict.fromkeys(_methods(site, node.test)):
        path = site.finding.span.path
        known = tuple(site.report.files)
        texts = [(path, site.text), *other_texts(path, name, site.report.roots, known, read)]
        for file, text in texts:
            line = next(_replacements(text or "", owner.name.value, name), None)
            if line is not None:
                place = f"{PurePath(file).name}:{line}"
                return f"{place} replaces `{name}`, whose result the new text takes for a tensor"
    return ""


def _methods(site: Site, test: cst.BaseExpression) -> Iterator[str]:
    """The methods of `self` that a condition calls, also by names: `is_open = self.gate(x)`."""
    function = site.function(test)
    waiting: list[cst.BaseExpression | None] = [test]
    seen = set[str]()
    while waiting:
        value = waiting.pop()
        for child in descendants(value) if value is not None else ():
            if isinstance(child, cst.Call) and dotted(child.func).startswith("self."):
                yield dotted(child.func).rpartition(".")[2]
            elif isinstance(child, cst.Name) and function is not None and child.value not in seen:
                seen.add(child.value)
                waiting += site.assigned(function, child.value)


def _replacements(text: str, owner: str, name: str) -> Iterator[int]:
    """The lines of a file that replace a method of a class."""
    tree = try_parse_python(text.removeprefix("\ufeff"))
    if tree is None:
        return
    classes = classes_of(tree)
    above = set(bases_of(owner, classes))
    kin = {each for each in classes if owner in bases_of(each, classes)}
    for each in sorted(kin - {owner}, key=lambda known: classes[known].lineno):
        for part in (each, *bases_of(each, classes)):  # also by a class that it derives from, too
            if part in classes and part not in {owner, *above}:
                yield from definitions(classes[part], name)
    own = classes.get(owner)
    is_method = own is not None and any(True for _ in definitions(own, name))
    selves = {
        id(node)
        for each in classes.values()
        if each.name not in kin or (each.name == owner and not is_method)
        for node in ast.walk(each)
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "self"
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and node.attr == name and isinstance(node.ctx, ast.Store):
            if id(node) not in selves:
                yield node.lineno
        elif isinstance(node, ast.Call) and _sets(node, name):
            yield node.lineno


def _sets(call: ast.Call, name: str) -> bool:
    """Whether a call sets an attribute by its name."""
    if last_name(call.func) == "type" and len(call.args) == _TABLE:
        table = call.args[2]
        keys = table.keys if isinstance(table, ast.Dict) else []
        return any(isinstance(key, ast.Constant) and key.value == name for key in keys)
    is_named = any(isinstance(argument, ast.Constant) and argument.value == name for argument in call.args)
    return is_named and last_name(call.func) in _SETTERS
