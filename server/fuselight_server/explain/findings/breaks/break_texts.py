"""Titles and first steps for the graph breaks that people meet most, by GB id.

Invariant: a title says what in the user's code broke the graph, and a step names code that a user can write and that
keeps the meaning of the program. torch's own texts serve every other id; its hints follow our step.
"""

from __future__ import annotations

import re
import sys

from fuselight_server.explain.findings.breaks.branch_advice import SELECT
from fuselight_server.explain.findings.common.text import is_for_developers, plain

_TITLES = {
    "GB0003": "a generator function is compiled",
    "GB0007": "this function is not traced by torch.compile",
    "GB0008": "this function is not traced by torch.compile",
    "GB0011": "a variable is read before it is set",
    "GB0014": "RNN, GRU and LSTM modules are not traced",
    "GB0015": "sparse tensors are not supported",
    "GB0016": "strided nested tensors are not supported",
    "GB0022": "this import does not return a module",
    "GB0025": "requested by torch._dynamo.graph_break()",
    "GB0030": "requested by a comptime call",
    "GB0021": "text is made from a number that varies",
    "GB0033": "this operator returns a Python number that depends on the tensor's data",
    "GB0034": "an assert fails while torch traces it",
    "GB0029": "a hook is registered on a tensor that the compiled code computes",
    "GB0036": "the shape of the result depends on the tensor's data",
    "GB0037": "the shape of the result depends on the tensor's data",
    "GB0038": "a bound of a slice is a tensor",
    "GB0040": "a function that is captured whole returns its input, or a view of it",
    "GB0041": "a function that is captured whole changes its input in place",
    "GB0045": "`is_inference()` cannot be traced",
    "GB0046": "`torch.is_inference_mode_enabled()` cannot be traced",
    "GB0055": "an argument of this call cannot be part of a graph",
    "GB0056": "`.data` of a tensor created in the compiled region is assigned",
    "GB0058": "this attribute of a tensor cannot be set in a compiled region",
    "GB0059": "this built-in function cannot be traced",
    "GB0061": "this object cannot be unpacked into a list",
    "GB0063": "this object cannot be unpacked",
    "GB0064": "this operator fails on the shapes that torch.compile traces with",
    "GB0065": "something in the called function cannot be traced",
    "GB0066": "a graph break inside a `with` block that cannot be exited and re-entered",
    "GB0067": "an object from outside is changed in a function that is captured whole",
    "GB0069": "this import fails while tracing",
    "GB0070": "a list is indexed with a tensor that has more than one element",
    "GB0072": "the shape of an input is changed in place",
    "GB0082": "this kind of statement cannot be traced",
    "GB0083": "backward hooks on a module are not traced",
    "GB0086": "this code needs a value known only at run time",
    "GB0087": "this operator has no implementation for tracing",
    "GB0088": "an exception is raised here while tracing",
    "GB0090": "this operator cannot run without data",
    "GB0092": "this object cannot be carried across a graph break",
    "GB0098": "calls a function marked torch.compiler.disable",
    "GB0099": "calls a function marked torch.compiler.disable",
    "GB0100": "the handle of a tensor hook is stored in a global variable",
    "GB0101": "the handle of a tensor hook is stored in a global variable",
    "GB0103": "a method of this tensor subclass cannot be traced",
    "GB0104": "`.grad_fn` of a tensor is read",
    "GB0105": "`.numpy()` is disabled for tracing",
    "GB0107": "`random_()` cannot be traced",
    "GB0108": "`retain_grad()` cannot be traced",
    "GB0109": "`tolist()` of a tensor that does not hold integers",
    "GB0110": "`uniform_` with the keyword `from` cannot be traced",
    "GB0112": "this call does not match the operator's signature",
    "GB0116": "an object of this type cannot be created in a compiled region",
    "GB0117": "this method cannot be traced with these arguments",
    "GB0123": "`.backward()` is called in the compiled region",
    "GB0124": "`.item()` converts a tensor to a Python number",
    "GB0125": "`requires_grad_()` cannot be traced here",
    "GB0126": "`resize_()` cannot be traced",
    "GB0127": "`resize_as_()` cannot be traced",
    "GB0128": "`set_()` cannot be traced",
    "GB0131": "an attribute or item is set on an object that torch.compile does not track",
    "GB0142": "this context manager cannot be entered in a compiled region",
    "GB0144": "an autograd.Function with its own jvp cannot be traced",
    "GB0145": "an autograd.Function with its own vjp cannot be traced",
    "GB0147": "this call cannot be traced",
    "GB0148": "this function requests a graph break",
    "GB0150": "`hasattr` on this object cannot be traced",
    "GB0152": "`itertools.groupby` with keys that are not constants",
    "GB0156": "this method cannot be traced",
    "GB0157": "this attribute of a NumPy array cannot be traced",
    "GB0158": "this method of a NumPy array cannot be traced",
    "GB0160": "`next()` of this iterator cannot be traced",
    "GB0163": "this attribute of a tensor subclass cannot be traced",
    "GB0170": "a branch depends on the data of a tensor",
    "GB0171": "an assert's message is not a plain string",
    "GB0172": "a collective is called with async_op=True",
    "GB0177": "this function is not written in Python",
    "GB0179": "`copy.deepcopy()` cannot be traced",
    "GB0185": "this NumPy array cannot become a tensor",
    "GB0190": "`getattr` with a name known only at run time",
    "GB0191": "`id()` of this object cannot be traced",
    "GB0206": "`requires_grad` of a tensor is set",
    "GB0207": "a sort by a key known only at run time",
    "GB0208": "this torch function does not return a tensor",
    "GB0213": "this built-in function cannot take a tensor while tracing",
    "GB0215": "this comparison of a tensor cannot be traced",
    "GB0219": "the backend failed on the graph",
    "GB0222": "a set of tensors cannot be traced",
    "GB0225": "a tensor is created with requires_grad=True",
    "GB0236": "a nonstrict_trace function receives an object that is not a tensor, a number or a container of those",
    "GB0240": "`out=` has a tensor of a different shape, which this call resizes",
    "GB0242": "`out=` is a tensor that is not contiguous",
    "GB0246": "`one_hot` without num_classes: the shape of the result depends on the tensor's data",
    "GB0247": "`out=` is a tensor of a different shape, which this call resizes",
    "GB0250": "`astype(object)` cannot be traced",
    "GB0251": "a nonstrict_trace function returns an object that is not a tensor, a number or a container of those",
    "GB0253": "this method of a generator cannot be traced",
    "GB0258": "`collections.deque` is called with arguments that cannot be traced",
    "GB0262": "this context manager of contextlib cannot be traced",
    "GB0264": "an nn.Parameter is created in the compiled region",
    "GB0275": "requested by torch._dynamo.step_unsupported()",
    "GB0277": "a sparse tensor is created, which is not supported",
    "GB0290": "a method of a NumPy function is called",
    "GB0291": "logging calls are not traced",
    "GB0294": "this NumPy function has no equivalent in torch",
    "GB0297": "`random.Random` is called with arguments that cannot be traced",
    "GB0363": "this object can enter a compiled region only as an input",
    "GB0375": "an input carries a tangent of forward-mode differentiation",
    "GB0376": "`torch._dynamo.disable()` is called in the compiled region",
    "GB0377": "`torch.compiler.disable()` is called in the compiled region",
    "GB0467": "this attribute cannot be set in a compiled region",
    "GB0569": "the `repr()` of a tensor depends on its data",
    "GB0811": "this object cannot be iterated while tracing",
    "GB1354": "a namespace is created with names known only at run time",
    "GB1940": "an attribute is set on an object that torch.compile does not track",
    "GB2710": "a context manager that is not an input cannot be entered in a compiled region",
    "GB2736": "`isinstance()` of a tensor calls a check that is not traced",
    "GB3003": "methods of objects known only at run time are compared",
    "GB3069": "a custom operator is defined in the compiled region",
    "GB3837": "`bytearray()` of this object cannot be traced",
    "GB4197": "`share_memory_()` cannot be traced",
    "GB4198": "`copy.deepcopy()` of a tensor cannot be traced",
    "GB4413": "an attribute is changed in a function that is captured whole",
    "GB4347": "`next()` of this iterator cannot be traced",
    "GB4271": "the `__class__` of an object is assigned",
    "GB4297": "requested by torch._dynamo.skip_frame()",
    "GB4372": "an autograd.Function has keyword-only arguments",
    "GB4399": "`str()` of this object cannot be traced",
    "GB4636": "requested by torch._dynamo.step_unsupported()",
    "GB4695": "a module from torch.jit cannot be traced",
    "GB4818": "this object cannot be called while tracing",
    "GB4841": "the type of this object is not known while tracing",
    "GB5460": "`bytearray()` with values known only at run time",
    "GB5491": "`.data` is assigned a tensor of another device and shape",
    "GB5687": "`min` or `max` by a key known only at run time",
    "GB5821": "a post-accumulate hook is registered on a tensor of the compiled region",
    "GB5976": "addresses of tensors are compared",
    "GB6012": "`len()` of this object cannot be traced",
    "GB6066": "the default of `ContextVar.get()` is not a constant",
    "GB6297": "an autograd.Function receives the same tensor twice",
    "GB6404": "this attribute cannot be set in a compiled region",
    "GB6602": "`.data` is assigned a tensor of a different shape",
    "GB6815": "a ContextVar is changed in the compiled region",
    "GB7000": "a graph break inside a loop",
    "GB7151": "a generator of a library cannot be traced",
    "GB7650": "a method of torch.Generator cannot be traced",
    "GB8335": "a partly consumed generator cannot be carried across a graph break",
    "GB8949": "a global variable is set in a function whose globals are not those of a module",
    "GB8977": "a class is defined in the compiled region",
    "GB8985": "a leaf tensor created by `requires_grad_()` leaves the compiled region",
    "GB9118": "the address of a tensor is tested for zero",
    "GB9182": "`.data` of a parameter is assigned a tensor of a different shape",
    "GB9186": "`torch.autograd.grad` is called in the compiled region",
    "GB9193": "the clock is read",
    "GB9493": "a special method that is written in C cannot be traced",
    "GB9890": "`bytes()` with values known only at run time",
    "GB9899": "this attribute cannot be traced",
    "GB9958": "this autograd.Function has no such attribute",
}

