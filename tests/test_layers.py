"""Checks the rules of scripts/layers.py: what each room of the project may import.

By syntax tree, so that an import inside a function or under TYPE_CHECKING counts as well.
"""

from __future__ import annotations

import ast
import functools
import gc
import posixpath
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from layers import (
    EXTENSION_ROOMS,
    LONG_HANDLERS,
    MAX_HANDLER,
    MAX_IN_ROOM,
    MAX_PARTS,
    PACKAGES,
    PAGE,
    PARTS,
    ROOMS,
    Room,
    covers,
    room_of,
    with_table,
)

ROOT = Path(__file__).parent.parent
SOURCES = sorted([*ROOT.glob("compiler/**/*.py"), *ROOT.glob("server/**/*.py")])

FACADES = ("fuselight", "fuselight_server", "fuselight_server.__main__")


def _module(path: Path) -> str:
    relative = path.relative_to(ROOT).with_suffix("")
    parts = relative.parts[1:]
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


PRIVATE = re.compile(r"\._(?!_)")
MODULES = {_module(path): path for path in SOURCES}


@functools.cache
def _nodes(path: Path) -> tuple[ast.AST, ...]:
    """Every node of a file's syntax tree: five tests ask for them."""
    return tuple(ast.walk(ast.parse(path.read_text(encoding="utf-8"))))


@pytest.fixture(scope="module", autouse=True)
def _no_garbage_among_trees() -> Iterator[None]:
    """Millions of nodes would be searched for garbage while more of them are made, which takes most of the time."""
    gc.disable()
    yield
    gc.enable()
    _nodes.cache_clear()


@functools.cache
def _imports(path: Path, module: str) -> tuple[tuple[int, str], ...]:
    """Each import as (line, module), `from a import b` as `a.b` where that is a module of ours."""
    return tuple(_imports_of(path, module))


def _imports_of(path: Path, module: str) -> Iterator[tuple[int, str]]:
    package = module if path.name == "__init__.py" else module.rpartition(".")[0]
    for node in _nodes(path):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                above = package.split(".")[: len(package.split(".")) - node.level + 1]
                base = ".".join([*above, *([node.module] if node.module else [])])
            for alias in node.names:
                whole = f"{base}.{alias.name}"
                yield node.lineno, whole if whole in MODULES else base


def _is_allowed(imported: str, module: str, room: Room) -> bool:
    top = imported.partition(".")[0]
    if top not in PACKAGES:
        return top in sys.stdlib_module_names or top in room.libraries
    # A package's own docstring and version are everybody's.
    return imported in PACKAGES or room_of(imported) is room_of(module) or covers(room.imports, imported)


def test_imports_obey_the_table() -> None:
    wrong: list[str] = []
    for module, path in MODULES.items():
        if module in FACADES:
            continue
        room = room_of(module)
        assert room is not None, f"{module} has no room: add it to scripts/layers.py"
        wrong += [
            f"{path.relative_to(ROOT)}:{line} imports {imported}"
            for line, imported in _imports(path, module)
            if not _is_allowed(imported, module, room)
        ]
    assert not wrong, "\n".join(wrong)


def _arrows() -> dict[str, set[str]]:
    """The rooms that each room imports."""
    arrows: dict[str, set[str]] = {room.name: set() for room in ROOMS}
    for module, path in MODULES.items():
        room = room_of(module)
        for _, imported in _imports(path, module) if room else ():
            other = room_of(imported) if imported in MODULES else None
            if room and other and other is not room:
                arrows[room.name].add(other.name)
    return arrows


def _unused(rooms: tuple[Room, ...], arrows: dict[str, set[str]]) -> list[str]:
    """What rooms may import and never do."""
    return [
        f"{room.name} never imports {allowed}"
        for room in rooms
        for allowed in room.imports
        if not any(covers((allowed,), name) for name in arrows[room.name])
    ]


