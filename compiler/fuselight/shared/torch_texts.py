"""Parses texts that torch prints both in a log and in an exception: graph breaks, and the sources of values.

Invariant: no text is lost except the middle of a huge message, and nothing is an error: text in an unknown section
stays in the section above, and an unknown form of source stays as Dynamo writes it. torch has no object for the parts
of a break's message. `L['self']._modules['l']._parameters['weight']` is `self.l.weight`, `L['x'].size()[0]` is
`x.size(0)`.
"""

from __future__ import annotations

import ast
import contextlib
import functools
import re
import textwrap
import tokenize
from dataclasses import dataclass

from fuselight.shared.foreign_data import parse_python

CHAIN = re.compile(r"\n*\*\*\* While handling this graph break, another graph break occurred: \*\*\*\n*")
_LINK = re.compile(r"\n*\s*For more details about this graph break, please visit: \S*?gb(\d+)\.html")
_USER_CODE = re.compile(r"\n*from user code:\n.*", re.DOTALL)
_VERBOSE = re.compile(r"\n*Set TORCHDYNAMO_VERBOSE=1 for the internal stack trace.*", re.DOTALL)
_SECTION = re.compile(
    r"^  (Explanation|Hint|Developer debug context|Higher Order Operator):[ ]?", re.MULTILINE
)
_LONGEST = 100_000
"""Characters of a message that are read: the user's values stand in it, and may be of any size."""
_REPLACEMENTS: tuple[tuple[re.Pattern[str], str], ...] = (
    (re.compile(r"\b[LG]\[(['\"])([A-Za-z_]\w*)\1\]"), r"\2"),
    (re.compile(r"\benviron\._data\[b(['\"])(.+?)\1\]"), r"environ[\1\2\1]"),
    (re.compile(r"\benviron\._data\b"), "environ"),
    (re.compile(r"\.(size|stride)\(\)\[(\d+)\]"), r".\1(\2)"),
    (re.compile(r"\b__builtins_dict___\d+\[(['\"])(\w+)\1\]"), r"\2"),
    (re.compile(r"\blist\(dict\.keys\(([^()]*)\)\)"), r"list(\1)"),
    (re.compile(r"\bdict\.(?:__getitem__|get)\((\w[\w.\[\]'\"]*), ((?:[^()]|\([^()]*\))+?)\)"), r"\1[\2]"),
    (re.compile(r"\b(?:list|tuple)\.__getitem__\((\w[\w.\[\]'\"]*), (\d+)\)"), r"\1[\2]"),
    (re.compile(r"\b___as_tensor\(([^()]*)\)\.item\(\)"), r"\1"),
    (re.compile(r"\b___(?:from_numpy|as_tensor|dict_getitem|normalize_\w+_iter)\(([^()]*)\)"), r"\1"),
    (re.compile(r"\b___(?:odict|tuple_iterator)_getitem\((\w[\w.\[\]'\"]*), (.+?)\)"), r"\1[\2]"),
    (re.compile(r"\.__dict__\[(['\"])([A-Za-z_]\w*)\1\]"), r".\2"),
    (re.compile(r"\.(?:_modules|_parameters|_buffers)\[(['\"])([A-Za-z_]\w*)\1\]"), r".\2"),
    (re.compile(r"\.(?:_modules|_parameters|_buffers)\[(['\"])(\d+)\1\]"), r"[\2]"),
    (re.compile(r"\btorch\.sym_(float|int|max|min|sum)\("), r"\1("),
    (re.compile(r"\b___tuple_iterator_len\(([^()]*)\)"), r"the number of items left in \1"),
    (re.compile(r"\b___key_to_id\(([^()]*)\)"), r"the keys of \1"),
    (re.compile(r"\b___(?:dataclass|namedtuple)_fields\(([^()]*)\)"), r"the fields of \1"),
    (re.compile(r"\.__code__$"), ""),
    (re.compile(r"\b___get_torch_function_mode_stack_at\((\d+)\)"), r"torch function mode \1"),
    (
        re.compile(
            r"\b(?:dict\()?type\(([^()]*)\)(?:\.__mro__\[\d+\])?(?:\.__dict__\)?\[(['\"])(\w+)\2\]|\.(?!__)(\w+))"
        ),
        r"\1.\3\4",
    ),
    (re.compile(r"\b__import_(\w+)"), "@import@"),
    (re.compile(r"\blen\(([^()]+)\._(forward|backward)_hooks\)"), r"the number of \2 hooks of \1"),
    (re.compile(r"\blen\(([^()]+)\._(forward|backward)_pre_hooks\)"), r"the number of \2 pre-hooks of \1"),
)
_HELD = re.compile(
    r"\.(?:__closure__\[(?P<index>\d+)\]\.cell_contents|__(?:kw)?defaults__\[(?P<key>[^\]]+)\])"
)
_OPENING = {")": "(", "]": "["}


