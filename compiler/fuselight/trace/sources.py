"""Converts Dynamo's names for the source of a value to expressions of the user's code.

Invariant: text in, text out, never an error: an unknown form stays as Dynamo writes it.
`L['self']._modules['l']._parameters['weight']` -> `self.l.weight`, `L['x'].size()[0]` -> `x.size(0)`.
"""

from __future__ import annotations

import functools
import re

_REPLACEMENTS: tuple[tuple[re.Pattern[str], str], ...] = (
    (re.compile(r"\b[LG]\[(['\"])([A-Za-z_]\w*)\1\]"), r"\2"),
    (re.compile(r"\.(?:_modules|_parameters|_buffers|__dict__)\[(['\"])([A-Za-z_]\w*)\1\]"), r".\2"),
    (re.compile(r"\.(?:_modules|_parameters|_buffers)\[(['\"])(\d+)\1\]"), r"[\2]"),
    (re.compile(r"\.(size|stride)\(\)\[(\d+)\]"), r".\1(\2)"),
    (re.compile(r"\b__builtins_dict___\d+\[(['\"])(\w+)\1\]"), r"\2"),
    (re.compile(r"\bdict\.(?:__getitem__|get)\((\w[\w.\[\]'\"]*), (.+?)\)"), r"\1[\2]"),
    (re.compile(r"\b(?:list|tuple)\.__getitem__\((\w[\w.\[\]'\"]*), (\d+)\)"), r"\1[\2]"),
    (re.compile(r"\b___(?:from_numpy|as_tensor|dict_getitem)\(([^()]*)\)"), r"\1"),
    (re.compile(r"\blist\(dict\.keys\(([^()]*)\)\)"), r"list(\1)"),
    (re.compile(r"\.__code__$"), ""),
    (re.compile(r"\b___get_torch_function_mode_stack_at\((\d+)\)"), r"torch function mode \1"),
    (re.compile(r"\btype\(([^()]*)\)\.__mro__\[\d+\]\.__dict__\[(['\"])(\w+)\2\]"), r"type(\1).\3"),
    (re.compile(r"\b__import_(\w+)"), "@import@"),
)
_CLOSURE = re.compile(r"(?P<owner>[\w.\[\]]+)\.__closure__\[(?P<index>\d+)\]\.cell_contents")
_DEFAULT = re.compile(r"(?P<owner>[\w.\[\]]+)\.__(?:kw)?defaults__\[(?P<key>[^\]]+)\]")


@functools.lru_cache(maxsize=16384)
def in_user_words(source: str) -> str:
    """A source, or an expression over sources, as the user would write it."""
    text = source
    if "[" not in text and "(" not in text:
        return text
    for pattern, replacement in _REPLACEMENTS:
        if replacement == "@import@":
            text = pattern.sub(lambda found: found[1].replace("_dot_", "."), text)
        else:
            text = pattern.sub(replacement, text)
    text = _CLOSURE.sub(r"closure variable \g<index> of \g<owner>", text)
    return _DEFAULT.sub(r"default \g<key> of \g<owner>", text)


def is_global_state(source: str) -> bool:
    """Whether a guard's source names nothing of the user's: the whole frame, or nothing at all."""
    return source in {"", "L", "G"}
