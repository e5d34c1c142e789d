"""Names of torch by what they return: lists that the rules read, nothing else.

Invariant: a name is in a list only if each call of it that is legal returns what the list says.
"""

from __future__ import annotations

from fuselight.shared.codec import read_words

_NAMES = read_words(__file__)
METHODS = _NAMES["methods"]
"""Methods of a tensor that return one tensor whatever their arguments are."""
REDUCTIONS = _NAMES["reductions"]
"""Methods and functions that return one tensor if they get no dimension."""
DTYPES = {
    "float": "f32",
    "double": "f64",
    "half": "f16",
    "bfloat16": "bf16",
    "long": "i64",
    "int": "i32",
    "argmax": "i64",
    "argmin": "i64",
    "argsort": "i64",
}
"""The dtype that some methods return."""
TOTALS = _NAMES["totals"]
"""Those that return one element if they get no dimension."""
SAME_DTYPE = _NAMES["same_dtype"]
MASKS = _NAMES["masks"]
FUNCTIONS = METHODS | _NAMES["functions"]
ACTIVATIONS = _NAMES["activations"]
FACTORIES = _NAMES["factories"]
