"""What torch says of this break alone, in the names of the program: which argument, object, attribute or exception.

Invariant: a name of torch's tracer is never shown; a context that has others than those below is left out.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from fuselight.shared.foreign_data import try_parse_python
from fuselight.shared.report import Break, Location
from fuselight_server.explain.findings.common.context import Context
from fuselight_server.explain.findings.common.source_tree import tree_around
from fuselight_server.explain.findings.common.text import plain, quoted, shortened

_LAZY = re.compile(r"LazyVariableTracker\((?:un)?realized: ((?:[^()]|\([^()]*\))*)\)")
_CONSTANT = re.compile(r"ConstantVariable\(\w+: ((?:[^()]|\([^()]*\))*?)\)")
_VARIABLE = re.compile(r"\b(\w+?)Variable\(([^()]*)\)")
_KINDS = {
    "Tensor": "a tensor",
    "List": "a list",
    "Tuple": "a tuple",
    "ConstDict": "a dict",
    "DefaultDict": "a dict",
    "Set": "a set",
    "Deque": "a deque",
    "Cell": "a variable of the enclosing function",
    "SymNode": "a number that varies",
    "UserFunction": "a function",
    "NestedUserFunction": "a function",
    "UserMethod": "a method",
    "NumpyNdarray": "a NumPy array",
    "Slice": "a slice",
    "Range": "a range",
}
"""What the tracer's variables stand for."""
_OBJECTS = re.compile(r"(?:UserDefined\w*|\w*NNModule|\w*Object|Mutable\w*)")
_CLASS = re.compile(r"<class '([\w.]+)'>")
_PLACEHOLDER = re.compile(r"\bl_(?:self_modules_)?([a-z]\w*?)_\b")
_GRAPH = re.compile(r"\s+in\s+graph\(\):.*", re.DOTALL)
_OF_TRACER = re.compile(
    r"Variable|\bcall_\w+|\bvar_getattr\b|\bas_proxy\b|0x[0-9a-f]+|graph\(\)|<bound |<function |\bmp_\w+_impl\b"
    r"|\brichcompare|\bsetattr\("
    r"|\bbuiltin \w+ \[|\bsource\b|\bpushed\b|\bVariableTracker\b|TreeSpec|\bargs=|\bself\.value\b"
)
_SPECIFIC = re.compile(r"[`'\"\d]")
"""What a text has that names something of the program."""
_ALWAYS_SHOWN = re.compile(r"raised exception |TypeError ")
_RAISED = re.compile(r"^raised exception ([\w.]+)\((.*)\)$", re.DOTALL)


def in_words(context: str) -> str:
    """Torch's context for developers in words; empty if it has names of the tracer that have no words here."""
    text = _GRAPH.sub("", context)
    before = ""
    while text != before:
        before = text
        text = _LAZY.sub(r"\1", text)
        text = _CONSTANT.sub(r"`\1`", text)
        text = _VARIABLE.sub(_in_words, text)
    text = _CLASS.sub(lambda match: f"`{match[1].rpartition('.')[2]}`", text)
    text = _PLACEHOLDER.sub(r"\1", text)
    raised = _RAISED.match(text.strip())
    if raised is not None:
        text = (
            f"the exception is {raised[1]}: {_unquoted(raised[2])}"
            if raised[2]
            else f"the exception is {raised[1]}"
        )
    return "" if _OF_TRACER.search(text) else shortened(plain(text)).rstrip(".")


def _in_words(match: re.Match[str]) -> str:
    kind, inside = match[1], match[2].strip()
    if kind in _KINDS:
        return _KINDS[kind]
    if _OBJECTS.fullmatch(kind) and inside:
        name = _CLASS.sub(r"\1", inside)
        return f"a `{name.rpartition('.')[2]}` object"
    return match[0]


def _unquoted(text: str) -> str:
    try:
        value = ast.literal_eval(text)
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return text
    return value if isinstance(value, str) else text


_CALLED_FOR_BREAK = "Called `torch._dynamo."
"""How torch describes a call that asks for a graph break: its arguments are in the explanation."""


