"""Texts name an option as its reader gives it: an agent has arguments, and no command line.

Every text of a module that a tool may reach is tried, so that a new text with an option fails here.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import fuselight
import fuselight_server
from fuselight_server.agents.catalog import TOOLS
from fuselight_server.agents.instructions import INSTRUCTIONS
from fuselight_server.agents.option_names import data_for_agents, for_agents
from fuselight_server.base.option_names import with_options

_ROOTS = {
    "fuselight": Path(fuselight.__file__).parent,
    "fuselight_server": Path(fuselight_server.__file__).parent,
}
_OTHERS = (
    "fuselight.notebook",  # speaks in a notebook alone, whose magics have options
    "fuselight_server.agents.option_names",  # has the options themselves, as the next one
    "fuselight_server.base.option_names",
    "fuselight_server.explain.kernels.script",  # the text of a program with an option of its own
)
_OPTION = re.compile(r"(?<![\w-])--[a-z][a-z-]+")
_SHELL = re.compile(
    r"^(?:diff|Reinstall .* pip install) --[\w-]+|xcode-select --install|"
    r"`(?:[A-Z_]+=\S+ )?(?:fuselight|python|PATH) [^`]*`|^PATH --.*|^ ?--[\w-]+(?:[ =]PATH)?$"
)
"""A command with its options, or a part of one that is put together: a reader can run it, whoever that is."""

_IMPORT = re.compile(
    r"^[ \t]*(?:from[ ]+(?P<base>[\w.]+)[ ]+import[ ]*(?P<names>\([^)]*\)|.*)|import[ ]+(?P<module>[\w.]+))",
    re.MULTILINE,
)


def _modules_of_tools() -> dict[str, str]:
    """The text of each module that the tools import, also late, and of its table, and of all that runs in the worker.

    The imports come from the text, as parsing 900 modules takes most of the time of this file.
    """
    known: dict[str, str] = {}
    waiting = ["fuselight_server.agents.catalog", "fuselight_server.agents.toolbox"]
    waiting += [_module_of("fuselight", path) for path in _ROOTS["fuselight"].rglob("*.py")]
    while waiting:
        module = waiting.pop()
        path = _path_of(module)
        if module in known or path is None or module.endswith("__main__") or module.startswith(_OTHERS):
            continue
        known[module] = path.read_text(encoding="utf-8")
        table = path.with_suffix(".json")  # an expression of Python, too
        known |= {f"{module}, its table": table.read_text(encoding="utf-8")} if table.is_file() else {}
        for match in _IMPORT.finditer(known[module]):
            base, names = match["base"], re.findall(r"\w+", match["names"] or "")
            waiting += [base, *(f"{base}.{name}" for name in names)] if base else [match["module"]]
    return known


def _module_of(root: str, path: Path) -> str:
    return ".".join([root, *path.relative_to(_ROOTS[root]).with_suffix("").parts])


def _path_of(module: str) -> Path | None:
    root, _, rest = module.partition(".")
    if root not in _ROOTS:
        return None
    base = _ROOTS[root].joinpath(*rest.split(".")) if rest else _ROOTS[root]
    return next((path for path in (base.with_suffix(".py"), base / "__init__.py") if path.is_file()), None)


def _texts(tree: ast.AST) -> Iterator[str]:
    """The texts of a module: no docstring, no word of a command that is run, no declaration of an option."""
    if isinstance(tree, ast.Expr) and isinstance(tree.value, ast.Constant):
        return
    if (
        isinstance(tree, ast.Call)
        and isinstance(tree.func, ast.Attribute)
        and tree.func.attr == "add_argument"
    ):
        return
    if isinstance(tree, ast.JoinedStr):
        yield "".join(str(part.value) if isinstance(part, ast.Constant) else "PATH" for part in tree.values)
        return
    if isinstance(tree, ast.Constant) and isinstance(tree.value, str):
        if " " in tree.value:
            yield tree.value
        return
    for child in ast.iter_child_nodes(tree):
        yield from _texts(child)


def test_no_text_names_an_option_to_an_agent() -> None:
    with_options = [
        (module, text)
        for module, source in sorted(_modules_of_tools().items())
        if _OPTION.search(source)
        for text in _texts(ast.parse(source))
        if _OPTION.search(_SHELL.sub("", text))
    ]
    assert any("--python" in text for _, text in with_options)
    wrong = [
        (module, text) for module, text in with_options if _OPTION.search(_SHELL.sub("", for_agents(text)))
    ]
    assert not wrong


def test_the_tables_of_modules_are_read() -> None:
    tables = [text for module, text in _modules_of_tools().items() if module.endswith(", its table")]
    assert any("`torch._inductor.config.fx_graph_cache = True`" in text for text in tables)


def test_an_answer_has_arguments_and_code_stays_as_it_is() -> None:
    why = "changes behavior (printed text): allow changes of behavior"
    row = {"why": why, "diff": f"+    # {why}", "notes": [why], "line": 3}
    words = "changes behavior (printed text): allow it with `allow_behavior_changes`"
    assert data_for_agents({"fixes": [row]}) == {"fixes": [{**row, "why": words, "notes": [words]}]}


def test_a_text_of_every_face_has_the_words_of_the_face() -> None:
    texts = ("changes behavior (printed text): allow changes of behavior", "and 7 more: the JSON has all")
    assert [with_options(text) for text in texts] == [
        "changes behavior (printed text): allow it with `--allow-behavior-changes`",
        "and 7 more: `--format json` has all",
    ]
    assert [for_agents(text) for text in texts] == [
        "changes behavior (printed text): allow it with `allow_behavior_changes`",
        "and 7 more",
    ]


def test_what_tools_say_of_themselves_names_no_option() -> None:
    assert not _OPTION.search(_SHELL.sub("", INSTRUCTIONS + str([tool.description_data() for tool in TOOLS])))
