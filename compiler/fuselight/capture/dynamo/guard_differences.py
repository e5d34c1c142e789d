"""Explains a failed guard with the names of the user's code: `x.size(0) was 4, now 7`.

Invariant: `was` comes from what the guard recorded at compile time, `now` from the value that failed the guard. An
unknown value is None; the text then states only what was checked.
"""

from __future__ import annotations

import ast
import enum
import functools
import inspect
import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch

from fuselight.adapters.torch_api.inductor import artifacts
from fuselight.capture.dynamo import stacks
from fuselight.capture.dynamo.failure_words import changed, difference, joined
from fuselight.capture.dynamo.key_differences import KeyDifference, key_differences
from fuselight.capture.dynamo.state_differences import explain_global_state
from fuselight.capture.dynamo.value_words import full_kind, kind_name, short
from fuselight.shared.report import GuardCause, GuardFailure, SizeChange, StaticSizes
from fuselight.shared.torch_texts import in_user_words, membership

_ENVIRON = "environ"
_NAMESPACE = ".__dict__"
_TENSOR_CHECK = "check_tensor("
_TENSOR = re.compile(
    r"check_tensor\(.*?, (?P<kind>[\w.]+), DispatchKeySet\((?P<keys>[^)]*)\), torch\.(?P<dtype>\w+), "
    r"device=(?P<device>\w+), requires_grad=(?P<grad>\w+), size=(?P<size>\[[^\]]*\]), stride=(?P<stride>\[[^\]]*\])"
)
_IDENTITY = re.compile(
    r"___check_(?P<what>obj|type)_id\((?P<source>.*), (?P<id>\d+)\)(?:, type=<class '(?P<kind>[^']+)'>)?"
)
_KEY = re.compile(r"list\((?P<of>.+)\)\[(?P<number>\d+)\]$")
_HAS = re.compile(
    r"(?P<absent>not )?hasattr\((?P<source>.*), '(?P<name>\w+)'\)(?: == (?P<value>True|False))?$"
)
_MARKS = {
    "_dynamo_dynamic_indices": "marked dynamic",
    "_dynamo_weak_dynamic_indices": "marked as perhaps dynamic",
    "_dynamo_unbacked_indices": "marked unbacked",
    "_dynamo_strict_unbacked_indices": "marked strictly unbacked",
    "_dynamo_static_indices": "marked static",
}
_BY_NAME = {
    "requires_grad": GuardCause.REQUIRES_GRAD,
    "training": GuardCause.TRAINING,
    "backend": GuardCause.BACKEND,
}
"""Attributes whose guards check a value, by what the value decides."""
_NUMBER = re.compile(r"-?\d+(?:\.\d+)?(?:e-?\d+)?")


def metadata_of(value: object) -> str | None:
    """What a tensor's own class keeps besides its inner tensors, in words; None if it cannot be read."""
    try:
        return short(artifacts.subclass_metadata(value))
    except Exception:  # noqa: BLE001 - the user's method
        return None


def metadata_changed(source: str, was: str | None, value: object) -> GuardFailure:
    """What a tensor's own class keeps besides its inner tensors has changed."""
    what, now = f"the metadata that {in_user_words(source)}.__tensor_flatten__() returns", metadata_of(value)
    if was is None or now is None or was == now:
        return difference(f"{what} changed", was, now)
    return changed(what, was, now, GuardCause.OTHER)


def created_again(where: str, value: object) -> GuardFailure:
    """The class of a value was created again since the compile: it has the same name, and is another class."""
    text = f"the class {kind_name(value)} of {where} was created again"
    return replace(difference(text, cause=GuardCause.CLASS), defined=stacks.class_location(type(value)))


