"""Splits a module that Inductor generated into its kernels and the code that launches them.

Invariant: the module is read as text and never imported. Lines keep their numbers.
"""

from __future__ import annotations

import re
import warnings

from fuselight.shared.foreign_data import parse_literal

_DEFINITION = re.compile(r"^(?P<name>\w+) = async_compile\.(?:triton|cpp_pybinding|cpp)\(", re.MULTILINE)
_QUOTED = re.compile(r"(?P<raw>r?)'''(?P<text>.*?)'''", re.DOTALL)


def kernel_sources(wrapper: str) -> dict[str, str]:
    """The text of each kernel that the wrapper defines."""
    sources = {}
    for match in _DEFINITION.finditer(wrapper):
        text = _QUOTED.search(wrapper, match.end())
        if text is not None:
            sources[match["name"]] = _evaluated(text["text"], raw=bool(text["raw"])).strip("\n")
    return sources


def without_sources(wrapper: str) -> list[str]:
    """The lines of the wrapper, those of kernel sources empty: sources name their own kernel."""
    return _QUOTED.sub(lambda text: "\n" * text[0].count("\n"), wrapper).splitlines()


def _evaluated(literal: str, *, raw: bool) -> str:
    """What Python makes of the text between quotes: a kernel of the user's may have quotes and escapes of its own."""
    if raw or "\\" not in literal:
        return literal
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of escapes that Python does not know, which stay as they are
        try:
            return str(parse_literal(f"'''{literal}'''"))
        except ValueError:
            return literal