_NAME = r"`([^`\n]{1,60})`"
_NAMED = {
    "GB0007": (
        r"(?:`|C\+\+ function )([\w.<> ]{1,80}?)(?:`|\.(?:$|\s))",
        "`{}` is not traced by torch.compile",
    ),
    "GB0008": (_NAME, "`{}` is not traced by torch.compile"),
    "GB0033": (rf"Operator {_NAME}", "`{}` returns a Python number that depends on the tensor's data"),
    "GB0036": (rf"Operator {_NAME}", "the shape of the result of `{}` depends on the tensor's data"),
    "GB0059": (rf"builtin operator {_NAME}", "`{}` cannot be traced"),
    "GB0082": (rf"instruction {_NAME}", "the `{}` instruction cannot be traced"),
    "GB0090": (rf"Operator {_NAME}", "`{}` has no implementation that runs without data (a fake kernel)"),
    "GB0098": (rf"function {_NAME}", "calls `{}`, which is marked torch.compiler.disable"),
    "GB0099": (rf"function {_NAME}", "calls `{}`, which is marked torch.compiler.disable"),
    "GB0142": (rf"enter a {_NAME}", "the context manager `{}` cannot be entered in a compiled region"),
    "GB0147": (r"the function `(?!None`)([^`\n]{1,80})`", "`{}` cannot be traced"),
    "GB0148": (r"calling `([^`\n]{1,80})`", "`{}` requests a graph break"),
    "GB0156": (rf"method {_NAME} of class `", "the method `{}` cannot be traced"),
    "GB0467": (r"on type (\w{1,40})", "an attribute of a `{}` object is set"),
    "GB4413": (
        r"Attribute '([^'\n]{1,60})' .{0,40}?was changed (from .{1,60}? to .{1,60}?) inside",
        "`{}` is changed {} in a function that is captured whole",
    ),
    "GB9193": (rf"graph breaks on {_NAME}", "`{}` is not traced by torch.compile"),
    "GB9493": (
        r"implements '([^'\n]{1,60})' in C",
        "`{}` of this object is written in C and cannot be traced",
    ),
}
"""By id: a pattern in torch's explanation, and the title with what it found."""

