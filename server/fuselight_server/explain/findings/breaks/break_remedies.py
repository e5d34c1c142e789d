"""The words of a graph break: title, explanation and what to do, by what broke, where, and what the source does there.

Invariant: advice names code that the user can change. torch's own hints are not given: nothing shows that they fit.
"""

from __future__ import annotations

import ast
import os
import re
from dataclasses import dataclass, replace

from fuselight.shared.report import Break, Failure, Location
from fuselight_server.explain.findings.advice.break_cures import BACKEND_SHAPE
from fuselight_server.explain.findings.breaks import selections
from fuselight_server.explain.findings.breaks.array_indices import array_words
from fuselight_server.explain.findings.breaks.branch_advice import (
    BRANCH_IDS,
    RANDOM_TEXT,
    RANDOM_TITLE,
    branch_advice,
    depends_on_random,
    tests_value,
)
from fuselight_server.explain.findings.breaks.break_texts import (
    MASK,
    first_step,
    has_words,
    pythons_function,
    title_of,
)
from fuselight_server.explain.findings.breaks.generators import generator_words
from fuselight_server.explain.findings.breaks.iterators import iterator_words
from fuselight_server.explain.findings.breaks.library_breaks import (
    instead_of_branch,
    library_break,
    outside_hints,
)
from fuselight_server.explain.findings.breaks.number_steps import (
    NUMBER_TEXT,
    indexed,
    number_step,
    with_tensor,
)
from fuselight_server.explain.findings.breaks.random_draws import random_words, without_counterpart
from fuselight_server.explain.findings.breaks.torch_causes import details, refused_argument, symbolic_bool
from fuselight_server.explain.findings.common.context import Context, is_machinery
from fuselight_server.explain.findings.common.function_roles import for_role
from fuselight_server.explain.findings.common.source_tree import tree_around
from fuselight_server.explain.findings.common.text import (
    excerpt,
    for_users,
    plain,
    sentence,
    shortened,
)


@dataclass(frozen=True)
class BreakWords:
    """What a finding says of a graph break."""

    title: str
    text: str = ""
    """In the place of torch's explanation; empty if that holds."""
    hints: tuple[str, ...] = ()
    is_information: bool = False


