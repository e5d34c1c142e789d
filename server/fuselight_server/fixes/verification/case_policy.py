"""What a difference in a further call means for a fix: whether it is refused, or its title excepts the case.

Invariant: an ordinary call that differs refuses the fix; only the families of `_EXCEPTED` are excepted, each by name. A
fix whose title excepts anything, or that rounds in any call, is not exact (docs/verification.md).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from fuselight.shared.report import Aspect, CallComparison, CaseFamily, Difference
from fuselight.shared.report.verification import SCALAR
from fuselight_server.base.formatting import cut_list, format_list
from fuselight_server.fixes.rewrites.remedy import FixClass, Remedy

_EXCEPTED = frozenset(
    {
        CaseFamily.DTYPE,
        CaseFamily.EXTREME,
        CaseFamily.EMPTY,
        CaseFamily.FROZEN,
        CaseFamily.HOOKS,
        CaseFamily.ATTRIBUTE,
    }
)
"""Families that a title may except. All others are ordinary calls, which must be the same, but that gradients of
gradients are excepted in compiled calls, and where they raise an exception."""
UNUSED, RAISES, KIND, NEW_TENSOR = "unused gradients", "raises", "kind", "memory"
"""Names for what a title excepts beside families: gradients of what is not used, exceptions, kinds of attributes, and
outputs that were inputs."""
_WHOLE_FAMILIES = (
    (CaseFamily.EMPTY, "for empty inputs"),
    (CaseFamily.FROZEN, "with frozen parameters"),
    (CaseFamily.HOOKS, "with hooks of parameters"),
    (CaseFamily.SECOND, "for gradients of gradients"),
)
"""Families that a title names without their cases."""
_SHOWN = 4
"""Most cases that a title names."""
_AUTOCAST = "autocast"
_INTEGERS = frozenset({"int64", "int32", "int16", "int8", "uint8"})
"""The integer types that cases have (worker/verify/verification_cases.py)."""


@dataclass(frozen=True)
class CaseException:
    """A case in which the results differ, as the title of the fix says."""

    family: str
    name: str
    """That of the case: `float16 inputs`; of an attribute its name; of an exception what becomes of it."""


def exception_of(remedy: Remedy, difference: Difference, comparison: CallComparison) -> CaseException | None:
    """The exception that a difference is, None if it is none and refuses the fix."""
    if difference.aspect is Aspect.KIND:
        return CaseException(KIND, difference.text.partition(" was ")[0])
    if difference.aspect is Aspect.UNUSED_GRADIENT:
        is_known = comparison.compiled or remedy.fix_class is FixClass.CHANGES
        return CaseException(UNUSED, "") if is_known else None
    if difference.aspect is Aspect.EXCEPTION and comparison.family is not CaseFamily.DTYPE:
        changed = _exception_change(difference.text)
        if changed:
            return CaseException(RAISES, changed)
    # Kernels that only first-order gradients are known of, as those of attention, fail: they give no wrong number.
    is_first_order_only = comparison.compiled or difference.aspect is Aspect.EXCEPTION
    is_second = is_first_order_only and comparison.family is CaseFamily.SECOND
    may_be_excepted = difference.aspect is not Aspect.TIME  # no title can except a call that never ends
    if may_be_excepted and (is_second or comparison.family in _EXCEPTED):
        return CaseException(comparison.family.value, comparison.values)
    return None


def _exception_change(text: str) -> str:
    """What becomes of an exception: `ValueError becomes TypeError`; empty if the old text raised none."""
    if text.startswith(NO_LONGER):
        return f"{text.removeprefix(NO_LONGER)} is no longer raised"
    raises, instead, old = text.rpartition(INSTEAD)
    new = _TYPE.match(raises)
    return f"{old} becomes {new['type'] if new is not None else 'another exception'}" if instead else ""


NO_INPUT = "and now with no input"
"""End of the text of a difference in what an output shares its memory with."""
NO_LONGER, INSTEAD = "no longer raises ", ", instead of "
"""Parts of the text of a difference between exceptions (worker/call_records.py)."""
_TYPE = re.compile(r"raises (?P<type>[\w.]+)")


def exception_words(exceptions: Iterable[CaseException]) -> str:
    """`except for float16 inputs and where int32 overflows`; empty without exceptions."""
    by_family: dict[str, list[str]] = {}
    for exception in dict.fromkeys(exceptions):
        by_family.setdefault(exception.family, []).append(exception.name)
    words = list(_words(by_family))
    return f"except {format_list(words)}" if words else ""


def _words(by_family: dict[str, list[str]]) -> Iterator[str]:
    dtypes = [name for name in by_family.get(CaseFamily.DTYPE.value, []) if not name.endswith(SCALAR)]
    has_scalars = len(dtypes) < len(by_family.get(CaseFamily.DTYPE.value, []))
    names = list(dict.fromkeys(dtype.partition(" ")[0] for dtype in dtypes if dtype != _AUTOCAST))
    kinds = [f"{_some(_dtype_words(names))} inputs"] if names else []
    kinds += [f"inputs {SCALAR}"] if has_scalars else []
    yield from [f"for {format_list(kinds)}"] if kinds else []
    if _AUTOCAST in dtypes:
        yield "under autocast"
    yield from (words for family, words in _WHOLE_FAMILIES if family.value in by_family)
    yield from _attribute_words(by_family.get(CaseFamily.ATTRIBUTE.value, []))
    extremes = by_family.get(CaseFamily.EXTREME.value, [])
    limits = [extreme.split()[1] for extreme in extremes]
    yield from _extreme_words([limit for limit in dict.fromkeys(limits) if limit not in names])
    if RAISES in by_family:
        yield f"where {_some(by_family[RAISES])}"
    if UNUSED in by_family:
        yield "that unused parameters get zero gradients (weight decay and momentum change them)"
    if NEW_TENSOR in by_family:
        yield "that it returns a new tensor in place of its input"
    if KIND in by_family:
        yield f"that {_some([f'`{text}`' for text in by_family[KIND]])} becomes a tensor"


def _attribute_words(values: list[str]) -> Iterator[str]:
    """Of `scale = 2.0`, the names."""
    names = list(dict.fromkeys(f"`{value.partition(' = ')[0]}`" for value in values))
    yield from [f"for other values of {_some(names)}"] if names else []


def _dtype_words(names: list[str]) -> list[str]:
    """The dtypes by name, but the integers as such if all of them are among the cases."""
    has_all = _INTEGERS.issubset(names)
    return list(dict.fromkeys("integer" if has_all and name in _INTEGERS else name for name in names))


def _extreme_words(dtypes: list[str]) -> Iterator[str]:
    integers = [dtype for dtype in dtypes if "int" in dtype]
    floats = [dtype for dtype in dtypes if "int" not in dtype]
    if integers:
        yield f"where {integers[0]} overflows" if len(integers) == 1 else "where integers overflow"
    if floats:
        yield f"for {_some(floats)} values near the limits"


def _some(names: list[str]) -> str:
    return format_list(cut_list(names, _SHOWN))