_NAMED_BY_CONTEXT = frozenset({"GB0007", "GB0008"})
_QUALNAME = re.compile(r"qualname: ([^\s,]{1,80}),")
_UNTRACED = frozenset({"GB0007", "GB0008", "GB0147", "GB9193"})
_CLOCKS = re.compile(r"(?:time|datetime)\.(?!sleep|strftime|strptime|gmtime|localtime)")
_BY_NAME = {
    ("GB0033", "_local_scalar_dense"): "a tensor is converted to Python numbers",
    ("GB0156", "__new__"): "an object of this class cannot be created while tracing",
    ("GB0156", "__call__"): "this object cannot be called while tracing",
}
"""Titles where torch's name for the operation does not occur in the user's line."""


def title_of(gb_id: str | None, gb_type: str, explanation: str, context: str = "") -> str:
    """What broke the graph, in plain words, without a full stop. `context` is torch's own for developers."""
    gb_id = _specific_id(gb_id, explanation)
    title = _TITLES.get(gb_id or "")
    if title is None and is_for_developers(gb_type):
        return "torch.compile cannot trace what this line does with an object"
    if title is None:
        return plain(gb_type).rstrip(".") or "torch.compile gives no reason"
    match = _name_in(gb_id, explanation, context)
    if match is None:
        return title
    name = _short_name(match.group(1))
    return _BY_NAME.get((gb_id or "", name)) or _NAMED[gb_id or ""][1].format(name, *match.groups()[1:])


