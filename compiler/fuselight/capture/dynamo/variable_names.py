"""What a user calls the values that a function holds: the variables of its closure, and its defaults.

torch numbers both. Invariant: a name is that of the function's own code; without the function, torch's number stays.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from fuselight.shared import torch_texts

_HELD = re.compile(r"(?:(?P<closure>closure variable)|default) (?P<key>\d+|(['\"])\w+\3) of ")


def with_variable_names(text: str, scope: Mapping[str, Any], f_locals: Mapping[str, object]) -> str:
    """A text in the user's words with `scale` in the place of `closure variable 0 of f`, and `cfg` of `default 0 of f`.

    `scope` are the globals of the compiled function.
    """
    known = dict(f_locals)
    for match in reversed(
        list(_HELD.finditer(text))
    ):  # an inner function's number comes after the outer one's
        end = torch_texts.source_after(text, match.end())
        try:
            function = eval(text[match.end() : end], dict(scope), known)  # noqa: S307 - a name in the call
            name, value = _held_by(function, match["key"], is_closure=match["closure"] is not None)
        except Exception:  # noqa: BLE001, S112 - a callable that is no function, or a name that the call has not
            continue
        known[name] = value
        before, after = text[: match.start()], text[end:]
        if before.endswith("(") and after.startswith((")[", ").")):
            before, after = before[:-1], after[1:]
        text = f"{before}{name}{after}"
    return text


def _held_by(function: Any, key: str, *, is_closure: bool) -> tuple[str, object]:
    """The name of a variable of a function's closure, or of the parameter that a default is for; and the value."""
    code = function.__code__
    if is_closure:
        return str(code.co_freevars[int(key)]), function.__closure__[int(key)].cell_contents
    if not key.isdecimal():
        return key[1:-1], function.__kwdefaults__[key[1:-1]]
    parameters = code.co_varnames[: code.co_argcount]
    first = len(parameters) - len(function.__defaults__)
    return str(parameters[first + int(key)]), function.__defaults__[int(key)]
