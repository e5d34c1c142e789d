"""Whether both sides of a branch on a tensor give the same when one expression selects between them.

Invariant: a selection is the branch for every call, but for the changes of behavior that it names. Anything else
raises RewriteRefusedError.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Sequence

import libcst as cst

from fuselight.shared.foreign_data import parse_python
from fuselight.shared.report import FactKind
from fuselight_server.base.files import split_text
from fuselight_server.fixes.syntax.in_place import (
    InPlaceChange,
    changes_of,
    changes_of_attributes,
    changes_of_result,
)
from fuselight_server.fixes.syntax.purity import assigned_class, is_stateless_module
from fuselight_server.fixes.syntax.refusals import RewriteRefusedError
from fuselight_server.fixes.syntax.row_modules import is_row_wise_module
from fuselight_server.fixes.syntax.site import Site
from fuselight_server.fixes.syntax.tensor_values import is_scalar_tensor, least_rank, short_code, value_of
from fuselight_server.fixes.syntax.traced_names import is_number, values_of
from fuselight_server.fixes.syntax.tree import descendants, dotted

UNUSED = (
    "what the side that is not taken reads gets gradients of zero instead of None, so that an optimizer with weight "
    "decay or momentum changes it"
)
LAYERS = (
    "unused parameters get gradients of zero, so that an optimizer with weight decay or momentum changes them, and "
    "layers with state, with hooks, of another shape, dtype or strides, or that return their argument fail"
)
_RESULT = "return"
_ALIASES = frozenset({"contiguous", "float", "double", "half", "bfloat16", "long", "int", "to", "detach"})
"""Methods that may return the tensor itself or its memory."""


def changes_of_where(site: Site, values: Sequence[cst.BaseExpression]) -> str:
    """What changes where torch.where selects one of the values instead of a branch; empty if nothing does.

    Raises RewriteRefusedError where more may change.
    """
    known = [value_of(site, value) for value in values]
    names = " and ".join(dict.fromkeys(f"`{short_code(site, value)}`" for value in values))
    if all(value.is_number for value in known):
        raise RewriteRefusedError(
            f"{names} are Python numbers: a tensor would change the dtype of what is computed with them"
        )
    if any(value.is_number for value in known):
        raise RewriteRefusedError(
            f"{names} are a tensor on one side and a Python number on the other: if the code takes a tensor of the "
            "same shape there, write it on both sides"
        )
    if len({value.shape for value in known}) > 1:
        raise RewriteRefusedError(_different_shapes(site, values, names))
    if len({(value.dtype, value.marks) for value in known}) > 1 and not _are_floats(site, values):
        raise RewriteRefusedError(f"{names} may have different dtypes for other inputs")
    if any(isinstance(value, cst.Attribute) for value in values):
        raise RewriteRefusedError(f"{names} may be a parameter, and torch.where gives a plain tensor")
    if not all(value.is_smooth for value in known):
        raise RewriteRefusedError(f"{names}: the side that is not taken may turn gradients into NaN")
    return UNUSED if len({value.flows for value in known}) > 1 else ""


def _different_shapes(site: Site, values: Sequence[cst.BaseExpression], names: str) -> str:
    seen = [values_of(site, value) for value in values]
    shapes = [each[0].text.partition("[")[2] for each in seen if len(each) == 1]
    if len(shapes) == len(values) and len(set(shapes)) > 1:
        return f"{names} had different shapes in the run, and {site.torch}.where broadcasts them"
    return f"{names} may have different shapes for other inputs: if they never do, write {site.torch}.where yourself"


def numbers_of_sides(site: Site, new: str) -> str:
    """What a text with torch.where asks of the numbers in it, as it computes the side that is not taken, too.

    Of another caller, None or a tensor would fail or give another shape. The gradient of that side is zero, and zero
    times infinity is NaN.
    """
    old, lines = set(split_text(site.text)), split_text(new)
    try:
        tree = parse_python(new)
    except SyntaxError:  # a cell with a command of IPython
        return ""
    calls = [
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.Call)
        and ast.unparse(node.func) == f"{site.torch}.where"
        and lines[node.lineno - 1] not in old
    ]
    sides = [part for call in calls for side in call.args[1:] for part in ast.walk(side)]
    read = {ast.unparse(part) for part in sides if isinstance(part, (ast.Name, ast.Attribute))}
    names = dict.fromkeys(
        site.code(node)
        for node in site.parents
        if isinstance(node, (cst.Name, cst.Attribute)) and is_number(site, node) and not _is_size(site, node)
    )
    numbers = [f"`{name}`" for name in names if name in read]
    if not numbers:
        return ""
    words = (
        "finite numbers, also where their side"
        if len(numbers) > 1
        else "a finite number, also where its side"
    )
    divisors = {ast.unparse(part.right) for part in sides if isinstance(part, ast.BinOp) and _divides(part)}
    zeros = [name for name in numbers if name.strip("`") in divisors]
    no_zeros = f", and {' and '.join(zeros)} not 0" if zeros else ""
    return f"{' and '.join(numbers)} must be {words} is not taken{no_zeros}"


def _divides(operation: ast.BinOp) -> bool:
    return isinstance(operation.op, ast.Div)


def _is_size(site: Site, node: cst.Name | cst.Attribute) -> bool:
    """Whether the function gives a name only integers."""
    function = site.function(node)
    is_local = (
        isinstance(node, cst.Name) and function is not None and bool(site.assigned(function, node.value))
    )
    return is_local and all(value.text.lstrip("-").isdigit() for value in values_of(site, node))


def _are_floats(site: Site, values: Sequence[cst.BaseExpression]) -> bool:
    """Whether Dynamo saw floating-point tensors under all names of the values, and no value converts."""
    if any(value_of(site, expression).dtype for expression in values):
        return False
    nodes = [part for expression in values for part in descendants(expression) if isinstance(part, cst.Name)]
    seen = [value for node in nodes for value in values_of(site, node) if value.kind is FactKind.TENSOR]
    return bool(seen) and all(value.text.startswith(("f", "bf")) for value in seen)


def check_condition(
    site: Site, tests: Iterable[cst.BaseExpression], values: Sequence[cst.BaseExpression]
) -> None:
    """Raise RewriteRefusedError if a condition may have several elements, for which Python's `if` fails.

    One number that is drawn as a row is right if the values that it selects have as many dimensions.
    """
    for test in tests:
        if is_scalar_tensor(site, test):
            continue
        calls = [node for node in descendants(test) if isinstance(node, cst.Call)]
        drawn = next((call for call in calls if _draws_row_of_one(site, call)), None)
        if drawn is not None and _compares(site, test, drawn):
            rank = len(_sizes(drawn))
            if all(least_rank(site, value) >= rank for value in values):
                continue
        if drawn is not None:
            raise RewriteRefusedError(
                f"`{short_code(site, drawn)}` has a dimension, which a result without one would get from it: "
                f"`{site.code(drawn.func)}(())` has none"
            )
        raise RewriteRefusedError(f"`{short_code(site, test)}` may have several elements for other sizes")


def _compares(site: Site, test: cst.BaseExpression, drawn: cst.Call) -> bool:
    """Whether a condition compares a drawn number with numbers alone."""
    if not isinstance(test, cst.Comparison):
        return False
    sides = (test.left, *(comparison.comparator for comparison in test.comparisons))
    return all(side is drawn or is_number(site, side) or is_scalar_tensor(site, side) for side in sides)


def _draws_row_of_one(site: Site, call: cst.Call) -> bool:
    """Whether a call draws one number with torch, as a tensor that has dimensions: `torch.rand(1)`."""
    if not call.args or dotted(call.func) not in {f"{site.torch}.rand", f"{site.torch}.randn"}:
        return False
    sizes = _sizes(call)
    return bool(sizes) and all(isinstance(size, cst.Integer) and size.value == "1" for size in sizes)


def _sizes(call: cst.Call) -> list[cst.BaseExpression]:
    """The sizes of a tensor that a call draws: `rand(2, 3)`, `rand((2, 3))`."""
    first = call.args[0].value
    if len(call.args) == 1 and isinstance(first, (cst.Tuple, cst.List)):
        return [element.value for element in first.elements]
    return [argument.value for argument in call.args]


def check_unchanged(site: Site, node: cst.CSTNode, name: str, values: Iterable[cst.BaseExpression]) -> None:
    """Raise RewriteRefusedError if what may be another name's tensor may later be changed in place.

    That is what the function does to the name, to its views and to what holds it, what it calls, other methods to
    attributes that hold it, and callers of the file to the result. `name`: `return` if the value is the result.
    """
    function = site.function(node)
    if function is None or not any(_may_be_alias(expression) for expression in values):
        return
    change = next(_later_changes(site, function, node, name), None)
    if change is not None:
        raise RewriteRefusedError(
            f"{'the result' if name == _RESULT else f'`{name}`'} may be another name's tensor, and {change.words} "
            f"on line {change.line}"
        )


def _later_changes(
    site: Site, function: cst.FunctionDef, node: cst.CSTNode, name: str
) -> Iterator[InPlaceChange]:
    if name == _RESULT:
        yield from changes_of_result(site, function)
        return
    for change in changes_of(site, function, name):
        if change.node in site.ranges and _may_run_after(site, change.node, node):
            yield change
    yield from changes_of_attributes(site, function, name)
    yield from changes_of_result(site, function, name)


def _may_run_after(site: Site, change: cst.CSTNode, node: cst.CSTNode) -> bool:
    """Whether a change may run after a statement: below it, in a loop around both, or in a function that is called."""
    if site.range_of(change)[1] > site.range_of(node)[0]:
        return True
    around = list(site.ancestors(change))
    if any(isinstance(node, (cst.Lambda, cst.GeneratorExp)) for node in around):
        return True
    loops = [ancestor for ancestor in site.ancestors(node) if isinstance(ancestor, (cst.For, cst.While))]
    return site.function(change) is not site.function(node) or any(node in loops for node in around)


def _may_be_alias(node: cst.BaseExpression) -> bool:
    if isinstance(node, cst.Call):
        return isinstance(node.func, cst.Attribute) and node.func.attr.value in _ALIASES
    return isinstance(node, (cst.Name, cst.Attribute, cst.Subscript))


# torch.cond


def changes_of_cond(site: Site, values: Sequence[cst.BaseExpression]) -> str:
    """What changes where torch.cond computes one of the values, as `changes_of_where` does.

    Only layers are computed by torch.cond: the sides of any other expression have one shape only if torch.where fits.
    """
    layers = [call for value in values for call in descendants(value) if isinstance(call, cst.Call)]
    layers = [call for call in layers if _is_layer(site, call)]
    if not layers:
        return changes_of_where(site, values)
    inputs = site.report.inputs
    for call in layers:
        is_known = is_row_wise_module(site, call) or _is_stateless(site, call)
        if not is_known and not (inputs is not None and inputs.training):
            name = site.code(call.func)
            why = "may keep statistics or draw random numbers in training, which torch.cond cannot"
            raise RewriteRefusedError(f"`{name}` {why}; `train=True` in the inputs shows whether it does")
    return LAYERS


def _is_layer(site: Site, call: cst.Call) -> bool:
    """Whether a call may be that of a module: an attribute of `self` that is no method of the class, or a name."""
    path = dotted(call.func)
    if isinstance(call.func, cst.Name):
        return True  # `_is_simple` takes a name only if it is a module
    owner = next((ancestor for ancestor in site.ancestors(call) if isinstance(ancestor, cst.ClassDef)), None)
    if owner is None or not path.startswith("self."):
        return path.startswith("self.")
    methods = {
        statement.name.value for statement in owner.body.body if isinstance(statement, cst.FunctionDef)
    }
    return path.removeprefix("self.").partition(".")[0] not in methods


def _is_stateless(site: Site, call: cst.Call) -> bool:
    """Whether it is a module of torch.nn whose call changes nothing, by what Dynamo saw or by the class."""
    seen = values_of(site, call.func)
    if seen:
        return all(value.kind is FactKind.MODULE and is_stateless_module(value.text) for value in seen)
    owner = next((ancestor for ancestor in site.ancestors(call) if isinstance(ancestor, cst.ClassDef)), None)
    path = dotted(call.func)
    assigned = assigned_class(owner, path.removeprefix("self.")) if owner is not None else None
    return assigned is not None and is_stateless_module(assigned)