def _name_in(gb_id: str | None, explanation: str, context: str) -> re.Match[str] | None:
    """What torch's texts name: the function, the operator, the method."""
    match = re.search(_NAMED[gb_id][0], plain(explanation)) if gb_id in _NAMED else None
    if match is None and gb_id in _NAMED_BY_CONTEXT:
        match = _QUALNAME.search(plain(context))
    return match


def pythons_function(gb_id: str | None, explanation: str) -> str:
    """The function of Python's own that is not traced, as `time.time`; empty for that of a library or of the user."""
    match = _name_in(gb_id, explanation, "") if gb_id in _UNTRACED else None
    name = _short_name(match.group(1)) if match is not None else ""
    return name if name.partition(".")[0] in sys.stdlib_module_names and "." in name else ""


def has_words(gb_id: str) -> bool:
    """Whether there is a title or a step of ours for an id."""
    return gb_id in _TITLES or gb_id in _STEPS


def _specific_id(gb_id: str | None, explanation: str) -> str | None:
    """The id whose words fit: from torch 2.15 on, a recurrent module has the id of any call that is refused."""
    return "GB0014" if gb_id == "GB0148" and "RNN, GRU, or LSTM" in explanation else gb_id


_ATEN = re.compile(r"^aten\.(\w+)\.\w+$")
"""An operator of torch with its overload: only torch's own code writes it so."""
_OVERLOADS = {"_unique": "unique", "_unique2": "unique", "unique_dim": "unique"}
"""Operators of which users call one function."""
_LOCAL = re.compile(r"\b[LG]\['(\w+)'\]")
"""How torch names a variable of the compiled function."""


def _short_name(name: str) -> str:
    """`<built-in function open>`, `builtins.open` and `<unknown module>.open` as `open`."""
    match = re.search(r"(?:function|method|type|class)\s+'?([\w.]+)", name)
    name = _LOCAL.sub(r"\1", match.group(1) if match else name)
    name = _ATEN.sub(r"\1", name.replace("torch._VariableFunctionsClass.", "torch."))
    name = _OVERLOADS.get(name, name)
    if name.startswith("_") and name[1:].partition(".")[0] in sys.stdlib_module_names:
        name = name[1:]  # `_warnings` is the part of `warnings` that is written in C
    return name.removeprefix("builtins.").removeprefix("<unknown module>.").rstrip(".")


