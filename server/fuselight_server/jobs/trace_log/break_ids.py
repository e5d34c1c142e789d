"""Ids of graph breaks for logs of releases that print none: torch 2.6 and 2.7.

Invariant: a break has an id only if its text is that of torch's registry, or a text of torch 2.6 with the same meaning.
Any other break keeps torch's text, without an id. The registry is younger than these releases: it has the titles of
torch 2.7, and torch 2.6 prints a sentence of its own in place of a title.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace

from fuselight.shared.torch_texts import Reason, read_reasons

_RAISED = re.compile(r"^(?:\w+\.)*(?:Unsupported|UncapturedHigherOrderOpError|UserError): ")
_SHORT = 1_000

IDS = {
    "Attempted to call function marked as skipped": "GB0007",
    "Attempted to inline function marked as skipped": "GB0008",
    "Attempted to inline function marked as skipped (SkipFunctionVariable)": "GB0009",
    "Attempted to read undefined local variable": "GB0011",
    "Attempted to wrap RNN, GRU, or LSTM": "GB0014",
    "Attempted to wrap sparse Tensor": "GB0015",
    "Attempted to wrap strided NestedTensor": "GB0016",
    "Bad import result": "GB0022",
    "Call to `torch._dynamo.graph_break()`": "GB0025",
    "ComptimeContext graph break": "GB0030",
    "Data dependent operator": "GB0033",
    "Data-dependent assertion failed (cannot compile partial graph)": "GB0034",
    "Data-dependent branching with non-constant __bool__": "GB0035",
    "Dynamic shape operator": "GB0036",
    "Dynamic shape operator (no meta kernel)": "GB0037",
    "Dynamic slicing with Tensor arguments": "GB0038",
    "Encountered tensor.is_inference() during tracing": "GB0045",
    "Encountered torch.is_inference_mode_enabled during tracing": "GB0046",
    "Failed to convert args/kwargs to proxy": "GB0055",
    "Failed to mutate tensor data attribute": "GB0056",
    "Failed to set tensor attribute": "GB0058",
    "Failed to trace builtin operator": "GB0059",
    "Failed to unpack object for BUILD_LIST_UNPACK": "GB0061",
    "Failed to unpack object for UNPACK_SEQUENCE": "GB0063",
    "Fake tensor propagation exception": "GB0064",
    "Graph break in inlined function": "GB0065",
    "Graph break under GenericContextWrappingVariable": "GB0066",
    "Import failure": "GB0069",
    "Indexing list with non-scalar tensor": "GB0070",
    "Inplace op on input tensor": "GB0072",
    "LOAD_BUILD_CLASS bytecode not supported": "GB0075",
    "Missing bytecode handler": "GB0082",
    "Module-level backwards hooks require compiled autograd": "GB0083",
    "Not a Python constant": "GB0086",
    "NotImplementedError/UnsupportedFakeTensorException when running FX node": "GB0087",
    "Observed exception": "GB0088",
    "Operator does not support running with fake tensors": "GB0090",
    "Reconstruction failure": "GB0092",
    "Should not compile partial graph (STORE_ATTR)": "GB0096",
    "Skip calling `torch.compiler.disable()`d function": "GB0098",
    "Skip inlining `torch.compiler.disable()`d function": "GB0099",
    "Tensor subclass overridden method call": "GB0103",
    "Tensor with grad_fn()": "GB0104",
    "Tensor.numpy() with trace_numpy=False": "GB0105",
    "Tensor.random_ op": "GB0107",
    "Tensor.retain_grad() with AOTDispatcher": "GB0108",
    "Tensor.tolist() with non-integer tensor": "GB0109",
    "Tensor.uniform_ op called with `from` keyword": "GB0110",
    "TypeError when making fake tensor call": "GB0112",
    "Unexpected type in sourceless builder": "GB0116",
    "Unhandled args for method": "GB0117",
    "Unsupported Tensor.backward() call": "GB0123",
    "Unsupported Tensor.item() call with capture_scalar_outputs=False": "GB0124",
    "Unsupported Tensor.requires_grad_() call": "GB0125",
    "Unsupported Tensor.resize_() call": "GB0126",
    "Unsupported Tensor.resize_as_() call": "GB0127",
    "Unsupported Tensor.set_() call": "GB0128",
    "Unsupported __setitem__/__setattr__ inline attempt": "GB0131",
    "Unsupported __setitem__/__setattr__/__delitem__/__delattr__ inline attempt": "GB0131",
    "Unsupported context manager": "GB0142",
    "Unsupported custom jvp": "GB0144",
    "Unsupported custom vjp": "GB0145",
    "Unsupported function call": "GB0147",
    "Unsupported function call (delayed)": "GB0148",
    "Unsupported hasattr call": "GB0150",
    "Unsupported key type for itertools.groupby": "GB0152",
    "Unsupported method call": "GB0156",
    "Unsupported ndarray attribute access": "GB0157",
    "Unsupported ndarray method call": "GB0158",
    "Unsupported next() call": "GB0160",
    "Unsupported tensor subclass attribute access": "GB0163",
    "Data-dependent branching": "GB0170",
    "assert with non-string message": "GB0171",
    "can't handle functions not implemented in python": "GB0177",
    "copy.deepcopy()": "GB0179",
    "failed to convert numpy.ndarray to Tensor": "GB0185",
    "getattr() with non-constant name argument": "GB0190",
    "id() with unsupported args": "GB0191",
    "setattr() on Tensor.requires_grad": "GB0206",
    "sort with non-constant keys": "GB0207",
    "torch.* op returned non-Tensor": "GB0208",
    "unimplemented builtin op on tensor arguments": "GB0213",
    "unsupported Tensor comparison op": "GB0215",
    "Backend compiler exception": "GB0219",
    "Attempted to wrap a set with tensors": "GB0222",
    "Attempted to use tensor creation function with requires_grad=True": "GB0225",
    "Invalid input type for nonstrict_trace-ed function": "GB0236",
    "Attempted to call op with non-contiguous `out=` tensor": "GB0242",
    "Attempted to use `torch.nn.functional.one_hot` with data-dependent output shape": "GB0246",
    "Shape mismatch with out= tensor variant": "GB0247",
    "ndarray.astype(object)": "GB0250",
    "Unsupported output type for nonstrict_trace-ed function": "GB0251",
    "call_method on generator": "GB0253",
    "collections.deque() with bad arguments": "GB0258",
    "unsupported contextlib.* API": "GB0262",
    "Attempted to use `torch.nn.Parameter()` constructor with Dynamo": "GB0264",
    "torch._dynamo.step_unsupported() with empty checkpoint": "GB0275",
    "Attempted to wrap sparse Tensor with VariableTracker": "GB0277",
    "attempted to trace numpy.* function as a method": "GB0290",
    "logging.Logger method not supported for non-export cases": "GB0291",
    "attempted to trace numpy function unsupported by PyTorch": "GB0294",
    "random.Random() with improper arguments": "GB0297",
    "An opaque object was created in the middle of the program": "GB0363",
    "repr() on tensor": "GB0569",
    "missing tp_iter": "GB0811",
    "Unsupported Tensor.share_memory_() call": "GB4197",
    "Attempted to copy.deepcopy a tensor": "GB4198",
    "Call to `torch._dynamo.skip_frame()`": "GB4297",
    "autograd_function_kwonly_args": "GB4372",
    "Call to `torch._dynamo.step_unsupported()`": "GB4636",
    "torch.jit.script/freeze modules unsupported": "GB4695",
    "Unsupported python_type() call": "GB4841",
    "Data pointer comparison": "GB5976",
    "Cannot trace user-defined __len__": "GB6012",
    "autograd.Function.apply: duplicate tensor input": "GB6297",
    "graph break in loop": "GB7000",
    "torch.Generator method": "GB7650",
    "Generator reconstruction with mutations": "GB8335",
    "Invalid call to __build_class__": "GB8977",
    "requires_grad_() intermediate leaked as output": "GB8985",
    "using `torch.autograd.grad` with `torch._dynamo.config.trace_autograd_ops=False`": "GB9186",
}
"""By title in torch's registry; a title that has several ids is not here."""


