"""What makes ranks equal again, for each kind of difference in inputs, constants and guards.

Invariant: a cure is true of what differs: only a number that is computed with can be a tensor, and only sizes are
padded.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

_TYPE = re.compile(r"(?P<dtype>\w+)\[(?P<shape>[^\]]*)\](?:\[(?P<strides>[^\]]*)\])?(?P<device>\w*)")
_TRAINING = re.compile(
    r"(?:\w+_)?(?:dropout\w*|batch_norm\w*|instance_norm\w*|rrelu\w*)|multi_head_attention_forward"
)
"""Operators with a flag for training."""
_ARITHMETIC = re.compile(
    r"\*\*?|//?|[-+%]|[<>=!]=|[<>]|add|r?sub|mul|(?:true_)?div|pow|remainder|fmod|maximum|minimum|[lgn][te]|eq"
)
"""Operators that compute with a number."""
_NUMBER = re.compile(r"-?(?:\d+(?:\.\d*)?(?:e[-+]?\d+)?|inf|nan)")
_MODES = {
    "grad_mode": "Call it in the same grad mode on all ranks: `torch.no_grad()` and `torch.inference_mode()` change it",
    "autocast_state": "Call it under the same `torch.autocast` on all ranks",
    "default_dtype": "Call `torch.set_default_dtype` with the same dtype on all ranks",
    "deterministic_algorithms": "Call `torch.use_deterministic_algorithms` with the same values on all ranks",
    "deterministic_algorithms_warn_only": (
        "Call `torch.use_deterministic_algorithms` with the same values on all ranks"
    ),
    "allow_tf32": "Call `torch.set_float32_matmul_precision` with the same value on all ranks",
}
SAME_GRADIENTS = (
    "Call it in the same grad mode on all ranks, with inputs that require gradients on all of them or none"
)
_PAD = "Pad to equal sizes, or mark the size as dynamic before the first call"
SAME_MODULE_MODE = "Call `train()` or `eval()` on all ranks alike, before they call the compiled function"


def cure_of_inputs(name: str, left: str | None, right: str | None) -> str:
    """What helps if an input has two types: dtype, number of dimensions, sizes, device or strides."""
    first, second = (_TYPE.fullmatch(text or "") for text in (left, right))
    if first is None or second is None:
        return f"Pass `{name}` with the same type on all ranks"
    if first["dtype"] != second["dtype"]:
        return f"Cast `{name}` to one dtype before the call, on all ranks"
    shapes = [[size.strip() for size in item["shape"].split(",") if size.strip()] for item in (first, second)]
    if shapes[0] != shapes[1]:
        return _cure_of_sizes(name, *shapes)
    if first["device"] != second["device"]:
        return f"Move `{name}` to the same kind of device on all ranks"
    return f"Give `{name}` the same strides on all ranks, as `contiguous()` does"


def _cure_of_sizes(name: str, left: Sequence[str], right: Sequence[str]) -> str:
    if len(left) != len(right):
        return f"Pass `{name}` with the same number of dimensions on all ranks"
    if any(_is_symbol(mine) != _is_symbol(theirs) for mine, theirs in zip(left, right, strict=True)):
        return "Mark the size as dynamic before the first call on all ranks, or on none"
    return f"{_PAD}, so that all ranks compile one graph"


def _is_symbol(size: str) -> bool:
    return not size.isdecimal()


def input_words(left: str | None, right: str | None) -> tuple[str | None, str | None]:
    """Two types without what they share: strides or the device alone where dtype and sizes are equal."""
    first, second = (_TYPE.fullmatch(text or "") for text in (left, right))
    if first is None or second is None:
        return left, right
    if (first["dtype"], first["shape"]) != (second["dtype"], second["shape"]):
        return left, right
    if first["device"] != second["device"]:
        return f"on {first['device']}", f"on {second['device']}"
    return f"of strides [{first['strides']}]", f"of strides [{second['strides']}]"


def cure_of_constant(operator: str, left: str | None, right: str | None) -> str:
    """What helps if a constant of the graph has two values."""
    values = [text for text in (left, right) if text is not None]
    if {"True", "False"}.issuperset(values) and _TRAINING.fullmatch(operator):
        return SAME_MODULE_MODE
    if _ARITHMETIC.fullmatch(operator) and values and all(_NUMBER.fullmatch(text) for text in values):
        return (
            "Pass the value as a tensor, so that all ranks compile the same graph and share its cache entry"
        )
    return (
        f"Give `{operator}` the same value on all ranks: it decides which code is compiled, so no tensor can stand for "
        "it"
    )


def cure_of_mode(name: str) -> str:
    """What helps if the global state differs in one of its parts."""
    return _MODES.get(name, "Set the mode on all ranks alike")


def cure_of_tensor(name: str, key: str) -> str:
    """What helps if a guard on a tensor differs in one of its properties."""
    return {
        "requires_grad": f"Let `{name}` require gradients on all ranks, or on none",
        "dtype": f"Cast `{name}` to one dtype before the call, on all ranks",
        "size": _PAD,
        "stride": f"Give `{name}` the same strides on all ranks, as `contiguous()` does",
        "device": f"Move `{name}` to the same kind of device on all ranks",
    }.get(key, f"Make `{name}` in the same way and in the same mode on all ranks")
