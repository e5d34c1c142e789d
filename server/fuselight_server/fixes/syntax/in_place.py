"""What may change the memory of a tensor: of a name, its views, what holds it, and in functions that get it.

Invariant: a function that is not known to leave a tensor alone may change it. Names that may share memory are one
group, whichever was first: a change of one of them is a change of all.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

import libcst as cst

from fuselight.shared.codec import read_words
from fuselight.shared.report import FactKind
from fuselight_server.fixes.syntax.definitions import class_of, definition_of, method_of, sites_naming
from fuselight_server.fixes.syntax.purity import is_in_place, is_known_function
from fuselight_server.fixes.syntax.site import Site
from fuselight_server.fixes.syntax.traced_names import module_path, values_of
from fuselight_server.fixes.syntax.tree import descendants, dotted

_NAMES = read_words(__file__)
_SHARING = _NAMES["sharing"]
"""Functions and methods whose result may share the memory of an argument."""
_OF_NO_MEMORY = frozenset({"shape", "ndim", "dtype", "device", "itemsize", "nbytes"})
"""Attributes that are numbers and the like."""
_HARMLESS = _NAMES["harmless"]
"""Functions of Python that change no argument."""
_HOLDING = frozenset(
    {"tuple", "list", "dict", "zip", "enumerate", "reversed", "sorted", "iter", "next", "getattr"}
)
"""Those whose result holds the argument or a part of it."""
_LOGGING = frozenset(
    {"debug", "info", "warning", "error", "critical", "log", "append", "extend", "insert", "setdefault"}
)
"""Methods of loggers and containers, which do not write into the tensors that they get."""
_DEEPEST = 4
"""Functions in functions that are looked at."""


@dataclass(frozen=True)
class InPlaceChange:
    """A place that may change the memory of a tensor."""

    node: cst.CSTNode
    line: int
    """In the file, 1-based."""
    words: str
    """`sub_` changes it, or `helper` may."""


def changes_of(
    site: Site, function: cst.FunctionDef, name: str, depth: int = 0, apart: Collection[str] = ()
) -> Iterator[InPlaceChange]:
    """Yield what may change the memory of a name in a function; `apart`: names that share it with nothing."""
    group = _group(site, function, name, apart)
    for node in descendants(function.body):
        words = _change(site, node, group, depth)
        if words:
            yield InPlaceChange(node, site.line_number(node), words)


def changes_of_attributes(site: Site, function: cst.FunctionDef, name: str) -> Iterator[InPlaceChange]:
    """Yield what other methods change of the attributes of `self` that may hold the memory of a name."""
    owner = next((around for around in site.ancestors(function) if isinstance(around, cst.ClassDef)), None)
    held = {path for path in _group(site, function, name) if path.startswith("self.")}
    for method in owner.body.body if owner is not None and held else ():
        if isinstance(method, cst.FunctionDef) and method is not function:
            for node in descendants(method.body):
                words = _change(site, node, held, _DEEPEST)
                if words:
                    yield InPlaceChange(node, site.line_number(node), words)


def changes_of_result(
    site: Site, function: cst.FunctionDef, name: str | None = None
) -> Iterator[InPlaceChange]:
    """Yield what callers in the file change of a result, if that may be the memory of `name`."""
    returned = [
        node.value
        for node in descendants(function.body)
        if isinstance(node, cst.Return) and node.value is not None
    ]
    if name is not None:
        group = _group(site, function, name)
        returned = [value for value in returned if _shared(site, value) & group]
        if not returned:
            return
    else:
        group = None
    held = _held_elements(site, returned, group)
    called = function.name.value
    for there in sites_naming(site, called):
        for call in (node for node in there.parents if isinstance(node, cst.Call)):
            if dotted(call.func).rpartition(".")[2] == called:
                yield from _changes_by_caller(there, call, held)


def _held_elements(
    site: Site, returned: list[cst.BaseExpression], group: set[str] | None
) -> list[bool] | None:
    """Which elements of the tuples that a function returns may be the memory of a group of names; None if all may."""
    tuples = [value.elements for value in returned if isinstance(value, cst.Tuple)]
    if group is None or len(tuples) < len(returned) or len({len(elements) for elements in tuples}) != 1:
        return None
    return [
        any(bool(_shared(site, element.value) & group) for element in elements)
        for elements in zip(*tuples, strict=True)
    ]


def _changes_by_caller(site: Site, call: cst.Call, held: list[bool] | None) -> Iterator[InPlaceChange]:
    """Yield what a caller changes of the result of a call. `held`: the elements of the result that count."""
    caller, parent = site.function(call), site.parents[call]
    if isinstance(parent, cst.Attribute) and _is_in_place_name(parent.attr.value):
        yield InPlaceChange(call, site.line_number(call), f"`{parent.attr.value}` changes it in place")
    targets = parent.targets if isinstance(parent, cst.Assign) and caller is not None else ()
    for target in targets:
        counted, others = _split(target.target, held)
        apart = {path for path in others if caller is not None and _is_bound_once(caller, path)}
        for path in counted:
            if caller is not None:
                yield from changes_of(site, caller, path, _DEEPEST - 1, apart)


def _split(target: cst.BaseExpression, held: list[bool] | None) -> tuple[set[str], set[str]]:
    """The names that an assignment of a result binds to what counts of it, and the others."""
    elements = target.elements if isinstance(target, (cst.Tuple, cst.List)) else ()
    if held is None or len(held) != len(elements) or _has_star(elements):
        return _targets(target), set()
    both: tuple[set[str], set[str]] = (set(), set())
    for element, counts in zip(elements, held, strict=True):
        both[not counts].update(_targets(element.value))
    return both


def _is_bound_once(function: cst.FunctionDef, name: str) -> bool:
    """Whether one statement of a function gives a name a value, which others may only count on from."""
    bindings = (
        [each.target for each in node.targets] if isinstance(node, cst.Assign) else [node.target]
        for node in descendants(function.body)
        if isinstance(node, (cst.Assign, cst.AnnAssign, cst.NamedExpr, cst.For, cst.CompFor))
    )
    return sum(any(name in _targets(target) for target in targets) for targets in bindings) == 1


def _group(site: Site, function: cst.FunctionDef, name: str, apart: Collection[str] = ()) -> set[str]:
    """All names and attributes of a function that may share memory with a name."""
    links = [link.difference(apart) for link in _links(site, function)]
    group = {name}
    while True:
        joined = group.union(*(link for link in links if link & group))
        if joined == group:
            return group
        group = joined


def _links(site: Site, function: cst.FunctionDef) -> Iterator[set[str]]:
    """Yield names that one statement lets share memory."""
    for node in descendants(function.body):
        if isinstance(node, cst.Assign):
            if len(node.targets) == 1:
                for target, value in _pairs(node.targets[0].target, node.value):
                    yield _targets(target) | _shared(site, value)
            else:
                paths = {path for target in node.targets for path in _targets(target.target)}
                yield paths | _shared(site, node.value)
        elif isinstance(node, (cst.AnnAssign, cst.NamedExpr)) and node.value is not None:
            yield {*_targets(node.target), *_shared(site, node.value)}
        elif isinstance(node, (cst.For, cst.CompFor)):
            yield {*_targets(node.target), *_shared(site, node.iter)}
        elif isinstance(node, cst.Call) and isinstance(node.func, cst.Attribute):
            is_container = node.func.attr.value in {
                "append",
                "extend",
                "insert",
                "setdefault",
                "update",
                "add",
            }
            if is_container:
                held = (path for argument in node.args for path in _shared(site, argument.value))
                yield {*_shared(site, node.func.value), *held}


def _pairs(
    target: cst.BaseExpression, value: cst.BaseExpression
) -> Iterator[tuple[cst.BaseExpression, cst.BaseExpression]]:
    """Yield each target of an assignment with its value: those of `a, b = x, 0` have nothing in common."""
    if isinstance(target, (cst.Tuple, cst.List)) and isinstance(value, (cst.Tuple, cst.List)):
        sides = target.elements, value.elements
        if len(sides[0]) == len(sides[1]) and not any(map(_has_star, sides)):
            for left, right in zip(*sides, strict=True):
                yield from _pairs(left.value, right.value)
            return
    yield target, value


def _has_star(elements: Sequence[cst.BaseElement]) -> bool:
    return any(isinstance(element, cst.StarredElement) for element in elements)


def _targets(node: cst.CSTNode) -> set[str]:
    """The names and attributes that a target binds or writes into."""
    if isinstance(node, (cst.Tuple, cst.List)):
        return {path for element in node.elements for path in _targets(element.value)}
    return {path} if isinstance(node, cst.BaseExpression) and (path := _path(node)) else set()


def _path(node: cst.BaseExpression) -> str:
    """`h` of `h[0].T`, `self.cache` of `self.cache[0]`; empty for what has no name."""
    while isinstance(node, (cst.Subscript, cst.Call, cst.Attribute)):
        if (
            isinstance(node, cst.Attribute)
            and isinstance(node.value, cst.Name)
            and node.value.value == "self"
        ):
            return f"self.{node.attr.value}"
        node = node.func if isinstance(node, cst.Call) else node.value
    return node.value if isinstance(node, cst.Name) else ""


def _shared(site: Site, node: cst.BaseExpression) -> set[str]:  # noqa: PLR0911 - one return a kind of expression
    """The names whose memory the value of an expression may share."""
    if isinstance(node, (cst.Name, cst.Attribute, cst.Subscript)):
        path = _path(node)
        inner, attributes = _innermost(node)
        if not _OF_NO_MEMORY.isdisjoint(attributes):
            return set()
        return _shared(site, inner) if isinstance(inner, cst.Call) else {path} if path else set()
    if isinstance(node, cst.IfExp):
        return _shared(site, node.body) | _shared(site, node.orelse)
    if isinstance(node, cst.BooleanOperation):
        return _shared(site, node.left) | _shared(site, node.right)
    if isinstance(node, cst.NamedExpr):
        return _shared(site, node.value)
    if isinstance(node, (cst.Tuple, cst.List, cst.Set)):
        return {path for element in node.elements for path in _shared(site, element.value)}
    if isinstance(node, cst.Dict):
        return {path for element in node.elements for path in _shared(site, element.value)}
    if isinstance(node, cst.Call):
        return _shared_by_call(site, node)
    if isinstance(node, (cst.ListComp, cst.GeneratorExp, cst.DictComp, cst.SetComp)):
        return {child.value for child in descendants(node) if isinstance(child, cst.Name)}
    return set()


def _shared_by_call(site: Site, call: cst.Call) -> set[str]:
    name = call.func.attr.value if isinstance(call.func, cst.Attribute) else dotted(call.func)
    arguments = [argument.value for argument in call.args]
    if isinstance(call.func, cst.Name) and name in _HARMLESS and not site.is_bound(name):
        held = arguments if name in _HOLDING else []
        return {path for argument in held for path in _shared(site, argument)}
    is_new = is_known_function(name) and name not in _SHARING and not is_in_place(call)
    if is_new and not _is_self_call(call):
        return set()
    receiver = [call.func.value] if isinstance(call.func, cst.Attribute) else []
    of_module = bool(receiver) and bool(module_path(site, receiver[0]))
    parts = [*arguments, *([] if of_module or _is_self_call(call) else receiver)]
    return {path for part in parts for path in _shared(site, part)}


def _is_self_call(call: cst.Call) -> bool:
    return dotted(call.func).startswith("self.") and dotted(call.func).count(".") == 1


def _innermost(node: cst.BaseExpression) -> tuple[cst.BaseExpression, set[str]]:
    """What attributes and elements are taken of, and the names of the attributes."""
    attributes = set()
    while isinstance(node, (cst.Subscript, cst.Attribute)):
        attributes |= {node.attr.value} if isinstance(node, cst.Attribute) else set()
        node = node.value
    return node, attributes


def _is_in_place_name(name: str) -> bool:
    return name.endswith("_") and not name.endswith("__")


def _change(site: Site, node: cst.CSTNode, group: set[str], depth: int) -> str:
    """How a node may change what a group of names shares; empty if it does not."""
    if isinstance(node, cst.AugAssign):
        return f"`{_path(node.target)}` is changed in place" if _path(node.target) in group else ""
    if isinstance(node, cst.Assign):
        written = [target.target for target in node.targets]
        changed = [
            target
            for target in written
            if isinstance(target, (cst.Subscript, cst.Attribute)) and _writes_into(target, group)
        ]
        return f"`{_path(changed[0])}` is changed in place" if changed else ""
    if isinstance(node, cst.Call):
        return _changed_by_call(site, node, group, depth)
    return ""


def _writes_into(target: cst.BaseExpression, group: set[str]) -> bool:
    """Whether `h[0] = ...` or `h.data = ...` writes into a tensor; `self.h = ...` binds a name."""
    path = _path(target)
    return path in group and dotted(target) != path


def _changed_by_call(site: Site, call: cst.Call, group: set[str], depth: int) -> str:
    """How a call may change what a group of names shares; empty if it does not.

    torch.where makes a new tensor where the branch kept its argument, so a later change in place no longer reaches
    that. A function that is not known counts as one that changes its arguments: a refused fix does no harm.
    """
    name = call.func.attr.value if isinstance(call.func, cst.Attribute) else dotted(call.func)
    touched = [argument for argument in call.args if _shared(site, argument.value) & group]
    for argument in touched:
        if argument.keyword is not None and argument.keyword.value == "out":
            return f"`out=` of `{name}` changes it in place"
    receiver = call.func.value if isinstance(call.func, cst.Attribute) else None
    is_receiver = receiver is not None and bool(_shared(site, receiver) & group)
    if _is_in_place_name(name) and (touched or is_receiver):
        of_module = receiver is not None and bool(module_path(site, receiver))
        return f"`{name}` changes it in place" if is_receiver or of_module or receiver is None else ""
    if (touched or is_receiver) and is_in_place(call):
        return f"`{name}` changes it in place"
    if not touched or _leaves_alone(site, call, name, receiver):
        return ""
    if depth < _DEEPEST:
        known = _changed_by_definition(site, call, touched, depth + 1)
        if known is not None:
            return f"`{name}` changes it in place" if known else ""
    return f"`{name}` may change it in place"


def _leaves_alone(site: Site, call: cst.Call, name: str, receiver: cst.BaseExpression | None) -> bool:
    """Whether a call is known to change no argument in place."""
    if isinstance(call.func, cst.Name):
        return name in _HARMLESS and not site.is_bound(name)
    if receiver is None:
        return False
    if module_path(site, receiver).startswith("torch"):
        return True
    if isinstance(receiver, cst.Call) and dotted(receiver.func) == "super":
        return False
    return name in _LOGGING or (is_known_function(name) and not _is_self_call(call))


def _changed_by_definition(site: Site, call: cst.Call, touched: list[cst.Arg], depth: int) -> bool | None:
    """Whether a function, a method or a module of the file changes an argument; None if it is not known."""
    path = dotted(call.func)
    if path.isidentifier():
        known = definition_of(site, path)
        if known is not None and isinstance(known[1], cst.FunctionDef):
            return _changes_arguments(known[0], known[1], call, touched, depth, skipped=0)
    owner = next((around for around in site.ancestors(call) if isinstance(around, cst.ClassDef)), None)
    if owner is not None and path.startswith("self.") and path.count(".") == 1:
        method = method_of(owner, path.removeprefix("self."))
        if method is not None:
            return _changes_arguments(site, method, call, touched, depth, skipped=1)
    return _changed_by_module(site, owner, call, touched, depth)


def _changed_by_module(
    site: Site, owner: cst.ClassDef | None, call: cst.Call, touched: list[cst.Arg], depth: int
) -> bool | None:
    """As `_changed_by_definition`, for a module: by its assignment in the class, and by what Dynamo saw.

    One whose class is in no file of ours leaves its arguments alone, as modules do.
    """
    attribute = _attribute_called(site, call)
    built = [
        node.value
        for node in (descendants(owner.body) if owner is not None and attribute else ())
        if isinstance(node, cst.Assign) and any(dotted(target.target) == attribute for target in node.targets)
    ]
    names = {value.text for value in values_of(site, call.func) if value.kind is FactKind.MODULE}
    if not attribute and not names:
        return None
    return any(_changed_by_built(site, node, call, touched, depth) for node in built) or any(
        _changed_by_class(site, name, call, touched, depth) for name in names
    )


def _attribute_called(site: Site, call: cst.Call) -> str:
    """`self.layers` for a call of `self.layers[0]`, or of a name that a loop or an assignment takes from there."""
    path, function = _path(call.func), site.function(call)
    if not isinstance(call.func, cst.Name) or function is None:
        return path if path.startswith("self.") else ""
    for node in descendants(function.body):
        if isinstance(node, cst.For):
            targets, source = [node.target], node.iter
        elif isinstance(node, cst.Assign):
            targets, source = [each.target for each in node.targets], node.value
        else:
            continue
        if any(path in _targets(target) for target in targets):
            paths = (_path(part) for part in descendants(source) if isinstance(part, cst.Attribute))
            return next((known for known in paths if known.startswith("self.")), "")
    return ""


def _changed_by_built(
    site: Site, node: cst.BaseExpression, call: cst.Call, touched: list[cst.Arg], depth: int
) -> bool:
    """Whether a module that an expression makes changes its arguments, as far as the file shows."""
    calls = [child for child in descendants(node) if isinstance(child, cst.Call)]
    return any(
        is_in_place(module) or _changed_by_class(site, dotted(module.func), call, touched, depth)
        for module in calls
    )


def _changed_by_class(site: Site, name: str, call: cst.Call, touched: list[cst.Arg], depth: int) -> bool:
    known = class_of(site, name) if name.isidentifier() else None
    forward = method_of(known[1], "forward") if known is not None else None
    if known is None or forward is None:
        return False
    return _changes_arguments(known[0], forward, call, touched, depth, skipped=1) is not False


def _changes_arguments(
    site: Site, function: cst.FunctionDef, call: cst.Call, touched: list[cst.Arg], depth: int, *, skipped: int
) -> bool | None:
    """Whether a function changes those of its parameters that get one of the arguments; None if it is not known."""
    parameters = [*function.params.posonly_params, *function.params.params]
    names = [parameter.name.value for parameter in parameters][skipped:]
    keywords = {*names, *(parameter.name.value for parameter in function.params.kwonly_params)}
    for argument in touched:
        index = call.args.index(argument) if argument in call.args else -1
        by_place = names[index] if argument.keyword is None and 0 <= index < len(names) else ""
        name = argument.keyword.value if argument.keyword is not None else by_place
        if argument.star or name not in keywords:
            return None
        if next(changes_of(site, function, name, depth), None) is not None:
            return True
    return False