_OUTSIDE = "outside the compiled code"
MASK = (
    "Keep the shape fixed: use a mask or torch.where(condition, x, y) instead of selecting the matching elements, and "
    "leave the others out of sums and means"
)
_NUMBER = (
    "Keep the value a tensor (torch.where, torch.clamp and arithmetic accept tensors), and convert it to a "
    f"Python number {_OUTSIDE}"
)
_CALL = f"Make this call {_OUTSIDE}, and pass in what the code needs of its result"
_OR_IN_TORCH = f"{_CALL}; or do the same with torch operators"
_CLOCK = (
    f"Read the clock {_OUTSIDE}, around its call; to time parts of the code, compile each part as a function of its "
    "own. A time that the code computes with can be an argument, as a tensor"
)
_DISABLED = (
    "Remove torch.compiler.disable if the function can be traced; otherwise call it before or after the compiled "
    "code"
)
_NOT_IN_REGION = (
    "Remove the call if torch can trace the function. Otherwise disable the function where it is defined, and call it "
    "before or after the compiled code"
)
_BYTES = (
    f"Create the bytes {_OUTSIDE}, and pass them in as a tensor: torch.tensor(list(data), dtype=torch.uint8)"
)
_LISTED = f"Make a list of it {_OUTSIDE}, and pass in the list"
_RECURRENT = f"Call the recurrent module {_OUTSIDE}, and compile what comes before and after it"
_NEW_TENSOR = "Create a new tensor of the shape you need, and copy what it keeps of this one"

_WHOLE = "Change it before or after the call of the operator, not in the function that the operator gets"

_STEPS: dict[str, str] = {
    "GB0014": _RECURRENT,
    "GB0021": f"Make the text {_OUTSIDE}, from values that it returns: torch formats no number that varies",
    "GB0007": _OR_IN_TORCH,
    "GB0008": _OR_IN_TORCH,
    "GB0033": _NUMBER,
    "GB0036": MASK,
    "GB0037": MASK,
    "GB0059": f"Move this call {_OUTSIDE}, or remove it",
    "GB0066": f"Move the line that breaks the graph, or the whole `with` block, {_OUTSIDE}",
    "GB0090": "Declare the shape and dtype that the operator returns, with @torch.library.register_fake",
    "GB0098": _DISABLED,
    "GB0099": _DISABLED,
    "GB0105": f"Work on the tensor with torch operators, and call .numpy() {_OUTSIDE}",
    "GB0107": "Use torch.randint, which can be traced: the numbers are then others",
    "GB0108": f"Call retain_grad() {_OUTSIDE}",
    "GB0123": f"Compile the forward pass and the loss, and call .backward() {_OUTSIDE}",
    "GB0124": _NUMBER,
    "GB0125": f"Call requires_grad_() {_OUTSIDE}",
    "GB0126": _NEW_TENSOR,
    "GB0127": _NEW_TENSOR,
    "GB0128": _NEW_TENSOR,
    "GB0142": f"Enter the context manager {_OUTSIDE}, around the call",
    "GB0147": _OR_IN_TORCH,
    "GB0170": SELECT,
    "GB0179": f"Copy the object {_OUTSIDE}, and pass in the copy",
    "GB0206": f"Set requires_grad {_OUTSIDE}",
    "GB0225": f"Create the tensor {_OUTSIDE} and pass it in",
    "GB0003": "Compile the function that uses the generator, or return a list",
    "GB0040": "Return a copy: call .clone() on what the function returns",
    "GB0041": "Return a new tensor instead of changing the input",
    "GB0038": f"Compute the bound {_OUTSIDE}, and pass it in as a Python number",
    "GB0072": "Call the method without the final underscore, as unsqueeze(), which leaves the input as it is",
    "GB0109": f"Keep the values in the tensor, and call tolist() {_OUTSIDE}",
    "GB0110": "Pass the bounds by position, as uniform_(0, 1)",
    "GB0171": "Write the message as a plain string",
    "GB0190": f"Read the attribute {_OUTSIDE}, and pass in its value",
    "GB0207": f"Sort {_OUTSIDE}; or keep the keys in one tensor, and select with keys.argsort()",
    "GB0467": f"Set the attribute {_OUTSIDE}, to a value that the code returns",
    "GB0100": "Keep the handle in a local variable",
    "GB0101": "Keep the handle in a local variable",
    "GB0172": "Leave out async_op=True and the call of wait(): the collective is then part of the graph",
    "GB0240": "Remove out= and use the tensors that the call returns",
    "GB0242": "Remove out= and use the tensor that the call returns",
    "GB0247": "Remove out= and use the tensor that the call returns",
    "GB0264": "Create the parameter in __init__",
    "GB0291": f"Log {_OUTSIDE}",
    "GB0294": "Use the equivalent torch function instead of NumPy's",
    "GB0569": f"Print or format the tensor {_OUTSIDE}",
    "GB4198": "Use .detach().clone(), which can be traced: the copy then requires no gradient",
    "GB8977": "Define the class at module level: it is then created once, and torch traces only its use",
    "GB0067": _WHOLE,
    "GB4413": _WHOLE,
    "GB0246": "Pass num_classes, which fixes the shape of the result",
    "GB7000": "Move the line out of the loop: a graph break inside a loop sends the whole function to eager mode",
    "GB0376": _NOT_IN_REGION,
    "GB0377": _NOT_IN_REGION,
    "GB2736": "Test with torch.is_tensor(x), or for a class without a check of its own",
    "GB3069": "Define the operator at module level",
    "GB3837": _BYTES,
    "GB5460": _BYTES,
    "GB9890": _BYTES,
    "GB5687": (
        "Select with tensors of equal shape: torch.stack(values).index_select(0, keys.argmax().reshape(1)).squeeze(0), "
        "where `keys` is a tensor of the keys; or use a Python number, such as a size, as the key"
    ),
    "GB5821": f"Register the hook {_OUTSIDE}, on a parameter or an input",
    "GB6066": "Call get() with a constant, such as None, and test for it: `value = variable.get(None)`",
    "GB6815": f"Set and reset the variable {_OUTSIDE}, around the call",
    "GB7151": _LISTED,
    "GB9193": _CLOCK,
}