def explain(  # noqa: PLR0911 - one return a form of guard
    part: str, *, value: object, evaluate: Callable[[str], object], objects: Mapping[int, str]
) -> GuardFailure:
    """What the failure of one expression of a guard means; its `kind`, `source`, `code` and `born` are empty.

    A guard on a tensor may have several differences, which `explain_tensor` lists.

    `value` is what the guard looks at, `evaluate` reads an expression against the new call (it may raise), `objects`
    names what was guarded by identity at compile time.
    """
    if part.startswith(_TENSOR_CHECK):
        return explain_tensor(part, value)[0]
    if match := _IDENTITY.match(part):
        return _explain_identity(match, value, objects)
    if (attribute := new_attribute(part)) is not None:
        return _attribute_set(attribute, evaluate)
    if member := membership(part):
        key, where, is_absent = member
        key = key.removeprefix("b") if where.endswith(_ENVIRON) else key
        if where.endswith(_NAMESPACE) and (name := key.strip("'\"")).isidentifier():
            return changed(f"{where.removesuffix(_NAMESPACE)}.{name}", "set", "absent", GuardCause.MISSING)
        was, now = ("not ", "") if is_absent else ("", " not")
        return difference(f"{key} was {was}in {where}, now it is{now}", cause=GuardCause.KEYS)
    if match := _HAS.match(part):
        return _explain_attribute(match)
    if part.startswith("___check_global_state()"):
        return explain_global_state(part)
    if part.startswith("___check_torch_function_mode_stack"):
        return difference("the stack of torch function modes is another one", cause=GuardCause.GLOBAL_STATE)
    return _explain_expression(part, evaluate)


def is_tensor_check(part: str) -> bool:
    """Whether an expression of a guard checks the properties of a tensor."""
    return part.startswith(_TENSOR_CHECK)


def explain_tensor(part: str, value: object, *, was_inference: bool = False) -> tuple[GuardFailure, ...]:
    """What differs in a tensor, in torch's order: its dispatch keys, then its dtype, device, sizes and strides as one.

    `was_inference`: whether it was an inference tensor when it was compiled.
    """
    match = _TENSOR.match(part)
    where = in_user_words(_first_argument(part))
    if not isinstance(value, torch.Tensor):
        return (changed(where, "a tensor", short(value), GuardCause.TYPE),)
    if match is None:
        return (difference(f"{where} is a tensor of another kind, now {short(value)}", now=short(value)),)
    is_same = match["kind"] == type(value).__name__
    keys = tuple(
        map(
            _keys_changed,
            key_differences(where, match["keys"], value, same_type=is_same, was_inference=was_inference),
        )
    )
    differences = _tensor_differences(match, where, value)
    if not differences:
        return keys or (_keys_unknown(where),)
    whole = joined(differences[:4], tuple(size for each in differences for size in each.sizes))
    return *keys, replace(whole, static=_static(_first_argument(part), value))


def _tensor_differences(match: re.Match[str], where: str, value: torch.Tensor) -> list[GuardFailure]:
    sizes, strides = ast.literal_eval(match["size"]), ast.literal_eval(match["stride"])
    dtype, grad = str(value.dtype).removeprefix("torch."), str(value.requires_grad)
    device = _device_of(match["keys"], match["device"])
    differences = []
    if match["kind"] != type(value).__name__:
        differences.append(
            changed(f"the type of {where}", match["kind"], type(value).__name__, GuardCause.TYPE)
        )
    if match["dtype"] != dtype:
        differences.append(changed(f"{where}.dtype", match["dtype"], dtype, GuardCause.DTYPE))
    if device is not None and device != _device_text(value.device, device):
        on = _device_text(value.device, device)
        differences.append(changed(f"{where}.device", device, on, GuardCause.DEVICE))
    if match["grad"] != grad:
        differences.append(changed(f"{where}.requires_grad", match["grad"], grad, GuardCause.REQUIRES_GRAD))
    if len(sizes) != value.dim():
        rank = changed(f"{where}.dim()", str(len(sizes)), str(value.dim()), GuardCause.RANK)
        differences.append(rank)
    else:
        moved = [
            SizeChange(where, i, was, value.size(i))
            for i, was in enumerate(sizes)
            if was is not None and was != value.size(i)
        ]
        differences += map(_size_changed, moved)
        if not moved and value.layout is torch.strided:
            now = value.stride()
            differences += [
                changed(f"{where}.stride({i})", str(was), str(now[i]), GuardCause.STRIDE)
                for i, was in enumerate(strides)
                if was is not None and was != now[i]
            ]
    return differences


def _static(source: str, value: torch.Tensor) -> StaticSizes | None:
    """Why torch keeps the sizes of a tensor static: a Parameter, and what a module registered, are never dynamic."""
    if isinstance(value, torch.nn.Parameter) or "._parameters[" in source or "._buffers[" in source:
        return StaticSizes.STATE
    return StaticSizes.MARKED if getattr(value, "_dynamo_static_indices", None) else None


