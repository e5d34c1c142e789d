"""What the names of a function are: tensors, numbers or something else, by the run, the inputs and the annotations.

Invariant: a name is a tensor only if each value that Dynamo saw under it in that function is one, or, where it saw
none, if the inputs or the annotation say so. A fact holds for the kind, the dtype and the rank of a value, never for a
size.
"""

from __future__ import annotations

import enum
import re
from collections.abc import Iterator

import libcst as cst

from fuselight.shared.report import FactKind, TracedValue
from fuselight_server.fixes.syntax.site import Site
from fuselight_server.fixes.syntax.tree import descendants, dotted

_TENSOR = re.compile(r"(?:bool|complex|bfloat|float|uint|int|bf|f|i|u|b|c)\d*\[")
_NUMBER = re.compile(r"-?(?:\d+(?:\.\d*)?(?:e[-+]?\d+)?|z?[suf]f?\d+|inf|nan|True|False)")
_ANNOTATIONS = frozenset(
    {"Tensor", "torch.Tensor", "torch.FloatTensor", "torch.LongTensor", "torch.BoolTensor"}
)
_CREATORS = frozenset(
    {"zeros", "ones", "empty", "full", "rand", "randn", "eye", "arange", "tensor", "linspace"}
)
"""Functions of torch that return a new tensor, whatever their arguments are."""


class NameKind(enum.Enum):
    """What a name or an attribute is."""

    TENSOR = "tensor"
    NUMBER = "number"
    OTHER = "other"
    UNKNOWN = "unknown"
    """Nothing shows what it is."""


def kind_of(site: Site, node: cst.BaseExpression) -> NameKind:
    """What a name or a dotted name is, in the function around it."""
    values = values_of(site, node)
    if values:
        kinds = {_kind(value) for value in values}
        return kinds.pop() if len(kinds) == 1 else NameKind.OTHER
    if isinstance(node, cst.Name):
        return _kind_of_parameter(site, node)
    return NameKind.TENSOR if _is_registered(site, node) else NameKind.UNKNOWN


def values_of(site: Site, node: cst.BaseExpression) -> tuple[TracedValue, ...]:
    """All values that Dynamo saw in the function under the name or the dotted name, in any place of it."""
    origin, path = site.origin or site, dotted(node)
    if not path:
        return site.values(node)
    function = _same_function(origin, site, node)
    body = descendants(function) if function is not None else iter(())
    values = {
        value: None
        for node in body
        if isinstance(node, (cst.Name, cst.Attribute)) and dotted(node) == path and not _is_part(origin, node)
        for value in origin.values(node)
    }
    return tuple(values)


def runs_code(site: Site, node: cst.BaseExpression) -> bool:
    """Whether an attribute or an operator in an expression ran code of the user's, which may fail or have an effect.

    An attribute counts in any place of the function, an operator in its own.
    """
    origin = site.origin or site
    function = _same_function(origin, site, node)
    body = list(descendants(function)) if function is not None else []
    computed = {dotted(node) for node in body if isinstance(node, cst.Attribute) and origin.is_computed(node)}
    return any(
        site.is_computed(descendant)
        or (isinstance(descendant, cst.Attribute) and dotted(descendant) in computed - {""})
        for descendant in descendants(node)
    )


def is_float(site: Site, node: cst.BaseExpression) -> bool:
    """Whether every tensor that Dynamo saw under the name has float32 or float64, and at least one dimension."""
    values = values_of(site, node)
    return bool(values) and all(
        value.text.startswith(("f32[", "f64[")) and not value.text.endswith("[]") for value in values
    )


def is_floating_point(site: Site, node: cst.BaseExpression) -> bool:
    """Whether Dynamo saw only tensors of floating point as the value of an expression."""
    seen = values_of(site, node)
    return bool(seen) and all(
        value.kind is FactKind.TENSOR and value.text.startswith(("f", "bf")) for value in seen
    )


