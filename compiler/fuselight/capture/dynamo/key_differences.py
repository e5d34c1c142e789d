"""The dispatch keys of a tensor in plain words: `ids was a normal tensor, now an inference tensor`.

Invariant: one table puts keys into words. Keys that follow from the device, the type or another key have no words.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

import torch

from fuselight.adapters.torch_api.inductor import artifacts
from fuselight.shared.report import GuardCause


@dataclass(frozen=True)
class KeyDifference:
    """One property that dispatch keys decide, before and now."""

    what: str
    """What has the property: the tensor, or a mode of torch."""
    was: str
    now: str
    cause: GuardCause = GuardCause.DISPATCH
    text: str = ""
    """The whole difference, where `was` and `now` have no words."""


@dataclass(frozen=True)
class _Meaning:
    keys: re.Pattern[str]
    without: str
    with_it: str
    mode: str = ""
    """The mode of torch that decides; empty for a property of the tensor."""
    by_type: bool = False
    """Whether a tensor subclass has the key because of its type."""


def _meaning(keys: str, without: str, with_it: str, *, mode: str = "", by_type: bool = False) -> _Meaning:
    return _Meaning(re.compile(keys), without, with_it, mode, by_type)


_IN_PLACE = "ADInplaceOrView"
_AUTOGRAD = re.compile(r"Autograd(?!Functionality)\w*")
_PLAIN = "an ordinary tensor"
_DENSE = "a dense tensor"
_MEANINGS = (
    _meaning(r"Autocast\w+", "off", "on", mode="autocast"),
    _meaning("Conjugate", _PLAIN, "a lazily conjugated view"),
    _meaning("Negative", _PLAIN, "a lazily negated view"),
    _meaning("ZeroTensor", _PLAIN, "a tensor of zeros without memory"),
    _meaning(r"Sparse\w*", _DENSE, "a sparse tensor"),
    _meaning(r"Quantized\w*", "a tensor that is not quantized", "a quantized tensor"),
    _meaning(r"Mkldnn\w*", _DENSE, "a tensor in the layout of MKL-DNN"),
    _meaning(r"NestedTensor\w*", _DENSE, "a nested tensor", by_type=True),
    _meaning("FuncTorch(?:Vmap)?Batched(?:Decomposition)?", _PLAIN, "a batch of torch.vmap"),
    _meaning("FuncTorchGradWrapper", _PLAIN, "wrapped by a gradient of torch.func"),
    _meaning("Functionalize", _PLAIN, "wrapped by torch.func.functionalize"),
    _meaning("Python", _PLAIN, "handled by a tensor subclass or a dispatch mode", by_type=True),
)
"""What users know keys as. Those of autograd depend on the mode too: see below."""
_IMPLIED = re.compile(
    r"(?:CPU|CUDA|XPU|MPS|HPU|IPU|XLA|MTIA|MAIA|Lazy|Meta|VE|HIP|Vulkan|Metal|FPGA|PrivateUse\d|BackendSelect"
    r"|FuncTorchDynamicLayer\w*|PythonTLSSnapshot|PythonDispatcher|PreDispatch|Named)?"
)
"""Keys that follow from the device or come with another key."""


def key_differences(
    where: str, keys: str, value: torch.Tensor, *, same_type: bool, was_inference: bool
) -> tuple[KeyDifference, ...]:
    """How the keys that a guard recorded (`CPU, BackendSelect, ...`) differ from those of a tensor now.

    `was_inference`: whether it was an inference tensor, which the keys do not tell from a tensor in inference mode.
    """
    was, now = set(keys.split(", ")), artifacts.dispatch_keys(value)
    if was == now:
        return ()
    is_inference = value.is_inference()
    if was_inference != is_inference:
        kinds = ("a normal tensor", "an inference tensor")
        first = KeyDifference(where, kinds[was_inference], kinds[is_inference])
        return first, *_tensor_differences(where, was, now, same_type=same_type)
    mode = _inference_mode(was, now) if is_inference else _autograd_difference(where, was, now)
    return (*_tensor_differences(where, was, now, same_type=same_type), *mode)


def _tensor_differences(
    where: str, was: set[str], now: set[str], *, same_type: bool
) -> Iterator[KeyDifference]:
    unknown = was ^ now
    for meaning in _MEANINGS:
        before, after = (any(map(meaning.keys.fullmatch, keys)) for keys in (was, now))
        unknown = {key for key in unknown if not meaning.keys.fullmatch(key)}
        if before != after and (same_type or not meaning.by_type):
            words = (meaning.without, meaning.with_it)
            cause = GuardCause.GLOBAL_STATE if meaning.mode else GuardCause.DISPATCH
            yield KeyDifference(meaning.mode or where, words[before], words[after], cause)
    unknown = {
        key
        for key in unknown
        if not (_IMPLIED.fullmatch(key) or _AUTOGRAD.fullmatch(key) or key == _IN_PLACE)
    }
    if unknown and same_type:
        words_of = [f"{'no longer' if key in was else 'now'} {key}" for key in sorted(unknown)]
        yield KeyDifference("", "", "", text=f"the dispatch keys of {where} differ: {', '.join(words_of)}")


def _inference_mode(was: set[str], now: set[str]) -> Iterator[KeyDifference]:
    """Whether the mode is on, by the keys of an inference tensor."""
    before, after = (_IN_PLACE not in keys for keys in (was, now))
    if before != after:
        yield _inference_mode_was("on" if before else "off", "on" if after else "off")


def _autograd_difference(where: str, was: set[str], now: set[str]) -> Iterator[KeyDifference]:
    """Whether autograd sees a normal tensor."""
    before, after = (any(map(_AUTOGRAD.fullmatch, keys)) for keys in (was, now))
    if before and not after and torch.is_inference_mode_enabled():
        yield _inference_mode_was("off", "on")
    elif before != after:
        words = ("off", "on")
        why = ", as in inference mode or in a custom operator"
        text = (
            f"autograd was on for {where}, now off{why}"
            if before
            else f"autograd was off for {where}{why}, now on"
        )
        yield KeyDifference("autograd", words[before], words[after], GuardCause.GLOBAL_STATE, text)


def _inference_mode_was(was: str, now: str) -> KeyDifference:
    return KeyDifference("inference mode", was, now, GuardCause.GLOBAL_STATE)