ASKED_FOR = frozenset({"GB0025", "GB4297", "GB4636"})
"""The user or a library wrote the break: shown with its cost, but not as a warning."""
_NUMBER_IDS = frozenset({"GB0033", "GB0124"})
"""Ids of a conversion to a Python number, which a branch on a number of NumPy is as well."""
_OPERATORS = "/torch/_higher_order_ops/"
_ANY_BREAK = "Move the line before or after the compiled code"
IN_LOOP = "graph break in loop"
"""The type that torch adds to a break inside of a loop."""
_LOOP_BREAK = "Move the line out of the loop"
_OUTSIDE_LOOP = "Or keep the whole loop outside the compiled code"
_BACKWARD = "GB0123"
_COMPILED_AUTOGRAD = "Compiled autograd is on: it captures the backward pass from this line on."
_BACKWARD_STEP = (
    "Expect it: the break is where compiled autograd starts. Called outside the compiled code, .backward() is not "
    "captured"
)
_READ = "_local_scalar_dense"
"""The operator that reads the value of a tensor, as tensors without dimensions do as an index."""
_INDEX_STEP = (
    "Index with a tensor of one dimension, which stays in the graph: `{of}[{index}.view(1)].squeeze(0)` has the same "
    "values"
)
_REGISTERED = re.compile(r"\.register_(?:post_accumulate_grad_|multi_grad_)?hook\(")
_HOOK_STEP = (
    "Let the hook only compute with tensors: torch traces it, and refuses a hook that changes a list or an attribute. "
    "What records values belongs in a hook of a parameter or an argument, registered outside the compiled code"
)
_RECURRENT_TEXT = "torch.compile does not trace RNN, GRU and LSTM unless a setting asks for it."
_ARGUMENT_TEXT = "An operator takes tensors, numbers, strings, dtypes, devices, and lists and dicts of these."
_ARGUMENT_STEP = "Pass what the operator needs of the object, as tensors or numbers"
_ADDRESS_STEP = "Call data_ptr() outside the compiled code, and pass the addresses in as a tensor"
_GENERATOR_STEPS = (
    "Draw the numbers with the generator outside the compiled code, and pass them in",
    "Or leave the generator out, and set the seed with torch.manual_seed outside: the numbers are then others",
)
_NEEDS_SHAPE = re.compile(r"failed with aten\.(?:nonzero|masked_select|_?unique\w*)\b")
_SHAPE_TEXT = (
    "An operator of this line, or its gradient, needs the positions that a mask selects, as `x[mask] = y` does where "
    "`y` has a gradient. How many there are is not known while the graph is compiled, so the graph is given up."
)
_SHAPE_STEP = "Keep the shape fixed: compute for every position, and select with torch.where(mask, x, y)"
_REFUSED_STEP = (
    "Move this line to a function under torch.compiler.disable, which then runs in eager mode, or compile with another "
    "backend"
)
_OF_NUMPY = re.compile(
    r"<Wrapped function <original (\w+)>>.*got (?=(?:\w+\(['\"](.*)['\"]\))?)(\w+)", re.DOTALL
)
"""How torch names a function of NumPy that it replaces, and the exception of the one that it has in its place."""
_GENERATOR = re.compile(r"\bGenerator\b")
_SHAPE_OF_INPUT = "inplace view on a graph input"
_SHAPE_OF_INPUT_TEXT = (
    "torch traces no change of an input's own shape: the caller's tensor would have it, too."
)
_REQUESTS = " requests a graph break"
_NEEDS_VALUE = "_local_scalar_dense"
_VALUE_TITLE = "the backend needs a number from the data of a tensor"
_VALUE_TEXT = (
    "An operator of this line reads the value of a tensor without dimensions, as `a[i]` does where `i` is such a "
    "tensor. The value is not known while the graph is compiled, so the graph is given up."
)
_VALUE_STEP = (
    "Index with a tensor of one dimension, as `a[i.reshape(1)].squeeze(0)`, or pass a Python number in: each number "
    "then may need its own compile"
)


def break_words(context: Context, graph_break: Break, broke: Location | None) -> BreakWords:
    """The words of a break that happened on the line `broke`."""
    gb_id = graph_break.ids[0] if graph_break.ids else None
    title = title_of(
        gb_id,
        graph_break.types[0] if graph_break.types else graph_break.reason,
        graph_break.explanation,
        graph_break.context,
    )
    if broke and gb_id == _BACKWARD and "compiled_autograd" in context.report.environment.config:
        return BreakWords(title, _COMPILED_AUTOGRAD, (_BACKWARD_STEP,), is_information=True)
    compiles = context.report.compiles
    has_graphs = not compiles or any(compiled.graph is not None for compiled in compiles)
    known = library_break(graph_break, broke, has_graphs=has_graphs)
    if known is not None:
        return BreakWords(known.title or title, known.text, known.hints, is_information=known.is_information)
    if broke is None:
        return _general(title, gb_id, graph_break)
    if not context.is_user_file(broke.path):
        hints = outside_hints(gb_id, broke, is_statement=_is_statement(context, graph_break))
        return BreakWords(title, hints=hints)
    words = _in_users_code(context, graph_break, broke, title)
    in_loop = (_OUTSIDE_LOOP,) if IN_LOOP in graph_break.types[1:] else ()
    words = replace(words, hints=for_role(context, broke, (*words.hints, *in_loop), graph_break.stack))
    is_in_hook = any(
        _REGISTERED.search(context.source(frame) or "")
        for frame in graph_break.stack[:-1]
        if context.is_user_file(frame.path)
    )
    return replace(words, hints=(_HOOK_STEP,)) if is_in_hook else words