def is_integer_tensor(site: Site, tensor: cst.BaseExpression) -> bool:
    """Whether the tensor holds integers, as far as Dynamo saw it or by the function that gives it."""
    values = site.values(tensor)
    if values:
        return all(value.text.startswith(("i", "u")) for value in values)
    name = (
        tensor.func.attr.value
        if isinstance(tensor, cst.Call) and isinstance(tensor.func, cst.Attribute)
        else ""
    )
    return name in _GIVES_INTEGERS


_GIVES_INTEGERS = frozenset({"argmax", "argmin", "count_nonzero", "long", "int", "short", "numel"})


def _same_function(origin: Site, site: Site, node: cst.CSTNode) -> cst.FunctionDef | None:
    """The function around a node, in the text of the run."""
    function = site.function(node)
    if function is None or origin is site:
        return function
    names = [
        ancestor.name.value
        for ancestor in site.ancestors(node)
        if isinstance(ancestor, (cst.FunctionDef, cst.ClassDef))
    ]
    for parent in origin.parents:
        if isinstance(parent, cst.FunctionDef) and parent.name.value == function.name.value:
            around = (parent, *origin.ancestors(parent))
            functions = [
                above.name.value for above in around if isinstance(above, (cst.FunctionDef, cst.ClassDef))
            ]
            if functions == names:
                return parent
    return None


def _is_part(site: Site, node: cst.Name | cst.Attribute) -> bool:
    """Whether the node is only the end of a dotted name, or the name of an argument."""
    parent = site.parents.get(node)
    if isinstance(parent, cst.Attribute):
        return parent.attr is node
    return isinstance(parent, cst.Arg) and parent.keyword is node


def _kind(value: TracedValue) -> NameKind:
    if value.kind is FactKind.TENSOR:
        return NameKind.TENSOR
    return NameKind.NUMBER if is_number_value(value) else NameKind.OTHER


def is_number_value(value: TracedValue) -> bool:
    """Whether a value was a number of Python, or a size."""
    return value.kind in {FactKind.NUMBER, FactKind.CONSTANT} and _NUMBER.fullmatch(value.text) is not None


def _kind_of_parameter(site: Site, name: cst.Name) -> NameKind:
    """What a name is that no trace reached: by its annotation, the inputs, or the loop that binds it."""
    function = site.function(name)
    if function is None:
        return NameKind.UNKNOWN
    assigned = site.assigned(function, name.value)
    if assigned and not all(_keeps_tensor(site, name.value, value) for value in assigned):
        return _kind_of_elements(site, function, name.value, assigned)
    parameter = parameters_of(function).get(name.value)
    if parameter is not None:
        written = site.code(parameter.annotation.annotation) if parameter.annotation is not None else ""
        if written:
            return NameKind.TENSOR if written in _ANNOTATIONS else NameKind.UNKNOWN
        return _kind_of_input(site, function, name.value)
    return NameKind.UNKNOWN


def parameters_of(function: cst.FunctionDef) -> dict[str, cst.Param]:
    """The parameters of a function by name, but for `*args` and `**kwargs`."""
    params = function.params
    parameters = (*params.posonly_params, *params.params, *params.kwonly_params)
    return {parameter.name.value: parameter for parameter in parameters}


def is_parameter(site: Site, name: cst.Name) -> bool:
    """Whether a name is a parameter without an annotation, to which its function assigns nothing."""
    function = site.function(name)
    if function is None or site.assigned(function, name.value):
        return False
    parameter = parameters_of(function).get(name.value)
    return parameter is not None and parameter.annotation is None


def _keeps_tensor(site: Site, name: str, value: cst.BaseExpression | None) -> bool:
    """Whether a name that is a tensor is one after an assignment, too: of what is computed from it."""
    if isinstance(value, cst.BinaryOperation):
        return name in site.names_read(value)
    inner = value
    while isinstance(inner, cst.Call) and isinstance(inner.func, cst.Attribute):
        inner = inner.func.value
    root = dotted(inner).partition(".")[0] if isinstance(inner, (cst.Name, cst.Attribute)) else ""
    return isinstance(value, cst.Call) and root in {name, site.torch}


