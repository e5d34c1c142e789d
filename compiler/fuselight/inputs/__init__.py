"""Directives: the inputs of a target in Python's own call syntax (docs/inputs.md). Standard library only.

`parse_directive` reads the text, an `Evaluator` makes objects of it, `describe` turns inputs back into text.
Invariant: whatever the text is, the outcome is a value or a `DirectiveError` with a range inside the text.
"""

from fuselight.inputs.describe import describe, describe_call
from fuselight.inputs.evaluate import Evaluator, UserCallError
from fuselight.inputs.grammar import (
    DTYPES,
    OPTIONS,
    Directive,
    DirectiveError,
    Options,
    TensorSpec,
    parse_directive,
    split_options,
)

__all__ = [
    "DTYPES",
    "OPTIONS",
    "Directive",
    "DirectiveError",
    "Evaluator",
    "Options",
    "TensorSpec",
    "UserCallError",
    "describe",
    "describe_call",
    "parse_directive",
    "split_options",
]
