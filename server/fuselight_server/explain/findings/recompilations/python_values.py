"""What a function computes of a string or a container alone, as `words.count("the")`: it can be passed in instead.

Invariant: each read of the value in the function is in such an expression, whose other names are global or its own, and
which calls nothing but functions and methods of Python; what decides a branch or a loop of the code is left out.
"""

from __future__ import annotations

import ast
import builtins
import re
from collections.abc import Iterator

from fuselight.shared.report import GuardCause, GuardFailure, Location
from fuselight_server.base.formatting import format_list
from fuselight_server.explain.findings.advice.expectations import CARRIED, NOT_TRIED
from fuselight_server.explain.findings.common.context import Context
from fuselight_server.explain.findings.common.number_uses import Use, calculated, fixes, use_of
from fuselight_server.explain.findings.common.source_tree import parents_of, tree_around
from fuselight_server.explain.findings.common.text import quoted

_CAUSES = frozenset({GuardCause.VALUE, GuardCause.LENGTH, GuardCause.KEYS})
_VARIABLES = (ast.Name, ast.Attribute, ast.Subscript)
_RESULTS = (ast.Call, ast.Subscript, ast.ListComp, ast.SetComp, ast.DictComp)
_METHODS = frozenset(name for kind in (str, list, tuple, dict, set) for name in dir(kind))
_ELEMENTS = re.compile(r"(?:\[[^\[\]]*\])+$")
_AS_NUMBER = frozenset({Use.SLICE, Use.SIZE, Use.PYTHON})

_NUMBER = "an int, which torch keeps dynamic from its second value on"


def outside_step(context: Context, failure: GuardFailure) -> tuple[str, ...]:
    """What to compute before the call and pass in; empty where the function does anything else with the value."""
    read = context.innermost_user_frame(failure.born) if failure.cause in _CAUSES else None
    tree = tree_around(context, read) if read is not None and CARRIED not in failure.code else None
    parents = parents_of(tree or ast.Module([], []))
    if step := _text_step(failure, parents):
        return (step,)
    for name in dict.fromkeys((failure.source, _ELEMENTS.sub("", failure.source), *_keys(parents, read))):
        reads = [node for node in parents if isinstance(node, _VARIABLES) and ast.unparse(node) == name]
        results = [result for node in reads if (result := _result(node, parents)) is not None]
        uses = {use for result in results for use in _uses(result, parents)}
        texts = list(dict.fromkeys(map(ast.unparse, results)))
        if not results or len(results) < len(reads) or Use.INDEX in uses or "`" in "".join(texts):
            continue
        is_text, are_tests = (failure.was or "").startswith(("'", '"')), all(map(_is_test, results))
        if (Use.LOOP in uses and not is_text) or (Use.CONDITION in uses and not are_tests):
            continue
        if Use.LOOP in uses:
            step = f"Make numbers of {quoted(name)} outside the compiled code, and pass them in as a tensor"
        else:
            shown = format_list([f"`{text}`" for text in texts])
            it = "it in as" if len(texts) == 1 else "them in, each as"
            kind = "a bool" if Use.CONDITION in uses else _NUMBER if uses & _AS_NUMBER else "a tensor"
            around = (parents.get(calculated(result, parents)) for result in results)
            fixing = [ast.unparse(call.func) for call in around if isinstance(call, ast.Call)]
            if kind == _NUMBER and (names := [f"`{text}`" for text in dict.fromkeys(fixing) if fixes(text)]):
                kind = f"an int, for each value of which {format_list(names)} still compiles"
            step = f"Compute {shown} outside the compiled code, and pass {it} {kind}"
        return (f"{step}: compiled code then does not read {quoted(name)}. {NOT_TRIED}",)
    return ()


def _text_step(failure: GuardFailure, parents: dict[ast.AST, ast.AST]) -> str:
    """What to do about a string that the function puts alone in f-strings that it returns, as in the keys of a dict."""
    reads = [node for node in parents if isinstance(node, _VARIABLES) and ast.unparse(node) == failure.source]
    texts = [parents.get(parents[node]) for node in reads if isinstance(parents[node], ast.FormattedValue)]
    returned = list(
        dict.fromkeys(ast.unparse(text) for text in texts if text is not None and _is_returned(text, parents))
    )
    is_text = (failure.was or "").startswith(("'", '"'))
    is_all = len(texts) == len(reads) > 0 and len(returned) == len(set(texts))
    if not is_text or not is_all or "`" in "".join(returned):
        return ""
    it, shown = "it" if len(returned) == 1 else "them", format_list([f"`{text}`" for text in returned])
    return (
        f"Make {shown} outside the compiled code: return what the code computes, and use {it} after the call. "
        f"Nothing else reads {quoted(failure.source)}. {NOT_TRIED}"
    )