def _kind_of_elements(
    site: Site, function: cst.FunctionDef, name: str, assigned: list[cst.BaseExpression | None]
) -> NameKind:
    """A name that only loops over a tensor bind is a tensor."""
    loops = [
        descendant
        for descendant in descendants(function.body)
        if isinstance(descendant, cst.For)
        and isinstance(descendant.target, cst.Name)
        and descendant.target.value == name
    ]
    if set(assigned) != {None} or len(loops) != len(assigned):
        return NameKind.UNKNOWN
    over = [
        kind_of(site, loop.iter) if isinstance(loop.iter, cst.Name) else NameKind.UNKNOWN for loop in loops
    ]
    return NameKind.TENSOR if all(kind is NameKind.TENSOR for kind in over) else NameKind.UNKNOWN


def _kind_of_input(site: Site, function: cst.FunctionDef, name: str) -> NameKind:
    """What the calls of the run pass for a parameter of the target."""
    inputs, target = site.report.inputs, site.report.target.name
    owner = next(
        (ancestor for ancestor in site.ancestors(function) if isinstance(ancestor, cst.ClassDef)), None
    )
    own = (
        {function.name.value}
        if owner is None
        else {owner.name.value, f"{owner.name.value}.{function.name.value}"}
    )
    if owner is not None and function.name.value not in {"forward", "__call__"}:
        own.discard(owner.name.value)
    if inputs is None or not inputs.calls or target not in own:
        return NameKind.UNKNOWN
    parameters = [
        parameter.name.value for parameter in (*function.params.posonly_params, *function.params.params)
    ]
    parameters = parameters[1:] if owner is not None else parameters
    kinds = set()
    for call in inputs.calls:
        arguments = _arguments(call.text)
        index = parameters.index(name) if name in parameters else len(arguments)
        written = next(
            (argument.partition("=")[2] for argument in arguments if argument.startswith(f"{name}=")), None
        )
        written = written or (arguments[index] if index < len(arguments) else "")
        kinds.add(NameKind.TENSOR if _TENSOR.match(written) else NameKind.UNKNOWN)
    return kinds.pop() if len(kinds) == 1 else NameKind.UNKNOWN


def _arguments(text: str) -> list[str]:
    """The arguments of the last call in `Net(4)(f32[2, 4], 3)`."""
    arguments, depth, start = list[str](), 0, 0
    for at, character in enumerate(text):
        if character in "([{":
            depth += 1
            if depth == 1:
                arguments, start = [], at + 1
        elif character in ")]}":
            depth -= 1
            if depth == 0:
                arguments.append(text[start:at].strip())
        elif character == "," and depth == 1:
            arguments.append(text[start:at].strip())
            start = at + 1
    return arguments


def _is_registered(site: Site, node: cst.BaseExpression) -> bool:
    """Whether the class only assigns parameters and new tensors to `self.name`, or registers it as one."""
    path = dotted(node)
    owner = next((ancestor for ancestor in site.ancestors(node) if isinstance(ancestor, cst.ClassDef)), None)
    if owner is None or not path.startswith("self.") or path.count(".") != 1:
        return False
    stored = list(_stored(owner, path.removeprefix("self.")))
    return bool(stored) and all(stored)


def _stored(owner: cst.ClassDef, attribute: str) -> Iterator[bool]:
    """For each statement of a class that stores an attribute, whether it stores a tensor."""
    for descendant in descendants(owner.body):
        if isinstance(descendant, cst.Assign) and any(
            dotted(at.target) == f"self.{attribute}" for at in descendant.targets
        ):
            name = dotted(descendant.value.func) if isinstance(descendant.value, cst.Call) else ""
            yield name in {"nn.Parameter", "torch.nn.Parameter"} or (
                name.startswith("torch.") and name.rpartition(".")[2] in _CREATORS
            )
        elif (
            isinstance(descendant, (cst.AugAssign, cst.AnnAssign))
            and dotted(descendant.target) == f"self.{attribute}"
        ):
            yield False
        elif isinstance(descendant, cst.Call) and dotted(descendant.func) in {
            "self.register_buffer",
            "self.register_parameter",
        }:
            first = descendant.args[0].value if descendant.args else None
            if isinstance(first, cst.SimpleString) and first.evaluated_value == attribute:
                yield True
        elif isinstance(descendant, cst.FunctionDef) and descendant.name.value in {
            attribute,
            "__getattr__",
            "__getattribute__",
        }:
            yield False


