"""Titles and first steps for the graph breaks that people meet most, by GB id.

Invariant: a title says what in the user's code broke the graph, and a step names code that a user can write and that
keeps the meaning of the program. torch's own texts serve every other id; its hints follow our step.
"""

from __future__ import annotations

import re
import sys
from dataclasses import dataclass

from fuselight.shared.codec import read_table
from fuselight_server.explain.findings.breaks.branch_advice import SELECT
from fuselight_server.explain.findings.common.text import is_for_developers, plain


@dataclass(frozen=True)
class _BreakTexts:
    """Of graph breaks, by id."""

    titles: dict[str, str]
    named: dict[str, tuple[str, str]]
    """A pattern in torch's explanation, and the title with what it found."""
    titles_by_name: dict[str, dict[str, str]]
    """Titles where torch's name for the operation does not occur in the user's line."""
    steps: tuple[tuple[tuple[str, ...], str], ...]
    """The ids that have a step, and the step."""
    steps_by_operator: dict[str, str]
    """For operators whose result has a shape that depends on data, by a part of the operator's name."""


_KNOWN = read_table(_BreakTexts, __file__)
_TITLES, _NAMED = _KNOWN.titles, _KNOWN.named
_STEPS = {gb_id: step for gb_ids, step in _KNOWN.steps for gb_id in gb_ids} | {"GB0170": SELECT}
MASK, _LISTED, _CLOCK = _STEPS["GB0036"], _STEPS["GB7151"], _STEPS["GB9193"]
_OUTSIDE = "outside the compiled code"
_CALL = f"Make this call {_OUTSIDE}, and pass in what the code needs of its result"
_NOT_UNDER_MODE = (
    f"Enter the mode {_OUTSIDE}, around a call that is not compiled: torch compiles nothing in it"
)
_COUNTED = f"Make a fixed number of iterations, and select with a mask, or keep the loop {_OUTSIDE}"
_NAMED_BY_CONTEXT = frozenset({"GB0007", "GB0008"})
_QUALNAME = re.compile(r"qualname: ([^\s,]{1,80}),")
_UNTRACED = frozenset({"GB0007", "GB0008", "GB0147", "GB9193"})
_CLOCKS = re.compile(r"(?:time|datetime)\.(?!sleep|strftime|strptime|gmtime|localtime)")


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
    by_name = _KNOWN.titles_by_name.get(gb_id or "", {})
    return by_name.get(name) or _NAMED[gb_id or ""][1].format(name, *match.groups()[1:])


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


_OPERATOR = re.compile(r"Operator `([^`]+)`")
_DISPATCH_MODE = re.compile(r"enter a `(?:CommDebug|FakeTensor|FlopCounter|LoggingTensor|TorchDispatch)Mode`")


def first_step(gb_id: str | None, explanation: str = "") -> tuple[str, ...]:
    """The step for an id, by the operator that torch's explanation names; empty for an id without a step."""
    step = _STEPS.get(_specific_id(gb_id, explanation) or "")
    if function := pythons_function(gb_id, explanation):
        step = _CLOCK if _CLOCKS.match(function) else _CALL
        step = _STEPS["GB0059"] if function == "warnings.warn" else step
    if gb_id == "GB0059" and "`range`" in explanation:
        step = _COUNTED
    if gb_id == "GB0142" and _DISPATCH_MODE.search(explanation):
        step = _NOT_UNDER_MODE
    if gb_id == "GB9493" and "'__iter__'" in explanation:
        step = _LISTED
    operator = _OPERATOR.search(explanation) if step == MASK else None
    if operator is not None:
        step = next((words for name, words in _KNOWN.steps_by_operator.items() if name in operator[1]), step)
    return (step,) if step else ()
