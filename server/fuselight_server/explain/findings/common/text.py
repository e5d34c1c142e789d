"""Text helpers of all families: paragraphs, counts, places and torch's own texts.

Invariant: nothing here decides anything; each function turns data into text.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable
from pathlib import PurePath

from fuselight.shared.notebooks.cells import SUFFIX
from fuselight.shared.report import GuardFailure, Inputs, Location, Rung
from fuselight_server.base.formatting import cut_list, format_list

_RESUME = re.compile(r"(?:torch_dynamo_resume_in_)+(.+?)(?:_at_\d+)+")
_OBJECT = re.compile(
    r"<(?:built-in |cy)?(?:function|method|bound method|class) '?([\w.<>]+?)'?"
    r"(?: (?:at|of) [^<>]*(?:<[^<>]*>)?[^<>]*)?>"
)
_ADDRESS = re.compile(r" (?:object )?at 0x[0-9a-fA-F]+\b")
_PYBIND = re.compile(r"\bpybind11_detail_function_record_\w+\.")
"""The class that pybind11 gives to each function that it binds, with the compiler's ABI in its name."""
_STOP_IN_NAME = re.compile(r"(`[\w.<> ]+)\.`")
_DISTRIBUTED = "torch._C._distributed_c10d."
"""Where the functions of torch.distributed that are written in C++ are."""
_PARAGRAPH = re.compile(r"\n\s*\n|\n(?=\s*# File )")
_SENTENCE_END = re.compile(r"(?<!\be\.g)(?<!\bi\.e)(?<!\betc)\.(?=[ \n])")
_BLANKS = re.compile(r"[ \t]*\n[ \t]*")
_LONG_FLOAT = re.compile(r"(?<![\w.])-?\d+\.\d+(?:e[-+]?\d+)?(?![\w.])")
_DIGITS = 6
_MAX_DIGITS = 17
_MAX_PARAGRAPHS = 3
_THREE_LINES = 300
"""Characters of three lines."""
_LONGEST_INPUTS = 160
_LONGEST_LABEL = 160
"""Most characters of a title: lists of findings, the status of a line and the report show it whole."""
_LONG_STRING = re.compile(
    r"(?<![\w'\"])(?P<mark>['\"])(?P<start>(?:(?!(?P=mark)).){30})(?:(?!(?P=mark)).){11,}(?P=mark)(?!\w)"
)


def without_resume_names(text: str) -> str:
    """`text` with the functions that torch makes after graph breaks named as the functions that they resume."""
    return _RESUME.sub(r"\1", text)


def plain(text: str) -> str:
    """Torch's text on one line, with functions by the names that a user can write."""
    text = _ADDRESS.sub("", _OBJECT.sub(r"\1", without_resume_names(text)))
    text = _STOP_IN_NAME.sub(r"\1`.", _PYBIND.sub("", text)).replace(_DISTRIBUTED, "torch.distributed.")
    return _BLANKS.sub(" ", text.replace("<unknown module>.", "")).strip()


def excerpt(text: str) -> str:
    """Torch's own text without its excerpts of the traced code, at most three lines of it."""
    parts = [part for part in map(plain, _PARAGRAPH.split(text)) if part]
    kept = [
        part
        for part, after in itertools.zip_longest(parts, parts[1:], fillvalue="")
        if not part.startswith("# File") and not (part.endswith(":") and after.startswith("# File"))
    ]
    return shortened("\n\n".join(kept[:_MAX_PARAGRAPHS]))


def shortened(text: str) -> str:
    """A text of three lines at most: whole sentences, or one that is cut."""
    if len(text) <= _THREE_LINES:
        return text
    end = max((match.start() for match in _SENTENCE_END.finditer(text, 0, _THREE_LINES)), default=0)
    return text[: end + 1] if end > 0 else f"{text[: _THREE_LINES - 1].rstrip()}\N{HORIZONTAL ELLIPSIS}"


def is_for_developers(text: str) -> bool:
    """Whether a text of torch is about the code of torch itself, so that no user can follow it."""
    return _OF_TORCHS_CODE.search(text) is not None


def for_users(text: str) -> str:
    """A text of torch without the sentences for the developers of torch, each of them once."""
    return " ".join(part for part in dict.fromkeys(_SENTENCES.split(text)) if not is_for_developers(part))


_OF_TORCHS_CODE = re.compile(
    r"VariableTracker|\b[a-z]\w*_impl\b|\bas_proxy\b|source\.reconstruct|sub-generator code|abstract method must be"
    r"|Dynamo must manually|rules for this code"
)
_SENTENCES = re.compile(r"(?<=[.!?])\s+(?=[A-Z'`])")


def label(title: str) -> str:
    """A title that fits into one line of a list: strings are cut first, as a prompt that changed, then its end."""
    if len(title) <= _LONGEST_LABEL:
        return title
    cut = with_short_strings(title)
    if len(cut) <= _LONGEST_LABEL:
        return cut
    cut = f"{cut[: _LONGEST_LABEL - 2].rstrip()}\N{HORIZONTAL ELLIPSIS}"
    return f"{cut}`" if cut.count("`") % 2 else cut