_SUBSCRIPT = re.compile(r"[\w.]+\[[\w.:, -]+\]")
_INDEX_TITLE = "the index of a list or dict is a tensor, whose value is needed"
_CONVERSION = re.compile(r"(?<![\w.])(float|int|bool)\(")


def _with_conversion(context: Context, broke: Location, title: str) -> str:
    """The title with `float()` where the code has no `.item()`: torch names the method that float() calls."""
    line = context.read_line(broke.path, broke.line) or ""
    end = broke.end_column if broke.end_line in {None, broke.line} else None
    text = line.encode("utf-8", "surrogateescape")[broke.column or 0 : end].decode("utf-8", "replace")
    if ".item(" in text or not title.startswith("`.item()`"):
        return title
    if _SUBSCRIPT.fullmatch(text):
        return _INDEX_TITLE
    called = _CONVERSION.search(text)
    return title.replace(".item()", f"{called[1]}()", 1) if called is not None else title


def _is_statement(context: Context, graph_break: Break) -> bool:
    """Whether nothing uses the result of the user's call that led to the break."""
    call = context.innermost_user_frame(graph_break.stack, graph_break.above)
    tree = tree_around(context, call) if call is not None else None
    if call is None or tree is None:
        return False
    calls = (
        node.value
        for node in ast.walk(tree)
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call) and node.lineno == call.line
    )
    # A place after the name that is called is in an argument, whose value is used.
    return any(call.column is None or call.column < (item.func.end_col_offset or 0) for item in calls)


def _in_users_code(context: Context, graph_break: Break, broke: Location, title: str) -> BreakWords:
    gb_id = graph_break.ids[0] if graph_break.ids else None
    if gb_id in BRANCH_IDS:
        advice = branch_advice(context, broke, f"{graph_break.explanation} {graph_break.context}")
        return BreakWords(advice.title or title, advice.text, advice.hints)
    if gb_id in _NUMBER_IDS and depends_on_random(context, broke):
        return BreakWords(RANDOM_TITLE, RANDOM_TEXT, branch_advice(context, broke).hints)
    known = symbolic_bool(context, graph_break) or random_words(context, gb_id, graph_break, broke, title)
    known = (
        known or generator_words(context, graph_break, title) or iterator_words(context, graph_break, broke)
    )
    known = known or (_numpy_words(graph_break) if gb_id == "GB0087" else array_words(context, graph_break))
    special = BreakWords(*known) if known else _special(context, gb_id, graph_break, title)
    if special is not None:
        return special
    if _SHAPE_OF_INPUT in graph_break.explanation:
        title = f"{title.removesuffix(_REQUESTS)} changes the shape of an input in place"
        return BreakWords(title, _SHAPE_OF_INPUT_TEXT, first_step("GB0072"))
    words = _general(_with_conversion(context, broke, title), gb_id, graph_break)
    words = replace(words, text=words.text or without_counterpart(context, gb_id, broke))
    if _READ in graph_break.explanation and (place := indexed(context, broke)) is not None:
        of, index = place
        return replace(words, hints=(_INDEX_STEP.format(of=of, index=index),))
    if gb_id in selections.IDS:
        words = _selection_words(context, broke, words)
    return _number_words(context, graph_break, broke, words) if gb_id in _NUMBER_IDS else words


def _selection_words(context: Context, broke: Location, words: BreakWords) -> BreakWords:
    """The words of a result whose shape depends on data, by what the code selects and does with it."""
    title, step = selections.title_of_selection(context, broke), selections.count_step(context, broke)
    kept = (MASK, *words.hints[1:]) if title and not step else words.hints
    return replace(words, title=title or words.title, hints=(step,) if step else kept)


def _number_words(context: Context, graph_break: Break, broke: Location, words: BreakWords) -> BreakWords:
    """The words of a number that is read from a tensor, by what the code does with it."""
    is_read = _READ in graph_break.explanation or not graph_break.explanation.startswith("Operator ")
    step = number_step(context, graph_break, broke)
    hints = (step,) if step else _branch_hints(context, broke) or words.hints
    return replace(words, text=words.text or (NUMBER_TEXT if is_read else ""), hints=hints)


