"""Plain-word titles for the graph breaks that people meet most, by GB id.

Invariant: a title says what in the user's code broke the graph. `{}` takes the group of the pattern found in
torch's own text; where the pattern is not found the second title stands. Every other id is titled by torch's
own first line.
"""

from __future__ import annotations

import re

from fuselight_server.findings.text import plain

_QUOTED = r"`([^`\n]{1,60})`"

_TITLES: dict[str, tuple[str, str | None, str | None]] = {
    # id: (title without detail, pattern, title with detail)
    "GB0007": (
        "this function is not traced by torch.compile",
        r"`([^`\n]{1,80})`",
        "`{}` is not traced by torch.compile",
    ),
    "GB0008": (
        "this function is not traced by torch.compile",
        _QUOTED,
        "`{}` is not traced by torch.compile",
    ),
    "GB0009": (
        "this function is not traced by torch.compile",
        _QUOTED,
        "`{}` is not traced by torch.compile",
    ),
    "GB0011": ("a variable is read that was not set", None, None),
    "GB0014": ("RNN, GRU and LSTM modules are not traced", None, None),
    "GB0015": ("sparse tensors are not supported", None, None),
    "GB0016": ("strided nested tensors are not supported", None, None),
    "GB0022": ("this import does not give a module", None, None),
    "GB0025": ("asked for by torch._dynamo.graph_break()", None, None),
    "GB0030": ("asked for by a comptime call", None, None),
    "GB0033": (
        "this operator gives a Python number that depends on the tensor's data",
        r"Operator `([^`\n]{1,60})`",
        "`{}` gives a Python number that depends on the tensor's data",
    ),
    "GB0034": ("an assert depends on the tensor's data", None, None),
    "GB0035": ("a branch depends on data", None, None),
    "GB0036": (
        "the shape of the result depends on the tensor's data",
        r"Operator `([^`\n]{1,60})`",
        "the shape of the result of `{}` depends on the tensor's data",
    ),
    "GB0037": ("the shape of the result depends on the tensor's data", None, None),
    "GB0038": ("a slice has a tensor as its bound", None, None),
    "GB0045": ("`is_inference()` cannot be traced", None, None),
    "GB0046": ("`torch.is_inference_mode_enabled()` cannot be traced", None, None),
    "GB0055": ("an argument of this call cannot be put into a graph", None, None),
    "GB0056": ("`.data` of a tensor made in the compiled region is assigned", None, None),
    "GB0058": ("this attribute of a tensor cannot be set in a compiled region", None, None),
    "GB0059": (
        "this built-in function cannot be traced",
        r"builtin operator `([^`\n]{1,60})`",
        "`{}` cannot be traced",
    ),
    "GB0061": ("this object cannot be unpacked into a list", None, None),
    "GB0063": ("this object cannot be unpacked", None, None),
    "GB0064": ("this operator fails on the shapes that torch.compile traces with", None, None),
    "GB0065": ("something in the called function cannot be traced", None, None),
    "GB0066": ("a break inside a `with` block that cannot be left and entered again", None, None),
    "GB0069": ("this import fails while tracing", None, None),
    "GB0070": ("a list is indexed with a tensor that has more than one element", None, None),
    "GB0072": ("the input's own view is changed in place", None, None),
    "GB0075": ("a class is defined in the compiled region", None, None),
    "GB0082": (
        "this kind of statement cannot be traced",
        r"instruction `([^`\n]{1,60})`",
        "the `{}` instruction cannot be traced",
    ),
    "GB0083": ("backward hooks on a module are not traced", None, None),
    "GB0086": ("a value is needed that is known only at run time", None, None),
    "GB0087": ("this operator has no implementation for tracing", None, None),
    "GB0088": ("an exception is raised here while tracing", None, None),
    "GB0090": (
        "this operator cannot run without data",
        r"Operator `([^`\n]{1,60})`",
        "`{}` has no implementation that runs without data (a fake kernel)",
    ),
    "GB0092": ("this object cannot be carried across a break", None, None),
    "GB0096": ("an attribute is set that cannot be set in a compiled region", None, None),
    "GB0098": (
        "calls a function that is marked torch.compiler.disable",
        r"function `([^`\n]{1,60})`",
        "calls `{}`, which is marked torch.compiler.disable",
    ),
    "GB0099": (
        "calls a function that is marked torch.compiler.disable",
        r"function `([^`\n]{1,60})`",
        "calls `{}`, which is marked torch.compiler.disable",
    ),
    "GB0103": ("a method of this tensor subclass cannot be traced", None, None),
    "GB0104": ("`.grad_fn` of a tensor is read", None, None),
    "GB0105": ("`.numpy()` is switched off for tracing", None, None),
    "GB0107": ("`random_()` cannot be traced", None, None),
    "GB0108": ("`retain_grad()` cannot be traced", None, None),
    "GB0109": ("`tolist()` of a tensor that does not hold integers", None, None),
    "GB0110": ("`uniform_` with the keyword `from` cannot be traced", None, None),
    "GB0112": ("this call does not fit the operator's signature", None, None),
    "GB0116": ("an object of this type, made in the compiled region, cannot be traced", None, None),
    "GB0117": ("this method cannot be traced with these arguments", None, None),
    "GB0123": ("`.backward()` is called in the compiled region", None, None),
    "GB0124": ("`.item()` turns a tensor into a Python number", None, None),
    "GB0125": ("`requires_grad_()` cannot be traced here", None, None),
    "GB0126": ("`resize_()` cannot be traced", None, None),
    "GB0127": ("`resize_as_()` cannot be traced", None, None),
    "GB0128": ("`set_()` cannot be traced", None, None),
    "GB0131": ("an attribute or item is set on an object that torch.compile does not track", None, None),
    "GB0142": (
        "this context manager cannot be entered in a compiled region",
        r"enter a `([^`\n]{1,60})`",
        "the context manager `{}` cannot be entered in a compiled region",
    ),
    "GB0144": ("an autograd.Function with its own jvp cannot be traced", None, None),
    "GB0145": ("an autograd.Function with its own vjp cannot be traced", None, None),
    "GB0147": (
        "what is called here cannot be traced",
        r"the function `(?!None`)([^`\n]{1,80})`",
        "`{}` cannot be traced",
    ),
    "GB0148": (
        "this function asks for a graph break",
        r"calling `([^`\n]{1,80})`",
        "`{}` asks for a graph break",
    ),
    "GB0150": ("`hasattr` cannot be answered while tracing", None, None),
    "GB0152": ("`itertools.groupby` with keys that are no constants", None, None),
    "GB0156": (
        "this method cannot be traced",
        r"method `([^`\n]{1,60})` of class `",
        "the method `{}` cannot be traced",
    ),
    "GB0157": ("this attribute of a NumPy array cannot be traced", None, None),
    "GB0158": ("this method of a NumPy array cannot be traced", None, None),
    "GB0160": ("`next()` of this iterator cannot be traced", None, None),
    "GB0163": ("this attribute of a tensor subclass cannot be traced", None, None),
    "GB0170": ("the data of a tensor decides which branch is taken", None, None),
    "GB0171": ("an assert's message is not a plain string", None, None),
    "GB0177": ("this function is not written in Python", None, None),
    "GB0179": ("`copy.deepcopy()` cannot be traced", None, None),
    "GB0185": ("this NumPy array cannot become a tensor", None, None),
    "GB0190": ("`getattr` with a name that is known only at run time", None, None),
    "GB0191": ("`id()` of this object cannot be traced", None, None),
    "GB0206": ("`requires_grad` of a tensor is set", None, None),
    "GB0207": ("a sort by a key that is known only at run time", None, None),
    "GB0208": ("this torch function does not return a tensor", None, None),
    "GB0213": ("this built-in function cannot take a tensor while tracing", None, None),
    "GB0215": ("this comparison of a tensor cannot be traced", None, None),
    "GB0219": ("the backend failed on the graph", None, None),
    "GB0222": ("a set of tensors cannot be traced", None, None),
    "GB0225": ("a tensor is created with requires_grad=True", None, None),
    "GB0236": (
        "a nonstrict_trace function is given an object that is no tensor, number or container of them",
        None,
        None,
    ),
    "GB0242": ("`out=` is a tensor that is not contiguous", None, None),
    "GB0246": (
        "`one_hot` without num_classes: the shape of the result depends on the tensor's data",
        None,
        None,
    ),
    "GB0247": ("`out=` is a tensor of another shape, which this call resizes", None, None),
    "GB0250": ("`astype(object)` cannot be traced", None, None),
    "GB0251": (
        "a nonstrict_trace function returns an object that is no tensor, number or container of them",
        None,
        None,
    ),
    "GB0253": ("this method of a generator cannot be traced", None, None),
    "GB0258": ("`collections.deque` is called with arguments that it does not take", None, None),
    "GB0262": ("this context manager of contextlib cannot be traced", None, None),
    "GB0264": ("an nn.Parameter is made in the compiled region", None, None),
    "GB0275": ("asked for by torch._dynamo.step_unsupported()", None, None),
    "GB0277": ("a sparse tensor is made, which is not supported", None, None),
    "GB0290": ("a NumPy function is called by one of its methods", None, None),
    "GB0291": ("logging calls are not traced", None, None),
    "GB0294": ("this NumPy function has no counterpart in torch", None, None),
    "GB0297": ("`random.Random` is called with arguments that it does not take", None, None),
    "GB0363": ("an object is made here that can only come into a compiled region as an input", None, None),
    "GB0569": ("the `repr()` of a tensor depends on its data", None, None),
    "GB0811": ("this object cannot be iterated while tracing", None, None),
    "GB4198": ("`copy.deepcopy()` of a tensor cannot be traced", None, None),
    "GB4271": ("the `__class__` of an object is assigned", None, None),
    "GB4297": ("asked for by torch._dynamo.skip_frame()", None, None),
    "GB4372": ("an autograd.Function has keyword-only arguments", None, None),
    "GB4636": ("asked for by torch._dynamo.step_unsupported()", None, None),
    "GB4695": ("a module from torch.jit cannot be traced", None, None),
    "GB4841": ("Dynamo does not know the type of this object", None, None),
    "GB5976": ("addresses of tensors are compared", None, None),
    "GB6012": ("`len()` of this object cannot be traced", None, None),
    "GB6297": ("an autograd.Function is given the same tensor twice", None, None),
    "GB7000": ("a break inside a loop", None, None),
    "GB7650": ("a method of torch.Generator cannot be traced", None, None),
    "GB8335": ("a generator that is partly consumed cannot be carried across a break", None, None),
    "GB8977": ("a class is defined in the compiled region", None, None),
    "GB8985": ("a new leaf made by `requires_grad_()` leaves the compiled region", None, None),
    "GB9186": ("`torch.autograd.grad` is called in the compiled region", None, None),
}


_BY_NAME = {
    ("GB0033", "aten._local_scalar_dense.default"): "a tensor is turned into Python numbers",
    ("GB0156", "__new__"): "an object of this class cannot be made while tracing",
    ("GB0156", "__call__"): "this object cannot be called while tracing",
}
"""Titles for names that torch uses for something that has no such name in the user's line."""


def title_of(gb_id: str | None, gb_type: str, explanation: str) -> str:
    """What broke the graph, in plain words, without a full stop."""
    entry = _TITLES.get(gb_id or "")
    if entry is None:
        return plain(gb_type).rstrip(".") or "torch.compile gives no reason"
    title, pattern, detailed = entry
    match = re.search(pattern, explanation) if pattern else None
    if not match or not detailed:
        return title
    name = _short_name(match.group(1))
    return _BY_NAME.get((gb_id or "", name)) or detailed.format(name)


def _short_name(name: str) -> str:
    """`<built-in function open>` and `builtins.open` as `open`."""
    match = re.search(r"(?:function|method|type|class)\s+'?([\w.]+)", name)
    return (match.group(1) if match else name).removeprefix("builtins.").rstrip(".")