@dataclass(frozen=True)
class Reason:
    """One link of a chain of graph breaks. `gb_id` is that of its link to the registry's page, None without one."""

    title: str
    explanation: str = ""
    hints: tuple[str, ...] = ()
    context: str = ""
    gb_id: str | None = None


def read_reasons(message: str) -> tuple[Reason, ...]:
    """The chain in a message: the cause first, then what handling it ran into."""
    if len(message) > _LONGEST:
        message = f"{message[: _LONGEST // 2]}...{message[-_LONGEST // 2 :]}"
    message = _VERBOSE.sub("", _USER_CODE.sub("", message))
    return tuple(_read_reason(part) for part in CHAIN.split(message))


def _read_reason(text: str) -> Reason:
    link = _LINK.search(text)
    text = _LINK.sub("", text).strip("\n")
    pieces = _SECTION.split(text)
    title = pieces[0].strip()
    explanation, context = "", ""
    hints: list[str] = []
    for name, body in zip(pieces[1::2], pieces[2::2], strict=True):
        plain = _dedent(body)
        if name == "Explanation":
            explanation = plain
        elif name == "Hint":
            hints.append(plain)
        elif name == "Developer debug context":
            context = plain
        else:
            title = f"{title} ({plain})"
    return Reason(
        title, explanation, tuple(hints), context, None if link is None else f"GB{int(link[1]):04d}"
    )


def _dedent(body: str) -> str:
    first, _, rest = body.strip().partition("\n")
    return f"{first}\n{textwrap.dedent(rest)}".strip() if rest else first


@functools.lru_cache(maxsize=16384)
def is_default(source: str) -> bool:
    """Whether a source of torch is the default of a parameter: `L['f'].__defaults__[0]`."""
    return "defaults__[" in source


def in_user_words(source: str) -> str:
    """A source, or an expression over sources, as the user would write it."""
    text = source
    if "[" not in text and "(" not in text:
        return text
    for pattern, replacement in _REPLACEMENTS:
        if replacement == "@import@":
            text = pattern.sub(lambda match: match[1].replace("_dot_", "."), text)
        else:
            text = pattern.sub(replacement, text)
    return _held_values(text)


def membership(text: str) -> tuple[str, str, bool] | None:
    """Key, container and whether the key was absent, of a guard on what a dict or a set contains; None for another.

    A key may be the `repr` of any object, with commas and brackets of its own.
    """
    match = _MEMBER.match(text)
    if match is None:
        return None
    arguments, is_set = match["arguments"], bool(match["set"])
    commas = (comma.start() for comma in re.finditer(", ", arguments))
    pairs = [(arguments[:comma], arguments[comma + 2 :]) for comma in commas]
    ordered = [(last, first) if is_set else (first, last) for first, last in pairs]
    known = [(key, source) for key, source in ordered if _is_expression(source)]
    if not known:
        return None
    key, source = next(((key, source) for key, source in known if _is_expression(key)), known[0])
    return key, in_user_words(source), bool(match["absent"])


_MEMBER = re.compile(
    r"(?P<absent>not )?(?:___dict_contains|(?P<set>(?:frozen)?set\.__contains__))\((?P<arguments>.*)\)$",
    re.DOTALL,
)