def _is_returned(node: ast.AST, parents: dict[ast.AST, ast.AST]) -> bool:
    while isinstance(parent := parents.get(node), (ast.Dict, ast.Tuple, ast.List)):
        node = parent
    return isinstance(parent, ast.Return)


def _is_test(result: ast.expr) -> bool:
    """Whether a method of a string answers yes or no, as `startswith`."""
    name = result.func.attr if isinstance(result, ast.Call) and isinstance(result.func, ast.Attribute) else ""
    return name.startswith("is") or name in {"startswith", "endswith"}


def _result(node: ast.AST, parents: dict[ast.AST, ast.AST]) -> ast.expr | None:
    """The outermost expression around a read that needs nothing else of the function; None if there is none."""
    root, result = ast.unparse(node), None
    while isinstance(parent := parents.get(node), (ast.expr, ast.keyword, ast.comprehension)):
        if isinstance(parent, ast.expr) and not _is_of_value_alone(parent, root, parents):
            return None if isinstance(parent, ast.Call) and parent.func is node else result
        if isinstance(parent, ast.Subscript) and not isinstance(parent.ctx, ast.Load):
            return None
        node = parent
        result = node if isinstance(node, _RESULTS) else result
    return result


def _keys(parents: dict[ast.AST, ast.AST], read: Location | None) -> set[str]:
    """The parameters by which the line selects something: the caller has its own name for the value."""
    parameters = {node.arg for node in parents if isinstance(node, ast.arg)}
    keys = (
        node.slice
        for node in parents
        if isinstance(node, ast.Subscript) and read and node.lineno == read.line
    )
    return {key.id for key in keys if isinstance(key, ast.Name) and key.id in parameters}


def _is_of_value_alone(whole: ast.expr, root: str, parents: dict[ast.AST, ast.AST]) -> bool:
    """Whether an expression reads the value, what is global, and its own variables, by Python's functions alone.

    What the value selects from may be an argument: `batch[self.key]`.
    """
    names = [node for node in ast.walk(whole) if isinstance(node, ast.Name)]
    own = {node.id for node in names if isinstance(node.ctx, ast.Store)}
    stored = {
        node.id for node in parents if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)
    } - own
    given = {node.arg for node in parents if isinstance(node, ast.arg)} - own - {"self"}
    nodes: list[tuple[ast.AST, set[str]]] = [(whole, stored | given)]
    while nodes:
        node, others = nodes.pop()
        if isinstance(node, _VARIABLES) and ast.unparse(node) == root:
            continue
        is_method = getattr(getattr(node, "func", None), "attr", "") in _METHODS
        is_pythons = hasattr(builtins, getattr(getattr(node, "func", None), "id", ""))
        if isinstance(node, ast.Call) and not (is_method or is_pythons):
            return False
        if isinstance(node, ast.Name) and node.id in others:
            return False
        is_selected = isinstance(node, ast.Subscript) and ast.unparse(node.slice) == root
        nodes += [(part, stored if is_selected else others) for part in ast.iter_child_nodes(node)]
    return True


def _uses(node: ast.expr, parents: dict[ast.AST, ast.AST]) -> Iterator[Use]:
    """What the function does with the result of an expression, also by the name that it is assigned to."""
    parent = parents.get(node)
    targets = parent.targets if isinstance(parent, ast.Assign) else []
    names = {target.id for target in targets if isinstance(target, ast.Name)}
    for part, around in parents.items():
        is_named = isinstance(part, ast.Name) and isinstance(part.ctx, ast.Load) and part.id in names
        if part is node or is_named:
            use = use_of(part, parents)
            is_key = use is Use.INDEX and not isinstance(node, ast.ListComp)
            is_part = isinstance(node, ast.Subscript) and use is Use.LOOP
            is_called = isinstance(around, ast.Expr) or (isinstance(around, ast.Call) and around.func is part)
            yield Use.INDEX if is_key or is_part or is_called else Use.OTHER if use is Use.INDEX else use
