"""Which expressions may be computed although their branch is not taken: those without a side effect.

Invariant: what is not known to be pure is not pure. A function is known by its name under torch or
torch.nn.functional, as the file imports them, or as a method of what is a tensor for certain; a module by the class of
torch.nn that its own `__init__` assigns.
"""

from __future__ import annotations

from collections.abc import Callable

import libcst as cst

from fuselight.shared.codec import read_words
from fuselight_server.fixes.syntax.site import Site
from fuselight_server.fixes.syntax.traced_names import is_tensor, module_path
from fuselight_server.fixes.syntax.tree import descendants, dotted

_NAMES = read_words(__file__)
ELEMENTWISE = _NAMES["elementwise"]
"""Functions and methods whose result at an index depends on the arguments at that index only."""
_PURE = ELEMENTWISE | _NAMES["pure"]
_MODULES = _NAMES["modules"]
"""Modules of torch.nn whose call changes neither buffers nor the random state."""
_MAY_BE_IN_PLACE = _NAMES["may_be_in_place"]
"""Activations, without underscores, with an option to write into their argument."""
_FUNCTIONAL = frozenset({"torch", "torch.nn.functional", "torch.special", "torch.linalg"})
_PLAIN = (
    *(cst.Name, cst.Integer, cst.Float, cst.Imaginary, cst.SimpleString, cst.Attribute, cst.BinaryOperation),
    *(cst.UnaryOperation, cst.Comparison, cst.Subscript, cst.Tuple, cst.List, cst.Call),
)
"""Expressions whose evaluation has no side effect if that of their parts has none; calls are looked at one by one."""


def is_pure(site: Site, node: cst.BaseExpression) -> bool:
    """Whether an expression can be computed without a trace."""
    return is_made_of(node, lambda call: is_pure_call(site, call))


def is_elementwise(site: Site, node: cst.BaseExpression) -> bool:
    """Whether each element of the result depends on the elements at its index only, subscripts excluded."""
    return is_made_of(node, lambda call: is_elementwise_call(site, call))


def is_elementwise_call(site: Site, call: cst.Call) -> bool:
    """Whether a call computes each element of its result from the elements at its index."""
    return _last_name(call.func) in ELEMENTWISE and is_pure_call(site, call)


def is_made_of(node: cst.BaseExpression, accepts: Callable[[cst.Call], bool]) -> bool:
    """Whether an expression consists of parts without a side effect, and of calls that `accepts` takes."""
    for descendant in descendants(node):
        if isinstance(descendant, (cst.NamedExpr, cst.Await, cst.Yield, cst.StarredElement)):
            return False
        if isinstance(descendant, cst.BaseExpression) and not isinstance(descendant, _PLAIN):
            return False
        if isinstance(descendant, cst.Call) and not accepts(descendant):
            return False
    return True


def is_pure_call(site: Site, call: cst.Call) -> bool:
    """Whether a call is that of a function without a trace; its arguments are looked at one by one."""
    if is_in_place(call) or any(argument.star or _keyword(argument) == "out" for argument in call.args):
        return False
    function = call.func
    if not isinstance(function, cst.Attribute):
        return isinstance(function, cst.Name) and function.value == "len" and not site.is_bound("len")
    path = dotted(function)
    owner = next((ancestor for ancestor in site.ancestors(call) if isinstance(ancestor, cst.ClassDef)), None)
    if owner is not None and path.startswith("self.") and path.count(".") == 1:
        assigned = assigned_class(owner, function.attr.value)
        return assigned is not None and assigned in _MODULES
    module = module_path(site, function.value)
    if module:
        return module in _FUNCTIONAL and function.attr.value in _PURE
    return function.attr.value in _PURE and is_tensor(site, function.value)


_WITH_EFFECT = _NAMES["with_effect"]
"""Methods of tensors, without those that end with `_`, that draw random numbers or leave a trace in the tensor."""


def only_reads_tensor(site: Site, call: cst.Call) -> bool:
    """Whether a call is that of a method which gives a value of what is a tensor for certain; it may raise."""
    function = call.func
    if not isinstance(function, cst.Attribute) or any(_keyword(argument) == "out" for argument in call.args):
        return False
    name = function.attr.value
    return not name.endswith("_") and name not in _WITH_EFFECT and is_tensor(site, function.value)


def is_in_place(call: cst.Call) -> bool:
    """Whether an activation may write into its argument: `nn.ReLU(inplace=True)`, `F.relu(x, True)`."""
    may_be = _last_name(call.func).lower().replace("_", "") in _MAY_BE_IN_PLACE
    for argument in call.args:
        is_false = isinstance(argument.value, cst.Name) and argument.value.value == "False"
        is_true = isinstance(argument.value, cst.Name) and argument.value.value == "True"
        if (_keyword(argument) == "inplace" and not is_false) or (
            may_be and argument.keyword is None and is_true
        ):
            return True
    return False


def is_known_function(name: str) -> bool:
    """Whether functions and methods of torch with a name leave their arguments as they are."""
    return name in _PURE


def is_stateless_module(name: str) -> bool:
    """Whether the call of a module of torch.nn changes neither buffers nor the random state."""
    return name in _MODULES


def _keyword(argument: cst.Arg) -> str:
    return argument.keyword.value if argument.keyword is not None else ""


def assigned_class(owner: cst.ClassDef, attribute: str) -> str | None:
    """The class of torch.nn whose call the class assigns to `self.<attribute>`; None unless it is exactly one."""
    classes: list[str | None] = []
    for node in descendants(owner.body):
        if isinstance(node, cst.Assign) and any(
            dotted(target.target) == f"self.{attribute}" for target in node.targets
        ):
            value = node.value
            named = dotted(value.func) if isinstance(value, cst.Call) and not is_in_place(value) else ""
            classes.append(named.rpartition(".")[2] if named.startswith(("nn.", "torch.nn.")) else None)
    return classes[0] if len(classes) == 1 else None


def _last_name(function: cst.BaseExpression) -> str:
    return dotted(function).rpartition(".")[2] or (
        function.attr.value if isinstance(function, cst.Attribute) else ""
    )