def _size_changed(size: SizeChange) -> GuardFailure:
    what = f"{size.name}.size({size.dimension})"
    return replace(changed(what, str(size.was), str(size.now), GuardCause.DIMENSION), sizes=(size,))


def _keys_changed(keys: KeyDifference) -> GuardFailure:
    if keys.text:
        return difference(keys.text, keys.was or None, keys.now or None, cause=keys.cause)
    return changed(keys.what, keys.was, keys.now, keys.cause)


def _keys_unknown(where: str) -> GuardFailure:
    return difference(
        f"the dispatch keys of {where} differ: by the modes that are on", cause=GuardCause.DISPATCH
    )


def _device_of(keys: str, index: str) -> str | None:
    for key, name in (("CUDA", "cuda"), ("XPU", "xpu"), ("MPS", "mps"), ("Meta", "meta"), ("CPU", "cpu")):
        if key in keys.split(", "):
            return name if index == "None" else f"{name}:{index}"
    return None


def _device_text(device: torch.device, like: str) -> str:
    return str(device) if ":" in like or device.type != like else device.type


def _explain_identity(match: re.Match[str], value: object, objects: Mapping[int, str]) -> GuardFailure:
    where = in_user_words(match["source"])
    kind = (match["kind"] or "").removeprefix("builtins.").removeprefix("__main__.") or None
    if match["what"] == "type":
        if match["kind"] == full_kind(value):
            return created_again(where, value)
        kind = None if kind is None else kind.rpartition("<locals>.")[2]
        if kind is None:
            text = f"the type of {where} changed, now {kind_name(value)}"
            return difference(text, now=kind_name(value), cause=GuardCause.TYPE)
        return changed(f"the type of {where}", kind, kind_name(value), GuardCause.TYPE)
    singletons = {id(value): repr(value) for value in (None, True, False, ...)}
    known = (
        singletons
        if not isinstance(value, enum.Enum)
        else {id(member): str(member) for member in type(value)}
    )
    was, now = known.get(int(match["id"])) or objects.get(int(match["id"])), short(value)
    if was is None or was == now:
        kind = "function" if kind == "code" else kind  # functions are compared by their code
        text = f"{where} is another {kind or 'object'} than before: {now}"
        return difference(text, now=now, cause=GuardCause.OBJECT)
    # Two objects with names, as members of an enum, are a choice between values.
    return changed(where, was, now, _cause_of_name(where) or GuardCause.VALUE)


def _cause_of_name(where: str) -> GuardCause | None:
    """The cause that the name of a guarded attribute decides."""
    return next((cause for name, cause in _BY_NAME.items() if re.search(rf"\b{name}\b", where)), None)


def _explain_attribute(match: re.Match[str]) -> GuardFailure:
    where, name = in_user_words(match["source"]), match["name"]
    if name in _MARKS:
        was_there = not match["absent"] and match["value"] != "False"
        return difference(
            f"{where} was {'' if was_there else 'not '}{_MARKS[name]}, now it is{' not' if was_there else ''}"
        )
    return changed(f"{where}.{name}", "set", "absent", GuardCause.MISSING)


def new_attribute(part: str) -> str | None:
    """`L['a'].b` of a guard that the object had no attribute `b` of its own; None for any other."""
    match = _NO_ATTRIBUTE.fullmatch(part)
    name = match and (match["name"] or match["key"])
    return f"{match['owner'] or match['of']}.{name}" if match and name not in _MARKS else None


_NO_ATTRIBUTE = re.compile(
    r"not ___dict_contains\('(?P<key>\w+)', (?P<of>.+)\.__dict__\)"
    r"|(?P<absent>not )?hasattr\((?P<owner>.*), '(?P<name>\w+)'\)(?(absent)(?: == True)?| == False)"
)


def _attribute_set(expression: str, evaluate: Callable[[str], object]) -> GuardFailure:
    """What the call has set on an object: in place of the value of its class, or of none at all."""
    owner, _, name = expression.rpartition(".")
    now = _evaluated_text(expression, evaluate) or "set"
    cause = GuardCause.NUMBER if _NUMBER.fullmatch(now) else GuardCause.MISSING
    try:
        value = inspect.getattr_static(type(evaluate(owner)), name)
    except Exception:  # noqa: BLE001 - the class gives none, or the object cannot be read
        value = inspect.Parameter.empty
    is_computed = hasattr(type(value), "__get__") and not inspect.isfunction(value)  # as by a cached property
    if value is inspect.Parameter.empty or is_computed:
        return changed(in_user_words(expression), "absent", now, cause)
    if value is None or isinstance(value, (bool, int, float, str)):
        return _explain_expression(f"{expression} == {value!r}", evaluate)
    return changed(in_user_words(expression), short(value), now, GuardCause.OBJECT)