def _branch_hints(context: Context, broke: Location) -> tuple[str, ...]:
    """What to do about a number that a branch tests where it is read."""
    hints = branch_advice(context, broke).hints if tests_value(context, broke) else ()
    return with_tensor(context, broke, hints)


def _special(context: Context, gb_id: str | None, graph_break: Break, title: str) -> BreakWords | None:
    """The words of a break of which the text of torch tells more than its id."""
    if gb_id == "GB0219" and _NEEDS_VALUE in graph_break.explanation:
        return BreakWords(_VALUE_TITLE, _VALUE_TEXT, (_VALUE_STEP,))
    if gb_id == "GB0219" and _NEEDS_SHAPE.search(graph_break.explanation):
        return BreakWords(BACKEND_SHAPE, _SHAPE_TEXT, (_SHAPE_STEP,))
    if gb_id == "GB0219":
        return BreakWords(title, hints=(_REFUSED_STEP,))
    if gb_id == "GB0014":
        return BreakWords(title, _RECURRENT_TEXT, first_step(gb_id))
    if gb_id == "GB0055" and graph_break.stack:
        argument = refused_argument(context, graph_break.stack[-1], graph_break.context)
        named = f"{argument} cannot be part of a graph" if argument else title
        is_generator = _GENERATOR.search(f"{argument} {graph_break.explanation} {graph_break.context}")
        line = context.source(graph_break.stack[-1]) or ""
        reads = _ADDRESS_STEP if ".data_ptr(" in line else _ARGUMENT_STEP
        steps = _GENERATOR_STEPS if is_generator else (reads,)
        return BreakWords(named, _ARGUMENT_TEXT, steps)
    return None


def _numpy_words(graph_break: Break) -> tuple[str, str, tuple[str, ...]] | None:
    """The words of a call of NumPy that torch has as an operator of its own, which fails; None for other operators."""
    match = _OF_NUMPY.search(graph_break.explanation)
    if match is None:
        return None
    why = sentence(f"{match[3]}: {match[2]}" if match[2] else match[3])
    text = f"torch.compile runs calls of NumPy as torch operators. The one for `{match[1]}` raises {why}"
    return f"torch does not support this call of NumPy's `{match[1]}`", text, first_step("GB0294")


def _general(title: str, gb_id: str | None, graph_break: Break) -> BreakWords:
    step = first_step(gb_id, graph_break.explanation)
    name = pythons_function(gb_id, graph_break.explanation)
    any_break = _LOOP_BREAK if IN_LOOP in graph_break.types[1:] else _ANY_BREAK
    text = f"`{name}` is a function of Python, which torch.compile does not trace." if name else ""
    return BreakWords(title, text, step or (any_break,))


def registered_words(gb_id: str, gb_type: str, explanation: str) -> BreakWords | None:
    """The words of an id whatever the program, from the texts of an installed torch; None if nothing is known of it."""
    if not gb_type and not has_words(gb_id):
        return None
    registered = Break("", (gb_id,), (gb_type,), (), explanation=explanation)
    return _general(title_of(gb_id, gb_type, ""), gb_id, registered)


def failure_words(context: Context, failure: Failure) -> BreakWords:
    """The words of a break that is an error, as under fullgraph=True."""
    kind = plain(failure.message).rstrip(".")
    graph_break = Break(
        "",
        (failure.gb_id,),
        (kind,),
        failure.stack,
        explanation=failure.explanation,
        context=failure.context,
    )
    broke = failure.stack[-1] if failure.stack else None
    if broke is not None and _OPERATORS in broke.path:
        broke = context.innermost_user_frame(failure.stack) or broke  # the function that calls the operator
    words = break_words(context, graph_break, broke)
    return replace(words, text=words.text or break_text(graph_break))