_COUNTED = (
    "Count into a tensor of a fixed size n, greater than each index, which ends with zeros: "
    "weights.new_zeros(n).scatter_add_(0, index.long(), weights), where `weights` is "
    "torch.ones_like(index, dtype=torch.long) if there are none"
)
_DISTINCT = (
    f"Call it {_OUTSIDE} and pass in its result: how many distinct values there are depends on the data"
)
_BY_OPERATOR = {
    "bincount": _COUNTED,
    "unique": _DISTINCT,
    "repeat_interleave": (
        f"Pass output_size=..., the length of the result, if it is known {_OUTSIDE}: its shape is then fixed"
    ),
    "nonzero": (
        "Keep the shape fixed: use a mask or torch.where(condition, x, y), or torch.nonzero_static(mask, size=n): it "
        "drops the positions after the n-th, and where there are fewer, it fills up with rows of -1, which as an index "
        "is the last element"
    ),
}
"""Steps for operators whose result has a shape that depends on data, by a part of the operator's name."""
_OPERATOR = re.compile(r"Operator `([^`]+)`")
_DISPATCH_MODE = re.compile(r"enter a `(?:CommDebug|FakeTensor|FlopCounter|LoggingTensor|TorchDispatch)Mode`")
_NOT_UNDER_MODE = (
    f"Enter the mode {_OUTSIDE}, around a call that is not compiled: torch compiles nothing in it"
)


def first_step(gb_id: str | None, explanation: str = "") -> tuple[str, ...]:
    """The step for an id, by the operator that torch's explanation names; empty for an id without a step."""
    step = _STEPS.get(_specific_id(gb_id, explanation) or "")
    if function := pythons_function(gb_id, explanation):
        step = _CLOCK if _CLOCKS.match(function) else _CALL
        step = _STEPS["GB0059"] if function == "warnings.warn" else step
    if gb_id == "GB0142" and _DISPATCH_MODE.search(explanation):
        step = _NOT_UNDER_MODE
    if gb_id == "GB9493" and "'__iter__'" in explanation:
        step = _LISTED
    operator = _OPERATOR.search(explanation) if step == MASK else None
    if operator is not None:
        step = next((words for name, words in _BY_OPERATOR.items() if name in operator[1]), step)
    return (step,) if step else ()