def test_every_room_uses_what_it_may_import() -> None:
    unused = _unused(ROOMS, _arrows())
    assert not unused, "\n".join(unused)


def _in_or_above_circles(arrows: dict[str, set[str]]) -> list[str]:
    left = dict(arrows)
    while leaves := {name for name, others in left.items() if not others & left.keys()}:
        for name in leaves:
            del left[name]
    return sorted(left)


def test_no_room_imports_itself_through_others() -> None:
    assert _in_or_above_circles(_arrows()) == []


def _files_of(room: str) -> dict[str, set[str]]:
    """The files of a room, each with the others of it that it imports, for types alone too."""
    return {
        module: {other for _, other in _imports(path, module) if covers((room,), other)} - {module, room}
        for module, path in MODULES.items()
        if covers((room,), module)
    }


def _floors(files: dict[str, set[str]]) -> int:
    """How many files the longest chain of imports has."""

    @functools.cache
    def floor(module: str) -> int:
        return 1 + max(map(floor, files[module]), default=0)

    return max(map(floor, files))


def test_the_files_of_a_room_are_few_and_ordered() -> None:
    for room, (max_arrows, max_floors) in MAX_IN_ROOM.items():
        files = _files_of(room)
        arrows = sum(map(len, files.values()))
        assert 0 < arrows <= max_arrows, f"{room}: {arrows} arrows between {len(files)} files"
        assert _floors(files) <= max_floors, f"{room}: {_floors(files)} floors"


def test_a_chain_of_files_is_counted() -> None:
    assert _floors({"a": {"b", "c"}, "b": {"c"}, "c": set(), "d": set()}) == len("abc")


def test_constructors_of_these_rooms_take_few_parts() -> None:
    wrong = [
        f"{path.relative_to(ROOT)}:{node.lineno} takes {count}"
        for module, path in MODULES.items()
        if covers(tuple(MAX_IN_ROOM), module)
        for node in _nodes(path)
        if isinstance(node, ast.FunctionDef) and node.name == "__init__"
        if (count := len(node.args.args) + len(node.args.kwonlyargs) - 1) > MAX_PARTS
    ]
    assert not wrong, "\n".join(wrong)


HANDLERS = "fuselight_server.editor.handlers"
DECIDING = ("fuselight_server.editor.rules", "fuselight_server.explain.findings")
WEIGHED = frozenset({"breaks", "findings", "own", "recompiles"})
"""What a report or a result has of findings: who reads these decides what is shown of them."""


def test_handlers_convert_and_ask() -> None:
    """What a lens, a hover, a menu and diagnostics show is decided below, without LSP types and without the server."""
    wrong: list[str] = []
    for module, path in MODULES.items():
        if covers((HANDLERS,), module):
            place = path.relative_to(ROOT)
            wrong += [
                f"{place}:{line} imports {name}"
                for line, name in _imports(path, module)
                if covers(DECIDING, name)
            ]
            wrong += [
                f"{place}:{node.lineno} reads {node.attr}"
                for node in _nodes(path)
                if isinstance(node, ast.Attribute) and node.attr in WEIGHED
            ]
    assert not wrong, "\n".join(wrong)


def test_handlers_are_short() -> None:
    lines = {
        path.stem: len(path.read_text(encoding="utf-8").splitlines())
        for module, path in MODULES.items()
        if covers((HANDLERS,), module)
    }
    wrong = {name: count for name, count in lines.items() if count > LONG_HANDLERS.get(name, MAX_HANDLER)}
    assert not wrong, f"decide below the handlers: {wrong}"
    assert LONG_HANDLERS.keys() <= lines.keys()


EXTENSION = ROOT / "extension"
SCRIPTS = {
    ".".join(path.relative_to(EXTENSION).with_suffix("").parts): path
    for part in PARTS
    for path in sorted((EXTENSION / part).rglob("*.ts"))
}
_FROM = re.compile(
    r"""^(?:import|export)(?P<type> type)?\b(?:[\s\w{},*$]*?\bfrom)?\s*["'](?P<name>[^"']+)["'];""",
    re.MULTILINE,
)
_LATE = re.compile(r"""\b(?:import|require)\(\s*["'](?P<name>[^"']+)["']""")