@dataclass(frozen=True)
class _EarlyText:
    """A reason as torch 2.6 prints it, and the title and the explanation that later releases have for it."""

    pattern: re.Pattern[str]
    title: str
    explanation: str
    """Of later releases, with the named parts of the pattern."""


_EARLY = tuple(
    _EarlyText(re.compile(pattern), title, explanation)
    for pattern, title, explanation in (
        (
            r"Tensor\.item$",
            "Unsupported Tensor.item() call with capture_scalar_outputs=False",
            "Dynamo does not support tracing `Tensor.item()` with config.capture_scalar_outputs=False.",
        ),
        (
            r"(?:Data-dependent jump|generic_jump TensorVariable\(\))$",
            "Data-dependent branching",
            "Dynamo does not support tracing dynamic control flow.",
        ),
        (
            r"dynamic shape operator: (?P<name>[\w.]+)",
            "Dynamic shape operator",
            "Operator `{name}`'s output shape depends on input Tensor data.",
        ),
        (
            r"data dependent operator: (?P<name>[\w.]+)",
            "Data dependent operator",
            "Operator `{name}` has a non-Tensor output whose value is dependent on the data of Tensor inputs.",
        ),
        (
            r"builtin: (?P<name>[\w.]+) \[",
            "Failed to trace builtin operator",
            "Dynamo does not know how to trace builtin operator `{name}`.",
        ),
        (
            r"Graph break due to unsupported (?:Python )?builtin (?:None\.)?(?P<name>[\w.]+[\w])\. ",
            "Attempted to call function marked as skipped",
            "Dynamo does not know how to trace the builtin `{name}`.",
        ),
        (
            r"Logger not supported for non-export cases",
            "logging.Logger method not supported for non-export cases",
            "logging.Logger methods are not supported for non-export cases.",
        ),
        (
            r"call torch\._dynamo\.disable\(\) wrapped function <function (?P<name>[\w.<>]+) at ",
            "Skip calling `torch.compiler.disable()`d function",
            "Skip calling function `{name}` since it was wrapped with `torch.compiler.disable`.",
        ),
        (
            r"'skip function graph_break in file [^']*torch/_dynamo/decorators\.py'",
            "Call to `torch._dynamo.graph_break()`",
            "User-inserted graph break.",
        ),
        (
            r"Input tensor for tolist must be an integer tensor",
            "Tensor.tolist() with non-integer tensor",
            "Dynamo currently does not support tracing `tolist()` on non-integer tensors.",
        ),
        (
            r"Tensor\.backward$",
            "Unsupported Tensor.backward() call",
            "Dynamo currently does not support tracing `Tensor.backward()`.",
        ),
    )
)


def read_registered_reasons(message: str) -> tuple[Reason, ...]:
    """The chain in a message, each link with the id that its text has in torch's registry."""
    return tuple(_links(message))


def _links(message: str) -> Iterator[Reason]:
    for reason in read_reasons(_RAISED.sub("", message)):
        if reason.gb_id is not None:
            yield reason
            continue
        later = reason if reason.explanation else _in_later_words(reason)
        yield replace(later, gb_id=IDS.get(later.title.rstrip(".")))


def _in_later_words(reason: Reason) -> Reason:
    """A reason of torch 2.6, which is one text, as later releases print it."""
    text = reason.title
    for early in _EARLY:
        match = early.pattern.match(text)
        if match is not None:
            return replace(
                reason,
                title=early.title,
                explanation=early.explanation.format(**match.groupdict()),
                context=text,
            )
    return replace(reason, title=text[:_SHORT])
