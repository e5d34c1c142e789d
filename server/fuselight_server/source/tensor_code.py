"""Whether a function computes with tensors that it is given, as far as its text shows: what could be compiled.

Invariant: a look at the text and no more. A function that makes loaders, optimizers, paths or models does not count;
a function that passes its parameters to an operator of torch does.
"""

from __future__ import annotations

import re

_ANNOTATED = re.compile(r":\s*[^,=]*\bTensor\b")
_CALL = re.compile(
    r"\b(?P<path>(?:torch|F|nn\.functional)(?:\.\w+)*)\.(?P<name>[a-z]\w*)\((?P<arguments>[^\n]*)"
)
_OPERATORS = re.compile(
    r"(?:torch(?:\.(?:nn\.functional|linalg|special|fft|sparse|masked|nested|ops(?:\.\w+)*))?|F|nn\.functional)"
)
"""Where torch has operators on tensors."""
_NO_OPERATORS = re.compile(
    r"(?:rand\w*|normal|zeros|ones|empty\w*|full|arange|linspace|logspace|eye|tensor|as_tensor|from_numpy|asarray"
    r"|compile|load|save|device|autocast|no_grad|enable_grad|inference_mode|manual_seed|seed|typename|finfo|iinfo"
    r"|(?:set|get|use|is|are|has)_\w+)"
)
"""Functions of torch that make tensors of sizes or data, or that change and ask for settings."""
_METHODS = (
    "view|reshape|flatten|unflatten|permute|transpose|unsqueeze|squeeze|expand|contiguous|chunk|masked_fill|gather"
    "|scatter|index_select|softmax|log_softmax|sigmoid|tanh|relu|matmul|mm|bmm|addmm|einsum|detach|backward|sum|mean"
    "|std|var|norm|exp|log|sqrt|rsqrt|pow|abs|clamp|argmax|argmin|cumsum|topk|requires_grad_|size|dim|numel"
)


def computes_with_tensors(header: str, body: str, parameters: tuple[str, ...]) -> bool:
    """Whether a function with these parameters computes with them. `header` is the text of its parameters."""
    if not parameters:
        return False
    if _ANNOTATED.search(header):
        return True
    names = "|".join(re.escape(name) for name in parameters)
    of_tensors = re.compile(
        rf"(?<![\w.])(?:{names})\.(?:(?:{_METHODS})\(|shape\b|dtype\b)|(?<![\w.])(?:{names})\s*@|@\s*(?:{names})\b"
    )
    if of_tensors.search(body):
        return True
    given = re.compile(rf"(?<![\w.])(?:{names})\b")
    return any(
        _OPERATORS.fullmatch(call["path"])
        and not _NO_OPERATORS.fullmatch(call["name"])
        and given.search(call["arguments"])
        for call in _CALL.finditer(body)
    )