def _script_imports(module: str, text: str) -> Iterator[tuple[str, bool]]:
    """Each import of a TypeScript module as (module or library, whether of types alone)."""
    folder = posixpath.dirname(module.replace(".", "/"))
    for match in (*_FROM.finditer(text), *_LATE.finditer(text)):
        name = match["name"]
        is_of_types = bool(match.groupdict().get("type"))
        if name.startswith("."):
            whole = posixpath.normpath(posixpath.join(folder, name.removesuffix(".ts")))
            yield whole.replace("/", "."), is_of_types
        else:
            yield name, is_of_types


def _is_allowed_script(imported: str, module: str, room: Room) -> bool:
    if imported in SCRIPTS:
        other = room_of(imported, EXTENSION_ROOMS)
        return other is room_of(module, EXTENSION_ROOMS) or (other is not None and other.name in room.imports)
    return any(re.match(rf"{re.escape(library)}(?:$|[/:])", imported) for library in room.libraries)


def _wrong_in_script(module: str, text: str) -> list[str]:
    room = room_of(module, EXTENSION_ROOMS)
    assert room is not None, f"{module} has no room: add it to scripts/layers.py"
    return [
        f"{module} imports {imported}"
        for imported, is_of_types in _script_imports(module, text)
        if not _is_allowed_script(imported, module, room)
        or (imported.startswith("src.") and room.package != "src" and not is_of_types)
    ]


def test_imports_of_the_extension_obey_the_table() -> None:
    """Pages take types alone from `src/`, so that their bundles have nothing of VS Code."""
    wrong = [
        line for module, path in SCRIPTS.items() for line in _wrong_in_script(module, path.read_text("utf-8"))
    ]
    assert not wrong, "\n".join(wrong)


def test_an_import_against_the_table_of_the_extension_is_seen() -> None:
    upward = 'import { createBenchView } from "../bench/view";\n'
    values = 'import {\n  serverCommand,\n} from "../../src/messages/protocol";\n'
    types = 'import type { Status } from "../../src/messages/protocol";\n'
    assert _wrong_in_script("src.workbench.say", upward) == ["src.workbench.say imports src.bench.view"]
    assert _wrong_in_script("webview.tune.main", values) == [
        "webview.tune.main imports src.messages.protocol"
    ]
    assert _wrong_in_script("webview.tune.main", types) == []
    assert _wrong_in_script("webview.tune.main", 'await import("vscode");') == [
        "webview.tune.main imports vscode"
    ]
    assert _wrong_in_script("src.tune.view", 'export * from "../kernels/uri";') != []


def test_rooms_of_the_extension_have_an_order() -> None:
    arrows: dict[str, set[str]] = {room.name: set() for room in EXTENSION_ROOMS}
    for module, path in SCRIPTS.items():
        room = room_of(module, EXTENSION_ROOMS)
        assert room is not None
        for imported, _ in _script_imports(module, path.read_text("utf-8")):
            other = room_of(imported, EXTENSION_ROOMS) if imported in SCRIPTS else None
            if other and other is not room:
                arrows[room.name].add(other.name)
    assert _in_or_above_circles(arrows) == []
    assert not _unused(EXTENSION_ROOMS, arrows)


def test_no_module_imports_itself_through_others() -> None:
    """Imports under TYPE_CHECKING count: a circle of types is a circle to read."""
    graph = {
        name: {imported for _, imported in _imports(path, name) if imported in MODULES} - {name}
        for name, path in MODULES.items()
        if name.startswith(tuple(f"{package}." for package in PACKAGES))
    }
    assert _in_or_above_circles(graph) == []


def _is_launching(module: str, name: str) -> bool:
    """Whether it is Inductor's Triton runtime in the package that is there for Triton."""
    return covers(("fuselight.adapters.triton_api",), module) and name.startswith("torch._inductor.runtime")