def _explain_expression(  # noqa: PLR0911 - one return a form of expression
    part: str, evaluate: Callable[[str], object]
) -> GuardFailure:
    words = in_user_words(part)
    try:
        tree = ast.parse(part, mode="eval").body
    except (SyntaxError, ValueError, RecursionError):
        return difference(f"{words} no longer holds", cause=GuardCause.RELATION)
    if isinstance(tree, ast.Compare) and len(tree.ops) == 1:
        left, right, operator = tree.left, tree.comparators[0], tree.ops[0]
        if isinstance(operator, (ast.Eq, ast.Is)):
            if _is_value(right):
                explain = _explain_iterator if is_iterator(part) else _explain_value
                return explain(left, right, evaluate)
            if isinstance(operator, ast.Is):
                names = " and ".join(in_user_words(ast.unparse(side)) for side in (left, right))
                return difference(
                    f"{names} were the same object, now they are not", cause=GuardCause.ALIASING
                )
        if isinstance(operator, ast.NotEq) and ast.unparse(left).startswith("len(") and _is_value(right):
            # the root words a check that failed as what is true now: `len(L['d']) != 1`
            return _explain_value(left, right, evaluate)
        if not _is_value(right) and not _is_value(left):
            if (owner := strided_tensor(part)) is not None:
                return _layout_changed(in_user_words(owner), part, _evaluated(left, evaluate))
            known = _known_values(tree, evaluate)
            return difference(f"{words} no longer holds{known}", cause=GuardCause.RELATION)
    if isinstance(tree, ast.UnaryOp) and isinstance(tree.op, ast.Not) and not _is_value(tree.operand):
        now = _evaluated(tree.operand, evaluate)
        what = in_user_words(ast.unparse(tree.operand))
        cause = _cause_of_length(tree.operand, evaluate)
        return changed(what, "empty", now if now is not None else "not", cause)
    sources = _sources_in(tree)
    now = _evaluated_text(sources[0], evaluate) if len(sources) == 1 else None
    text = f"{words} no longer holds{_known_values(tree, evaluate)}"
    return difference(text, now=now, cause=GuardCause.RELATION)


def _known_values(tree: ast.expr, evaluate: Callable[[str], object]) -> str:
    """The values of the sources in a relation: `: x.size(0) is 6, y.size(0) is 10`; empty if none can be read."""
    facts = ((name, _evaluated_text(name, evaluate)) for name in _sources_in(tree))
    known = ", ".join(f"{in_user_words(name)} is {value}" for name, value in facts if value is not None)
    return f": {known}" if known else ""


def _layout_changed(owner: str, part: str, now: str | None) -> GuardFailure:
    """The strides of a tensor with dynamic sizes no longer follow from its sizes as they did."""
    stride, _, rule = in_user_words(part).partition(" == ")
    text = f"the memory layout of {owner} changed: {stride} is {now or 'another number'}, not {rule}"
    return difference(text, now=now, cause=GuardCause.STRIDE)


def strided_tensor(part: str) -> str | None:
    """`L['x']` of the guard `L['x'].stride()[0] == 8*L['x'].size()[1]`; None for any other."""
    match = _LAYOUT.match(part)
    return match["tensor"] if match is not None else None


_LAYOUT = re.compile(
    r"(?P<tensor>[LG]\[.+)\.stride\(\)\[\d+\] == (?=.*(?P=tensor)\.size\(\))(?!.*\.stride\()"
)


def _cause_of_length(container: ast.expr | None, evaluate: Callable[[str], object]) -> GuardCause:
    """The length of a dict is that of its keys, but for the dict in which a module holds others."""
    if isinstance(container, ast.Attribute) and container.attr.startswith("_"):
        return GuardCause.LENGTH
    try:
        is_dict = container is not None and isinstance(evaluate(ast.unparse(container)), dict)
    except Exception:  # noqa: BLE001 - any property of the user's can raise anything
        is_dict = False
    return GuardCause.KEYS if is_dict else GuardCause.LENGTH


