"""The nearest right spelling of a part of a directive that cannot be read, or of a name that does not exist.

Invariant: a directive with the spellings that are offered can be read. Nothing is evaluated.
"""

from __future__ import annotations

import ast
import difflib
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from fuselight.shared.foreign_data import try_parse_expression
from fuselight.shared.inputs.dtypes import DTYPES, known_dtype

_LONGEST = 400
"""Characters of a directive for which spellings are tried: nobody writes a longer one by hand."""
_MAX_FAULTS = 3
_MAX_TRIED = 150
_COMMA = ", "
_PAIRS = {")": "(", "]": "[", "}": "{"}
_CLOSING = {opening: closing for closing, opening in _PAIRS.items()}
_NAME = r"[^\W\d]\w*(?:\.[^\W\d]\w*)*"
_SIZES = r"[^\[\](){}<>'\"]*"
_TENSOR = rf"(?<![\w.])(?:torch\.)?[^\W\d]\w*\s*\[{_SIZES}\]"
_SIZE = re.compile(r"\d+|[^\W\d][\w.]*(?:\([^()]*\))?|-\d+")
_SEPARATOR = re.compile(r"\s*[,;:×]\s*|(?<=\d)\s*[xX]\s*(?=\d)|\s+")
_DEVICE = r"(?:cpu|cuda|mps|xpu|meta)(?::\d+)?"

_CONSTANTS = {"true": "True", "false": "False", "none": "None", "null": "None", "nil": "None"}


@dataclass(frozen=True)
class Correction:
    """Another text for a part of a directive, from one character to another."""

    start: int
    end: int
    text: str
    reason: str
    """What is wrong with the part, as the begin of a message."""
    marked: tuple[int, int] | None = None
    """The characters that are wrong, if they are not the whole part."""

    @property
    def message(self) -> str:
        """What is wrong, and what is right."""
        if not self.text:
            return f"{self.reason}: leave it out"
        return self.reason if self.text == _COMMA else f"{self.reason}: write `{self.text}`"

    def applied(self, directive: str) -> str:
        """The directive with it."""
        return directive[: self.start] + self.text + directive[self.end :]


def correction(text: str, is_readable: Callable[[str], bool]) -> Correction | None:
    """The first correction with which a directive can be read, alone or with others after it."""
    return (
        _first_of(text, is_readable, iter(range(_MAX_TRIED)), _MAX_FAULTS) if len(text) <= _LONGEST else None
    )


def _first_of(
    text: str, is_readable: Callable[[str], bool], budget: Iterator[int], faults: int
) -> Correction | None:
    candidates = []
    for candidate, _ in zip(_candidates(text), budget, strict=False):
        if is_readable(candidate.applied(text)):
            return candidate
        candidates.append(candidate)
    return next(
        (
            candidate
            for candidate in (candidates if faults > 1 else ())
            if _first_of(candidate.applied(text), is_readable, budget, faults - 1) is not None
        ),
        None,
    )


def _candidates(text: str) -> Iterator[Correction]:
    """What a person may have meant, the most special first."""
    yield from _shapes(text)
    yield from _bounds(text)
    yield from _around(text)
    yield from _arguments(text)
    yield from _brackets(text)
    yield from _commas(text)


def _shapes(text: str) -> Iterator[Correction]:
    """`f32[2 3]`, `f32[2x3]`, `f32[[2, 3]]`, `f32<2, 3>`, `f32{2, 3}`, `f32[batch=2]`."""
    for match in re.finditer(
        rf"(?<![\w.])(?P<dtype>[^\W\d]\w*)\s*(?:\[\s*[\[(]?|<|\{{)(?P<sizes>{_SIZES})(?:[\])]?\s*\]|>|\}})",
        text,
    ):
        if known_dtype(match["dtype"]) is None or re.search(r"[:;×]\s*$|[,;][^,;]*:", match["sizes"]):
            continue
        sizes = [re.sub(r"^\w+\s*=\s*", "", part) for part in _parts(match["sizes"])]
        tensor = f"{known_dtype(match['dtype'])}[{', '.join(sizes)}]"
        if all(map(_SIZE.fullmatch, sizes)) and tensor.replace(" ", "") != match[0].replace(" ", ""):
            yield Correction(*match.span(), tensor, f"`{match[0]}` is not a tensor")


def _parts(sizes: str) -> list[str]:
    named = re.sub(r"\s*=\s*", "=", sizes.strip())
    return [part for part in _SEPARATOR.split(named) if part]