def details(explanation: str, context: str) -> str:
    """What the context adds to an explanation that names nothing of the program; empty if it adds nothing."""
    if (
        not context
        or context.startswith(_CALLED_FOR_BREAK)
        or (_SPECIFIC.search(explanation) and not _ALWAYS_SHOWN.match(context))
    ):
        return ""
    words = in_words(context)
    return f"torch.compile reports: {words}" if words else ""


_SYMBOLIC = re.compile(r"argument '(\w+)'[^:]{0,40} must be bool, not SymBool")


def symbolic_bool(context: Context, graph_break: Break) -> tuple[str, str, tuple[str, ...]] | None:
    """Title, text and steps of an operator that gets a comparison of a size that varies; None for other breaks."""
    match = _SYMBOLIC.search(f"{graph_break.explanation} {graph_break.context}")
    if match is None or not graph_break.stack:
        return None
    name = match[1]
    written = _keyword(context, graph_break.stack[-1], name)
    value = written if written and len(written) <= _MAX_WRITTEN and "`" not in written else "condition"
    step = (
        f"Write `True if {value} else False` for {quoted(name)}: torch then decides while it compiles, once for each "
        "outcome. bool() keeps it dynamic"
    )
    return (
        f"`{name}` depends on a size or a number that varies",
        f"The operator takes True or False, and torch keeps `{value}` dynamic once its numbers have varied.",
        (step,),
    )


_MAX_WRITTEN = 60


def _keyword(context: Context, at: Location, name: str) -> str:
    """What a call on a line passes for a keyword, as written; empty if no call there does."""
    tree = tree_around(context, at)
    values = (
        ast.unparse(keyword.value)
        for node in ast.walk(tree or ast.Module([], []))
        if isinstance(node, ast.Call) and node.lineno <= at.line <= (node.end_lineno or node.lineno)
        for keyword in node.keywords
        if keyword.arg == name
    )
    return next(values, "")


_ARGUMENTS = re.compile(r"^call_function args: (.*)$", re.DOTALL)
_FITS = re.compile(r"^(?:a tensor|a number that varies|`.*`|a list|a tuple|a dict|a slice|a NumPy array)$")


_NAMED = re.compile(r"^a (?:`.*` object|function|method|set|deque)$")


def refused_argument(context: Context, broke: Location, torch_context: str) -> str:
    """The argument of a call that cannot be in a graph, as written, and what it is; empty if unknown."""
    match = _ARGUMENTS.match(torch_context)
    if match is None:
        return ""
    passed = list(_arguments(match[1]))
    refused = [(number, words) for number, words in enumerate(passed) if not _FITS.match(words)]
    if not refused:
        return ""
    number, words = refused[0]
    if not _NAMED.match(words):
        return ""
    written = _written_arguments(context, broke)
    # A method has the object that it is called on before what is written.
    index = number - (len(passed) - len(written))
    return f"`{written[index]}` ({words})" if written and 0 <= index < len(written) else words


def _arguments(text: str) -> Iterator[str]:
    """The arguments that torch lists, separated by blanks outside of parentheses, in words."""
    depth, start = 0, 0
    for position, character in enumerate(f"{text} "):
        depth += (character in "([{") - (character in ")]}")
        if character == " " and depth == 0:
            if text[start:position].strip():
                part = text[start:position].strip()
                yield in_words(part) or part
            start = position + 1


def _written_arguments(context: Context, broke: Location) -> list[str]:
    """The arguments of the only call at a place, as they are written."""
    text = context.read_line(broke.path, broke.line) or ""
    if (
        broke.column is not None
        and broke.end_column is not None
        and (broke.end_line or broke.line) == broke.line
    ):
        text = text.encode()[broke.column : broke.end_column].decode("utf-8", "replace")
    tree = try_parse_python(text.strip().removeprefix("return "))
    if tree is None:
        return []
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call)]
    if len(calls) != 1 and not (tree.body and isinstance(getattr(tree.body[0], "value", None), ast.Call)):
        return []
    call = calls[0]
    return [ast.unparse(node) for node in (*call.args, *(keyword.value for keyword in call.keywords))]