def _explain_value(left: ast.expr, right: ast.expr, evaluate: Callable[[str], object]) -> GuardFailure:
    if sources := _calculated_from(left):
        return _explain_result(left, right, sources, evaluate)
    where, was = in_user_words(ast.unparse(left)), ast.unparse(right)
    now = _evaluated(left, evaluate)
    size = _size_of(left)
    if size is not None:
        cause = GuardCause.DIMENSION
    elif _OF_TENSOR.search(ast.unparse(left)):
        cause = GuardCause.RELATION
    elif ast.unparse(left).startswith(("len(", "___tuple_iterator_len(")):
        container = left.args[0] if isinstance(left, ast.Call) and left.args else None
        cause = _cause_of_length(container, evaluate)
    elif where == "utils_device.CURRENT_DEVICE":
        where, cause = "the default device", GuardCause.GLOBAL_STATE
    elif match := _KEY.match(where):
        where, cause = f"key {match['number']} of {match['of']}", GuardCause.KEYS
    else:
        is_number = _NUMBER.fullmatch(was) and now is not None and _NUMBER.fullmatch(now)
        cause = _cause_of_name(where) or (GuardCause.NUMBER if is_number else GuardCause.VALUE)
    if f"{_ENVIRON}[" in where:  # kept as bytes
        was, now = was.removeprefix("b"), None if now is None else now.removeprefix("b")
    if now is None:
        return difference(f"{where} was {was}", was, cause=GuardCause.NONE if was == "None" else cause)
    if size is not None and was.isdecimal() and now.isdecimal():
        return _size_changed(SizeChange(*size, int(was), int(now)))
    return changed(where, was, now, cause)


def is_iterator(part: str) -> bool:
    """Whether a guard is on where an `itertools.count` or the iterator of a range is."""
    return part.startswith((_COUNT, "___normalize_range_iter("))


_COUNT = "___normalize_count_iter("


def _explain_iterator(left: ast.expr, right: ast.expr, evaluate: Callable[[str], object]) -> GuardFailure:
    """What torch keeps of an iterator in words: the next number of a count, the rest of a range."""
    name, states = in_user_words(ast.unparse(left)), (ast.unparse(right), _evaluated(left, evaluate) or "?")
    is_count = ast.unparse(left).startswith(_COUNT)
    was, now = (text.strip("()").partition(",")[0] if is_count else f"range{text}" for text in states)
    return changed(f"next({name})" if is_count else name, was, now, GuardCause.VALUE)


def sources_of(part: str) -> list[str]:
    """The sources in an expression of a guard."""
    try:
        return _sources_in(ast.parse(part, mode="eval").body)
    except (SyntaxError, ValueError, RecursionError):
        return []


def specialized_number(part: str) -> str | None:
    """`L['a'].b` of the guard `L['a'].b == 0.5`, with which torch fixes a number that it first kept symbolic.

    Also of `1.0 + L['a'].b == 1.5`: a float that code calculates with is fixed by the result.
    """
    try:
        tree = ast.parse(part, mode="eval").body
    except (SyntaxError, ValueError, RecursionError):
        return None
    if not isinstance(tree, ast.Compare) or not isinstance(tree.ops[0], ast.Eq):
        return None
    left, right = ast.unparse(tree.left), ast.unparse(tree.comparators[0])
    sources = _sources_in(tree)
    if len(sources) != 1 or not _NUMBER.fullmatch(right) or _OF_TENSOR.search(left):
        return None
    is_calculated = "." in right and bool(_calculated_from(tree.left))
    return sources[0] if sources == [left] or is_calculated else None


def _calculated_from(node: ast.expr) -> list[str]:
    """The sources of the numbers that an expression of torch's calculates with; empty for other expressions."""
    sources = _sources_in(node)
    if not isinstance(node, (ast.BinOp, ast.UnaryOp)) or any(_OF_TENSOR.search(name) for name in sources):
        return []
    is_arithmetic = all(isinstance(part, _ARITHMETIC) for part in _around(node, sources))
    return sources if is_arithmetic else []


_OF_TENSOR = re.compile(r"\.(?:size|stride|storage_offset)\(\)")
_ARITHMETIC = (ast.BinOp, ast.UnaryOp, ast.Constant, ast.operator, ast.unaryop)