def module_of(site: Site, name: str) -> str:
    """The full name of what a name at top level is imported as; empty where a function or the file binds it again."""
    imports = {
        imported.full
        for chunk in site.chunks
        for imported in chunk.facts.imports
        if imported.name == name and imported.scope == ()
    }
    return imports.pop() if len(imports) == 1 and not site.is_bound(name) else ""


def module_path(site: Site, node: cst.BaseExpression) -> str:
    """The full name of the module that an expression names: `torch.nn.functional` for `F`; empty for any other."""
    path = dotted(node)
    root, _, rest = path.partition(".")
    function = site.function(node)
    if not path or function is None:
        return ""
    if root in parameters_of(function) or site.assigned(function, root):
        return ""
    full = module_of(site, root)
    return f"{full}.{rest}".rstrip(".") if full else ""


def is_tensor(  # noqa: PLR0911 - one return a kind of expression
    site: Site, node: cst.BaseExpression
) -> bool:
    """Whether an expression is a tensor for certain, so that its methods and operators are those of tensors."""
    seen = site.values(node)
    if seen:
        return all(value.kind is FactKind.TENSOR for value in seen)
    if isinstance(node, (cst.Name, cst.Attribute)):
        kind = kind_of(site, node)
        return kind is NameKind.TENSOR or (kind is NameKind.UNKNOWN and _is_assigned_tensor(site, node))
    if isinstance(node, cst.BinaryOperation):
        return _is_operation(site, node.left, node.right)
    if isinstance(node, cst.Comparison):
        return _is_operation(site, node.left, *(comparison.comparator for comparison in node.comparisons))
    if isinstance(node, cst.UnaryOperation):
        return is_tensor(site, node.expression)
    if isinstance(node, cst.Subscript):
        return is_tensor(site, node.value)
    if isinstance(node, cst.Call) and isinstance(node.func, cst.Attribute):
        if node.func.attr.value in _NO_TENSORS:
            return False
        return module_path(site, node.func.value) in _FUNCTIONAL or is_tensor(site, node.func.value)
    return False


_FUNCTIONAL = frozenset({"torch", "torch.nn.functional", "torch.special", "torch.linalg"})
_NO_TENSORS = frozenset(
    """
    size dim numel item tolist numpy stride shape data_ptr element_size is_contiguous unbind split chunk topk sort
    is_floating_point is_complex get_device
    """.split()  # noqa: SIM905 - a table of words
)
"""Functions and methods of tensors that return something else, or several tensors."""


def _is_operation(site: Site, *operands: cst.BaseExpression) -> bool:
    """Whether all operands are tensors or numbers, and one of them a tensor."""
    tensors = [is_tensor(site, operand) for operand in operands]
    return any(tensors) and all(
        known or is_number(site, operand) for known, operand in zip(tensors, operands, strict=True)
    )


def is_number(site: Site, node: cst.BaseExpression) -> bool:
    """Whether an expression is a number of Python for certain."""
    if isinstance(node, cst.UnaryOperation):
        return is_number(site, node.expression)
    if isinstance(node, (cst.Name, cst.Attribute)):
        return kind_of(site, node) is NameKind.NUMBER
    return isinstance(node, (cst.Integer, cst.Float))


def _is_assigned_tensor(site: Site, node: cst.BaseExpression) -> bool:
    """Whether the one value that the function assigns to a name is a tensor."""
    function = site.function(node)
    if not isinstance(node, cst.Name) or function is None:
        return False
    values = site.assigned(function, node.value)
    value = values[0] if len(values) == 1 else None
    return value is not None and node.value not in site.names_read(value) and is_tensor(site, value)