def _bounds(text: str) -> Iterator[Correction]:
    """`i64[8] < 32`, `i64[8]:32`, `i64[8] in 32`, `i64[8] 32`, `i64[8]{32}`, `i64[8; 0:32]`."""
    inside = r"(?<![\w.])([^\W\d]\w*)\[([^\[\]]*?)\s*[;,]\s*(\d*)\s*:\s*(\d+)\s*\]"
    for match in re.finditer(inside, text):
        dtype, low = known_dtype(match[1]), int(match[3] or 0)
        if dtype is not None and dtype.lstrip("b")[0] in "iuf" and low < int(match[4]):
            integers = f" % {int(match[4]) - low}{f' + {low}' if low else ''}"
            bounds = integers if dtype[0] in "iu" else f".uniform_({low}, {match[4]})"
            yield Correction(
                *match.span(), f"{dtype}[{match[2]}]{bounds}", f"`{match[0]}` does not bound values"
            )
    mark = r"(?P<mark><=|<|:|\bin\b(?:\s*range)?|\bmax\b|\bbelow\b|\bmod\b|)"
    bound = rf"{mark}\s*[({{]?\s*(?P<most>\d+|[^\W\d][\w.]*)\s*[)}}]?"
    for match in re.finditer(rf"(?P<tensor>{_TENSOR})\s*{bound}(?!\w|\s*[=\[(.])", text):
        dtype = known_dtype(match["tensor"].split("[")[0].strip().removeprefix("torch."))
        if dtype is None or dtype[0] not in "iu" or (not match["mark"] and not match["most"].isdigit()):
            continue
        most = match["most"]
        if match["mark"] == "<=":
            most = str(int(most) + 1) if most.isdigit() else f"({most} + 1)"
        end = match.end() - (match[0].endswith(")") and "(" not in match[0].split("]")[-1])
        tensor = f"{dtype}[{match['tensor'].split('[', 1)[1]}"
        yield Correction(
            match.start(), end, f"{tensor} % {most}", f"`{text[match.start() : end]}` does not bound integers"
        )


def _around(text: str) -> Iterator[Correction]:
    """What stands outside of the call: `x = f(...)`, `f: f32[2]`, `f f32[2]`, `f(...) train=True`, `f(...) cuda`."""
    size = len(text)
    whole = re.match(rf"(?P<name>{_NAME})\s*=\s*(?P<call>{_NAME}\s*\(.*)$", text)
    if whole:
        yield Correction(0, size, whole["call"], "a directive is a call without an assignment")
    whole = re.match(rf"(?P<call>.*\))\s*,?\s*(?:on\s+)?(?P<device>{_DEVICE})\s*$", text)
    if whole:
        yield _moved_in(text, whole["call"], f'device="{whole["device"]}"', whole["device"])
    whole = re.match(r"(?P<call>.*\))\s*,?\s*(?P<option>\w+\s*=\s*\S+)\s*$", text)
    if whole:
        yield _moved_in(text, whole["call"], whole["option"], whole["option"])
    whole = re.match(rf"(?P<name>{_NAME}(?:\([^()]*\))?)\s*(?P<mark>:|\[|\s)\s*(?P<inputs>.+)$", text)
    if whole and known_dtype(whole["name"]) is None:
        inputs = whole["inputs"].removesuffix("]") if whole["mark"] == "[" else whole["inputs"]
        yield Correction(0, size, f"{whole['name']}({inputs})", "a directive is a call")


def _moved_in(text: str, call: str, option: str, shown: str) -> Correction:
    inner = call[:-1].rstrip()
    joined = f"{inner}{'' if inner.endswith('(') else ', '}{option})"
    return Correction(0, len(text), joined, f"`{shown}` stands after the call")


def _arguments(text: str) -> Iterator[Correction]:
    """`f(x: f32[2])`, `f(x f32[2])`, `f(f32[2] = x)`, `f(a; b)`, `f(f32[2] requires_grad)`."""
    for match in re.finditer(rf"(?<=[(,])\s*(?P<name>[^\W\d]\w*)\s*:\s*(?P<tensor>{_TENSOR})", text):
        named = f"{match['name']}={match['tensor']}"
        yield _inner(match, named, f"`{match[0].strip()}` is not an argument")
    for match in re.finditer(rf"(?<=[(,])\s*(?P<name>[^\W\d]\w*)\s+(?P<tensor>{_TENSOR})", text):
        named = f"{match['name']}={match['tensor']}"
        yield _inner(match, named, f"`{match[0].strip()}` is not an argument")
    for match in re.finditer(rf"(?P<tensor>{_TENSOR})\s*=\s*(?P<name>[^\W\d]\w*)", text):
        yield _inner(match, f"{match['name']}={match['tensor']}", f"`{match[0]}` is not an argument")
    for match in re.finditer(rf"(?P<tensor>{_TENSOR})\s*,?\s+requires_grad(?:\s*=\s*True)?\b", text):
        yield _inner(match, f"{match['tensor']}, no_grad=False", "`requires_grad` is not part of a tensor")
    for match in re.finditer(";", text):
        yield _inner(match, ",", "`;` does not separate arguments")