def break_text(graph_break: Break) -> str:
    """What torch says of a break: its explanation, and what it reports of this one where that names nothing.

    Nothing where that is no more than the title says.
    """
    explanation = for_users(excerpt(graph_break.explanation) or shortened(plain(graph_break.reason)))
    if _SAID_BY_TITLE.match(explanation):
        return ""
    more = details(graph_break.explanation, graph_break.context)
    text = for_users(" ".join(sentence(part) for part in (explanation, more) if part))
    return _DYNAMO.sub("torch.compile", text.replace(" (reason: None)", ""))


_DYNAMO = re.compile(r"(?<![\w.`'])Dynamo(?![\w.`'])")
"""torch's name of the part of torch.compile that traces."""
_SAID_BY_TITLE = re.compile(
    r"This is (?:currently )?not supported\.?\s*$|Dynamo does not support this\.?\s*$|"
    r"Operator `[^`]+`'s output shape depends on input Tensor data|"
    r"User-inserted graph break\. Message: None|"
    r"logging\.Logger methods are not supported for non-export cases|"
    r"Dynamo does not know how to trace builtin operator `(?:print|input|open|eval|exec|breakpoint)` with argument"
)


def words_at(context: Context, broke: Location, gb_id: str | None, title: str, texts: str = "") -> BreakWords:
    """The words of a break of which only the id and the place are known, and `texts` of torch about it."""
    step = first_step(gb_id, texts)
    if not context.is_user_file(broke.path):
        return BreakWords(title, hints=instead_of_branch(broke) if gb_id in BRANCH_IDS else step)
    if gb_id in BRANCH_IDS:
        advice = branch_advice(context, broke, texts)
        return BreakWords(advice.title or title, hints=advice.hints)
    if gb_id in _NUMBER_IDS and depends_on_random(context, broke):
        return BreakWords(RANDOM_TITLE, hints=branch_advice(context, broke).hints)
    return BreakWords(title, hints=step)


def title_at(context: Context, gb_id: str | None, reason: str, at: Location | None) -> str:
    """The title of a break for a function that runs in eager mode because of it."""
    title = title_of(gb_id, reason, reason)
    if at is None:
        return title
    known = break_at(context, gb_id, at)
    return (words_of(context, known) if known is not None else words_at(context, at, gb_id, title)).title


def break_at(context: Context, gb_id: str | None, at: Location) -> Break | None:
    """The first break of the report with an id, of its own or met after it, whose traced code ended on a line."""
    same = (
        graph_break
        for graph_break in context.report.breaks
        if graph_break.stack
        and gb_id in graph_break.ids
        and (graph_break.stack[-1].path, graph_break.stack[-1].line) == (at.path, at.line)
    )
    return next(same, None)


def broken_line(graph_break: Break) -> Location | None:
    """The line that broke: the innermost that is not Dynamo's own stand-in for something."""
    return next((frame for frame in reversed(graph_break.stack) if not is_machinery(frame.path)), None)


def words_of(context: Context, graph_break: Break) -> BreakWords:
    """The words of a break of the report, as its finding has them."""
    broke = broken_line(graph_break)
    if broke is not None and is_requested_by_library(context, graph_break, broke):
        return BreakWords(_asked_by(broke))
    return break_words(context, graph_break, broke)


def is_requested_by_library(context: Context, graph_break: Break, broke: Location) -> bool:
    """Whether code that is not the user's asked for the break on the line `broke`."""
    is_asked_for = (graph_break.ids[0] if graph_break.ids else None) in ASKED_FOR
    return is_asked_for and not context.is_user_file(broke.path)


def _asked_by(broke: Location) -> str:
    """Who asked for a break that the user did not write: nothing in the user's code takes it away."""
    if _OPTIMIZERS in broke.path:
        return "torch's optimizers break the graph here by design"
    return f"requested by `{broke.function}` in a library" if broke.function else "requested by a library"


_OPTIMIZERS = f"torch{os.sep}optim{os.sep}"