def _around(node: ast.AST, sources: Sequence[str]) -> Iterator[ast.AST]:
    """The parts of an expression around its sources."""
    if isinstance(node, ast.expr) and ast.unparse(node) in sources:
        return
    yield node
    for child in ast.iter_child_nodes(node):
        yield from _around(child, sources)


def _explain_result(
    left: ast.expr, right: ast.expr, sources: Sequence[str], evaluate: Callable[[str], object]
) -> GuardFailure:
    """The number of the user's that changed; for several numbers, their names: the expression is torch's own."""
    cause = GuardCause.NUMBER if _NUMBER.fullmatch(ast.unparse(right)) else GuardCause.VALUE
    names = " and ".join(map(in_user_words, sources))
    number = _evaluated_text(sources[0], evaluate)
    solved = _solved(left, right, sources[0], evaluate) if len(sources) == 1 else None
    if solved is not None and number is not None:
        return changed(names, repr(solved), number, cause)
    was, now = ast.unparse(right), _evaluated(left, evaluate)
    result = in_user_words(ast.unparse(left))
    result = result if len(result) <= _LONGEST_RESULT else f"a value calculated from {names}"
    if now is None:
        return difference(f"{result} was {was}", was, cause=cause)
    return changed(result, was, now, cause)


_LONGEST_RESULT = 40
"""Characters of an expression that a title shows."""


def _solved(left: ast.expr, right: ast.expr, source: str, evaluate: Callable[[str], object]) -> float | None:
    """The number for which a linear expression had its value; None if the expression is not linear."""
    code = ast.unparse(left)

    def result_for(number: float) -> Any:
        return evaluate(code.replace(source, f"({number!r})"))

    try:
        result, offset = ast.literal_eval(right), result_for(0)
        slope = result_for(1) - offset
        exact = (result - offset) / slope
        is_linear = math.isclose(result_for(2) - result_for(1), slope)
        is_whole = isinstance(evaluate(source), int) and exact == int(exact)
    except Exception:  # noqa: BLE001 - names of torch's that are not functions of numbers, or a division by zero
        return None
    number = int(exact) if is_whole else float(f"{exact:.12g}")
    return number if is_linear else None


def _size_of(node: ast.expr) -> tuple[str, int] | None:
    """`L['x'].size()[0]` as `x` and 0; None for anything else."""
    if not isinstance(node, ast.Subscript) or not isinstance(node.slice, ast.Constant):
        return None
    owner = node.value.func if isinstance(node.value, ast.Call) else node.value
    if not isinstance(owner, ast.Attribute) or owner.attr not in {"size", "shape"}:
        return None
    return in_user_words(ast.unparse(owner.value)), int(str(node.slice.value))


def _is_value(node: ast.expr) -> bool:
    return not any(isinstance(item, ast.Name) and item.id in {"L", "G"} for item in ast.walk(node))


def _evaluated(node: ast.expr, evaluate: Callable[[str], object]) -> str | None:
    return _evaluated_text(ast.unparse(node), evaluate)


def _evaluated_text(expression: str, evaluate: Callable[[str], object]) -> str | None:
    try:
        return short(evaluate(expression))
    except Exception:  # noqa: BLE001 - what cannot be read is not reported
        return None


def _sources_in(tree: ast.expr) -> list[str]:
    """The largest sources in an expression: `L['x'].size()[0]`, not `L['x']`; `L['x'].storage_offset()`, called."""
    sources: list[str] = []

    def visit(node: ast.AST) -> None:
        is_method = isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and not node.args
        if (
            (is_method or isinstance(node, (ast.Subscript, ast.Attribute)))
            and isinstance(node, ast.expr)
            and not _is_value(node)
        ):
            text = ast.unparse(node)
            if text not in sources:
                sources.append(text)
            return
        for child in ast.iter_child_nodes(node):
            visit(child)

    visit(tree)
    return sources


@functools.lru_cache(maxsize=1024)
def _first_argument(part: str) -> str:
    """`S` of `check_tensor(S, Parameter, ...`; a source may hold commas of its own."""
    head, marker, _ = part.partition(", DispatchKeySet(")
    return head[len(_TENSOR_CHECK) :].rpartition(", ")[0] if marker else part