def with_short_strings(text: str) -> str:
    """`text` with each string in quotes that is longer than 40 characters cut to its first 30."""
    return _LONG_STRING.sub("\\g<mark>\\g<start>\N{HORIZONTAL ELLIPSIS}\\g<mark>", text)


def rounded(failure: GuardFailure) -> str:
    """The difference with its floats at six significant digits, or as many as show that the values differ."""
    both = (failure.was, failure.now)
    is_same = failure.was == failure.now
    enough = (
        number for number in range(_DIGITS, _MAX_DIGITS) if len({_short(item, number) for item in both}) > 1
    )
    digits = _DIGITS if is_same else next(enough, _MAX_DIGITS)
    return _short(failure.difference, digits + 2 if digits > _DIGITS else digits) or ""


def _short(text: str | None, digits: int) -> str | None:
    """The text with its floats at a number of significant digits."""

    def short_float(match: re.Match[str]) -> str:
        if sum(character.isdecimal() for character in match[0].partition("e")[0]) <= digits:
            return match[0]
        short = f"{float(match[0]):.{digits}g}"
        return short if "." in short or "e" in short else f"{short}.0"

    return text and _LONG_FLOAT.sub(short_float, text)


def sentence(text: str) -> str:
    """`text` with a full stop, a capital letter first where it starts with a plain lower-case word."""
    text = text.strip()
    if not text:
        return text
    if text[0].islower() and re.match(r"[a-z]+([ ,]|'s\b)", text):
        text = text[0].upper() + text[1:]
    return text if text[-1] in ".!?:`)" and text[-1] not in "`)" else text + "."


def quoted(name: str) -> str:
    """Code in backquotes; words that hold some already, as they are."""
    return name if "`" in name or " " in name else f"`{name}`"


def place(location: Location) -> str:
    """`model.py:88`."""
    return f"{PurePath(location.path).name}:{location.line}"


def compose(*paragraphs: str, cost: Iterable[str] = (), hints: Iterable[str] = ()) -> str:
    """A message: what happened, what it costs, what to do. Empty parts are left out."""
    parts = [paragraph for paragraph in paragraphs if paragraph]
    cost = list(cost)
    if cost:
        parts.append("Cost: " + "; ".join(cost) + ".")
    hints = list(hints)
    if len(hints) == 1:
        parts.append("What to do: " + sentence(hints[0]))
    elif hints:
        parts.append("What to do:\n" + "\n".join(f"- {sentence(hint)}" for hint in hints))
    return "\n\n".join(parts)


def inputs_line(inputs: Inputs | None, call: int | None = None) -> str:
    """The rung and the call: `directive on line 12: Net()(f32[4, 8])`. Empty where there are no inputs."""
    if inputs is None:
        return ""
    chosen = next(
        (other_call for other_call in inputs.calls if other_call.index == call),
        inputs.calls[0] if inputs.calls else None,
    )
    line = chosen.location.line if chosen and chosen.location else inputs.line
    rung = _rung(inputs, line)
    if chosen is None or not chosen.text:
        return rung
    text = chosen.text if len(chosen.text) <= _LONGEST_INPUTS else chosen.text[: _LONGEST_INPUTS - 3] + "..."
    return f"{rung}: {text}"


def _rung(inputs: Inputs, line: int | None) -> str:
    words = {
        Rung.DIRECTIVE: "directive",
        Rung.PROVIDER: "provider function",
        Rung.DUMMY_INPUTS: "the model's dummy_inputs",
        Rung.ANNOTATIONS: "shape annotations",
        Rung.RECORDED: f"recorded by {'the kernel' if inputs.path.endswith(SUFFIX) else 'fuselight run'}",
        Rung.MAIN: "__main__ block",
        Rung.SCRIPT: "calls of the file itself",
        Rung.PROGRAM: "fuselight run",
        Rung.KERNEL: "calls of the notebook",
        Rung.TRACE: "trace of a job",
        Rung.CALLER: f"call in {PurePath(inputs.path).name}",
    }[inputs.rung]
    dated = {Rung.DIRECTIVE, Rung.PROVIDER, Rung.MAIN, Rung.ANNOTATIONS, Rung.CALLER}
    return f"{words} on line {line}" if line is not None and inputs.rung in dated else words


def next_words(breaks: Iterable[tuple[str, str, int]]) -> str:
    """`next: GB0059 on m.py:39`, of breaks by code, path and line; empty if there is none."""
    places = (f"{code or 'the break'} on {PurePath(path).name}:{line}" for code, path, line in breaks)
    shown = cut_list(dict.fromkeys(places), _MAX_NEXT)
    return f"next: {format_list(shown)}" if shown else ""


_MAX_NEXT = 2
"""Breaks that come next which are named."""