def _inner(match: re.Match[str], text: str, reason: str) -> Correction:
    start = match.end() - len(match[0].lstrip())
    return Correction(start, match.end(), text, reason)


def _brackets(text: str) -> Iterator[Correction]:
    """A bracket that is missing, or one too many."""
    open_at: list[int] = []
    for at, character in _code(text):
        if character in _CLOSING:
            open_at.append(at)
        elif character in _PAIRS:
            if open_at and text[open_at[-1]] == _PAIRS[character]:
                open_at.pop()
                continue
            if any(text[index] == _PAIRS[character] for index in open_at):
                missing = _CLOSING[text[open_at[-1]]]
                yield Correction(
                    at,
                    at + 1,
                    missing + character,
                    f"`{text[open_at[-1]]}` is not closed before `{character}`",
                )
                yield Correction(at, at + 1, missing, f"`{character}` does not close `{text[open_at[-1]]}`")
            else:
                yield Correction(at, at + 1, "", f"`{character}` closes nothing")
            return
    if open_at:
        missing = "".join(_CLOSING[text[at]] for at in reversed(open_at))
        last = open_at[-1]
        name = re.search(rf"{_NAME}?\s*$", text[:last])
        start = name.start() if name else last
        spelled = text[start:].rstrip() + missing[:1]
        reason = f"`{text[last]}` is never closed"
        yield Correction(start, len(text), spelled + missing[1:], reason, (last, last + 1))


def _code(text: str) -> Iterator[tuple[int, str]]:
    """The characters outside of strings and comments."""
    for match in re.finditer(r"'[^']*'|\"[^\"]*\"|#.*|.", text):
        if len(match[0]) == 1:
            yield match.start(), match[0]


def _commas(text: str) -> Iterator[Correction]:
    """`f(f32[2] f32[3])`, `f(f32[2] train=True)`."""
    for match in re.finditer(r"(?<=[\])\w'\"])\s+(?=[\w'\"\[{(])", text):
        before = re.split(r"[(,]", text[: match.start()])[-1].strip()
        after = re.split(r"[,)]", text[match.end() :])[0].strip()
        yield Correction(*match.span(), _COMMA, f"a comma is missing between `{before}` and `{after}`")


def nearest(name: str, names: Iterable[str]) -> str | None:
    """What a name that does not exist may mean: a constant, a dtype, or a known name."""
    if name in _CONSTANTS:
        return _CONSTANTS[name]
    return known_dtype(name) or nearest_name(name, names) or nearest_dtype(name)


def nearest_dtype(name: str) -> str | None:
    """The dtype that `f31` or `g32` means."""
    sized = re.fullmatch(r"([a-z]+)(\d+)", name)
    if sized is None:
        return known_dtype(name)
    like = [key for key in DTYPES if re.fullmatch(rf"{sized[1]}\d+", key)]
    if like:
        return min(like, key=lambda key: abs(int(key.removeprefix(sized[1])) - int(sized[2])))
    close = difflib.get_close_matches(name, DTYPES, len(DTYPES), 0.6)
    return known_dtype(name) or next((dtype for dtype in close if dtype[0] == "f"), next(iter(close), None))


def nearest_name(name: str, names: Iterable[str]) -> str | None:
    """The known name that a wrong one may mean."""
    public = [known for known in names if not known.startswith("_")]
    by_case = next((known for known in public if known.lower() == name.lower()), None)
    return by_case or next(iter(difflib.get_close_matches(name, public, 1, 0.7)), None)


def tensor_lookalikes(text: str) -> Iterator[tuple[str, str]]:
    """Arguments of a directive that may be meant as a tensor, and the tensor: `[2, 3]`, `"f32[2, 3]"`."""
    tree = try_parse_expression(text)
    if tree is None:
        return
    for node in (
        [*tree.args, *(keyword.value for keyword in tree.keywords)] if isinstance(tree, ast.Call) else ()
    ):
        shown = ast.unparse(node)
        if isinstance(node, (ast.List, ast.Tuple)):
            sizes = [item.value for item in node.elts if isinstance(item, ast.Constant)]
            if sizes and len(sizes) == len(node.elts) and all(type(size) is int for size in sizes):
                yield shown, f"f32[{', '.join(map(str, sizes))}]"
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            tensor = re.fullmatch(rf"\s*(\w*)\[({_SIZES})\]\s*", node.value)
            if tensor and (known_dtype(tensor[1]) or not tensor[1]):
                yield shown, f"{known_dtype(tensor[1]) or 'f32'}[{', '.join(_parts(tensor[2]))}]"