def test_one_module_imports_triton() -> None:
    """Checks names in the text, because the import is lazy and untyped, so that the table would not find it."""
    importing = re.compile(r"""^\s*(?:import|from) triton\b|import_module\(["']triton\b""", re.MULTILINE)
    names = {name for name, path in MODULES.items() if importing.search(path.read_text(encoding="utf-8"))}
    assert names == {"fuselight.adapters.triton_api.names"}


def _root(node: ast.expr) -> str | None:
    """The name that a chain of attributes, calls and subscripts starts with."""
    while isinstance(node, (ast.Attribute, ast.Call, ast.Subscript)):
        node = node.func if isinstance(node, ast.Call) else node.value
    return node.id if isinstance(node, ast.Name) else None


FACES = ("fuselight_server.cli", "fuselight_server.editor")
MAKERS = ("fuselight_server.explain.findings", "fuselight_server.fixes.verification")
COMPOSED = frozenset({"apply_ignores", "fold", "static_findings", "try_remedies"})
"""What `commands/` makes the findings of a file and the trials of a forecast with."""


def test_faces_get_findings_and_trials_from_commands() -> None:
    wrong = [
        f"{path.relative_to(ROOT)}:{node.lineno} imports {alias.name}"
        for module, path in MODULES.items()
        if covers(FACES, module)
        for node in _nodes(path)
        if isinstance(node, ast.ImportFrom) and covers(MAKERS, node.module or "")
        for alias in node.names
        if alias.name in COMPOSED
    ]
    assert not wrong, "\n".join(wrong)


def test_use_cases_take_plain_arguments_and_print_nothing() -> None:
    wrong = [
        f"{path.relative_to(ROOT)}:{line} imports {imported}"
        for module, path in MODULES.items()
        if covers(("fuselight_server.commands",), module)
        for line, imported in _imports(path, module)
        if imported in {"argparse", "fuselight_server.base.terminal"}
    ]
    assert not wrong, "\n".join(wrong)


_SHOW, _TOKEN = ("show", "Callable[[str], None]"), ("token", "CancelToken")
_OPTIONS = ("options", "CommandOptions")


def _use_cases() -> Iterator[tuple[str, ast.AsyncFunctionDef]]:
    """Each public coroutine function of commands/, with its place."""
    for module, path in MODULES.items():
        if covers(("fuselight_server.commands",), module):
            for node in ast.parse(path.read_text(encoding="utf-8")).body:
                if isinstance(node, ast.AsyncFunctionDef) and not node.name.startswith("_"):
                    yield f"{path.relative_to(ROOT)}:{node.lineno} {node.name}", node


def test_use_cases_take_options_progress_and_a_cancel_token() -> None:
    """`options, show, token` come first in one that runs targets; one that serves a part of it takes the token."""
    wrong, whole = [], 0
    for place, node in _use_cases():
        parameters = [
            (each.arg, ast.unparse(each.annotation or ast.Constant(None))) for each in node.args.args
        ]
        if _OPTIONS in parameters:
            whole += 1
            wrong += [place] if parameters[:3] != [_OPTIONS, _SHOW, _TOKEN] else []
        elif _TOKEN not in parameters and _target_run(node) is None:
            wrong.append(place)
    assert whole >= len(("check", "fix", "forecast", "kernels", "bench", "tune", "ops"))
    assert not wrong, "\n".join(wrong)


def _target_run(node: ast.AsyncFunctionDef) -> str | None:
    """The parameter that brings a token along: a target that a use case runs."""
    return next(
        (each.arg for each in node.args.args if ast.unparse(each.annotation or each) == "TargetRun"), None
    )