@functools.lru_cache(maxsize=16384)
def split_guard(text: str) -> tuple[str, str]:
    """The expression of a guard and the comment that torch writes after it. A `#` in a string is no comment."""
    comment = _COMMENT.search(text)
    if comment is not None:
        with contextlib.suppress(
            tokenize.TokenError, SyntaxError
        ):  # a key that Python cannot read: `<It's 5>`
            comment = _COMMENT.search(text, _comment_start(text))
    return (text.strip(), "") if comment is None else (text[: comment.start()].strip(), comment[0].strip())


def _comment_start(text: str) -> int:
    """Where the whitespace before the first `#` outside strings starts; the end of the text if there is none."""
    lines = _QUOTED.sub(r" \1 ", text).splitlines(keepends=True)
    tokens = tokenize.generate_tokens(iter(lines).__next__)
    row, column = next(
        (token.start for token in tokens if token.type == tokenize.COMMENT), (len(lines) + 1, 0)
    )
    before = "".join(lines[: row - 1]) + "".join(lines[row - 1 : row])[:column]
    return len(before.rstrip()) if row <= len(lines) else len(text)


_COMMENT = re.compile(r"\s+#\s.*$", re.DOTALL)
_QUOTED = re.compile(r"'([LG]\[.+?\][\w.]*)'(?= )")
"""A source that torch quotes without escaping its quotation marks: `tensor 'L['x']' rank mismatch`."""


def _is_expression(text: str) -> bool:
    try:
        call = parse_python(f"f({text})", "eval").body
    except SyntaxError:
        return False
    return isinstance(call, ast.Call) and (len(call.args), len(call.keywords)) == (1, 0)


def _held_values(text: str) -> str:
    """`f.__closure__[0].cell_contents` as `closure variable 0 of f`, and `f.__defaults__[1]` as `default 1 of f`.

    In parentheses before an element or attribute.
    """
    while (match := _HELD.search(text)) is not None:
        start = source_before(text, match.start())
        owner, rest = text[start : match.start()], text[match.end() :]
        what = f"default {match['key']}" if match["key"] else f"closure variable {match['index']}"
        words = f"{what} of {owner}"
        text = f"{text[:start]}{f'({words})' if rest.startswith(('[', '.')) else words}{rest}"
    return text


def source_before(text: str, end: int) -> int:
    """Where the source starts that ends at `end`: `hooks[list(hooks)[0]]` as a whole."""
    waiting: list[str] = []
    position = end
    while position > 0:
        character = text[position - 1]
        if character in _OPENING:
            waiting.append(_OPENING[character])
        elif waiting and character == waiting[-1]:
            waiting.pop()
        elif not waiting and not (character.isalnum() or character in "_."):
            break
        position -= 1
    return position


def source_after(text: str, start: int) -> int:
    """Where the source ends that starts at `start`."""
    depth, position = 0, start
    while position < len(text):
        character = text[position]
        if character in _OPENING.values():
            depth += 1
        elif character in _OPENING:
            if depth == 0:
                break
            depth -= 1
        elif depth == 0 and not (character.isalnum() or character in "_."):
            break
        position += 1
    return position


def without_internal_names(difference: str, source: str = "") -> str:
    """What differs by a guard; another text for one that names what only torch knows, as `___check_metadata_1_c0`.

    `___stack0` is a value of the program that crosses a graph break: its finding names the line that made it.
    """
    if _METADATA.match(difference):
        return f"the metadata that {source or 'a tensor'}.__tensor_flatten__() returns changed"
    return (
        f"what torch checks of {source or 'the call'} changed" if _INTERNAL.search(difference) else difference
    )


_METADATA = re.compile(r"___check_metadata_")
_INTERNAL = re.compile(r"(?<!\w)(?:___(?!stack\d)\w|__\w+_\d{4,}|torch\._functorch\b)")


def is_global_state(source: str) -> bool:
    """Whether a guard's source names nothing of the user's: the whole frame, or nothing at all."""
    return source in {"", "L", "G"}