def test_faces_take_functions_and_data_from_commands() -> None:
    """An object with coroutines would have the face sequence the steps of a use case."""
    working = {
        (module, node.name)
        for module, path in MODULES.items()
        if covers(("fuselight_server.commands",), module)
        for node in _nodes(path)
        if isinstance(node, ast.ClassDef)
        and any(isinstance(part, ast.AsyncFunctionDef) for part in node.body)
    }
    assert working
    wrong = [
        f"{path.relative_to(ROOT)}:{node.lineno} imports {alias.name}"
        for module, path in MODULES.items()
        if covers(FACES, module)
        for node in _nodes(path)
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
        if (node.module, alias.name) in working
    ]
    assert not wrong, "\n".join(wrong)


def test_one_module_of_the_terminal_cancels_use_cases() -> None:
    """Others get its token: what Ctrl-C does is decided once."""
    uses = {
        module.removeprefix("fuselight_server.cli.")
        for module, path in MODULES.items()
        if covers(("fuselight_server.cli",), module)
        for node in _nodes(path)
        if isinstance(node, ast.Name) and node.id == "CancelToken"
    }
    assert uses == {"progress"}
    running = {
        module.removeprefix("fuselight_server.cli.")
        for module, path in MODULES.items()
        if covers(("fuselight_server.cli",), module)
        for node in _nodes(path)
        if isinstance(node, ast.Attribute) and ast.unparse(node) == "asyncio.run"
    }
    assert running == {"progress", "doctor"}, "a use case runs by cli/progress.py; the doctor has none"


def test_one_module_of_the_terminal_knows_the_server_for_agents() -> None:
    """A face that took rows from another face would change with it: what both show is made in `commands`."""
    importing = {
        module.removeprefix("fuselight_server.cli.")
        for module, path in MODULES.items()
        if covers(("fuselight_server.cli",), module)
        for node in _nodes(path)
        if isinstance(node, ast.ImportFrom) and covers(("fuselight_server.agents",), node.module or "")
    }
    assert importing == {"mcp"}


PRIVATE_NAMES = ("fuselight.adapters.torch_api", "fuselight.adapters.virtual_gpu")
"""The adapter to torch, and the compiler for a GPU that is not there, which is made of Inductor's own parts."""


def test_two_packages_use_torchs_private_names() -> None:
    wrong = []
    for module, path in MODULES.items():
        if covers(PRIVATE_NAMES, module):
            continue
        for node in _nodes(path):
            names: list[str] = []
            if isinstance(node, ast.Import):
                names = [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom) and node.level == 0:
                names = [f"{node.module}.{alias.name}" for alias in node.names]
            elif isinstance(node, ast.Attribute) and _root(node) == "torch":
                names = [ast.unparse(node)]
            wrong += [
                f"{path.relative_to(ROOT)}:{node.lineno} uses {name}"  # type: ignore[attr-defined]
                for name in names
                if name.startswith("torch.") and PRIVATE.search(name) and not _is_launching(module, name)
            ]
    assert not wrong, "\n".join(wrong)


def test_the_table_in_the_docs_is_the_one_of_the_rules() -> None:
    text = PAGE.read_text(encoding="utf-8")
    assert with_table(text) == text, "run `python scripts/layers.py`"


def test_every_room_has_modules() -> None:
    empty = [room.name for room in ROOMS if not any(covers((room.name,), name) for name in MODULES)]
    assert not empty, f"no such folder: {empty}"


def test_no_class_name_is_defined_twice() -> None:
    """A reader who searches for a class finds one."""
    defined: dict[str, list[str]] = {}
    for module, path in MODULES.items():
        for node in _nodes(path):
            if isinstance(node, ast.ClassDef):
                defined.setdefault(node.name, []).append(module)
    assert {name: modules for name, modules in defined.items() if len(modules) > 1} == {}


def test_the_picture_has_every_room() -> None:
    picture = PAGE.read_text(encoding="utf-8").split("```")[1]
    rooms = [*ROOMS, *EXTENSION_ROOMS]
    names = {room.name.split(".")[1] for room in rooms if "." in room.name}
    assert {name for name in names if f"{name}/" not in picture} == set()
