"""Holds the table of rooms in docs/architecture.md: what each part of the project may import.

By syntax tree, so that an import inside a function or under TYPE_CHECKING counts as well.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
SOURCES = sorted([*ROOT.glob("compiler/**/*.py"), *ROOT.glob("server/**/*.py")])

SHARED = (
    "fuselight.codec",
    "fuselight.configurations",
    "fuselight.devices",
    "fuselight.inputs",
    "fuselight.protocol",
    "fuselight.report",
    "fuselight.version",
)
"""What both sides know: standard library only."""
DOCTOR = ("fuselight.doctor", "fuselight_server.doctor")
COMPILER = ("fuselight",)
SERVER_CORE = (
    "fuselight_server.catalogue",
    "fuselight_server.finding",
    "fuselight_server.findings",
    "fuselight_server.interpreters",
    "fuselight_server.kernel_cache",
    "fuselight_server.kernels",
    "fuselight_server.measured",
    "fuselight_server.plan",
    "fuselight_server.sampling",
    "fuselight_server.static",
    "fuselight_server.store",
    "fuselight_server.worker_answers",
    "fuselight_server.worker_process",
    "fuselight_server.worker_runs",
    "fuselight_server.worker_start",
)
"""The server without its two faces: no LSP, no terminal."""
SERVER = (
    *SERVER_CORE,
    "fuselight_server.analysis",
    "fuselight_server.bench_runs",
    "fuselight_server.changes",
    "fuselight_server.consent",
    "fuselight_server.face",
    "fuselight_server.graphs",
    "fuselight_server.kernel_results",
    "fuselight_server.kernel_runs",
    "fuselight_server.measured_results",
    "fuselight_server.outcomes",
    "fuselight_server.pace",
    "fuselight_server.partial_reports",
    "fuselight_server.places",
    "fuselight_server.runs",
    "fuselight_server.same_text",
    "fuselight_server.settings",
    "fuselight_server.state",
    "fuselight_server.target_device",
)


@dataclass(frozen=True)
class Room:
    """Modules and what they may import besides the standard library and their own room."""

    modules: tuple[str, ...]
    project: tuple[str, ...] = ()
    libraries: tuple[str, ...] = ()

    def holds(self, module: str) -> bool:
        return _within(module, self.modules)


ROOMS = (
    Room(("fuselight.codec",)),
    Room(("fuselight.report",)),
    Room(("fuselight.version",)),
    Room(("fuselight.environment",), ("fuselight.report", "fuselight.torch_api", "fuselight.version")),
    Room(("fuselight.protocol",), ("fuselight.codec", "fuselight.report")),
    Room(("fuselight.inputs",), ("fuselight.report",)),
    Room(("fuselight.configurations",)),
    Room(("fuselight.devices",), ("fuselight.report",)),
    Room(("fuselight.torch_api",), ("fuselight.report",), ("torch",)),
    Room(("fuselight.triton_api",), ("fuselight.codec", "fuselight.report"), ("torch",)),
    Room(
        ("fuselight.dynamo",),
        ("fuselight.torch_api", "fuselight.environment", "fuselight.report", "fuselight.trace"),
        ("torch",),
    ),
    Room(
        ("fuselight.inductor",),
        ("fuselight.torch_api", "fuselight.dynamo", "fuselight.report", "fuselight.devices"),
        ("torch",),
    ),
    Room(("fuselight.prims",), ("fuselight.torch_api", "fuselight.dynamo", "fuselight.report"), ("torch",)),
    Room(("fuselight.trace",), ("fuselight.codec", "fuselight.report")),
    Room(("fuselight.target",), ("fuselight.torch_api", "fuselight.dynamo", *SHARED), ("torch",)),
    Room(("fuselight.worker.wire",), SHARED),
    Room(
        ("fuselight.doctor",),
        (
            "fuselight.codec",
            "fuselight.devices",
            "fuselight.environment",
            "fuselight.torch_api",
            "fuselight.triton_api",
        ),
        ("torch",),
    ),
    Room(
        ("fuselight.measure",),
        (
            "fuselight.torch_api",
            "fuselight.dynamo",
            "fuselight.inductor",
            "fuselight.target",
            *SHARED,
        ),
        ("torch",),
    ),
    Room(("fuselight.worker", "fuselight.program", "fuselight.growing"), COMPILER, ("torch",)),
    Room(("fuselight_server.finding",), ("fuselight.report",)),
    Room(("fuselight_server.catalogue",), ("fuselight_server.finding",)),
    Room(
        ("fuselight_server.static",),
        (*SHARED, "fuselight_server.finding"),
        ("tree_sitter", "tree_sitter_python", "libcst"),
    ),
    Room(
        ("fuselight_server.findings",),
        (
            *SHARED,
            "fuselight_server.catalogue",
            "fuselight_server.finding",
            "fuselight_server.kernels",
            "fuselight_server.measured",
            "fuselight_server.static.reading",
        ),
    ),
    Room(
        (
            "fuselight_server.worker_process",
            "fuselight_server.worker_runs",
            "fuselight_server.worker_start",
            "fuselight_server.worker_answers",
            "fuselight_server.sampling",
            "fuselight_server.kernel_cache",
            "fuselight_server.store",
        ),
        (*SHARED, "fuselight.worker.wire", *SERVER_CORE),
    ),
    Room(("fuselight_server.interpreters",)),
    Room(
        ("fuselight_server.doctor",),
        ("fuselight.codec", "fuselight.doctor", "fuselight_server.worker_start"),
    ),
    Room(("fuselight_server.kernels",), (*SHARED,)),
    Room(("fuselight_server.measured",), (*SHARED, "fuselight_server.kernels", "fuselight_server.store")),
    Room(
        ("fuselight_server.graphs",),
        (
            *SHARED,
            "fuselight_server.finding",
            "fuselight_server.findings",
            "fuselight_server.kernels",
            "fuselight_server.places",
        ),
    ),
    Room(("fuselight_server.plan",), (*SHARED, *SERVER_CORE)),
    Room(
        (
            "fuselight_server.analysis",
            "fuselight_server.bench_runs",
            "fuselight_server.changes",
            "fuselight_server.consent",
            "fuselight_server.face",
            "fuselight_server.kernel_results",
            "fuselight_server.kernel_runs",
            "fuselight_server.measured_results",
            "fuselight_server.outcomes",
            "fuselight_server.pace",
            "fuselight_server.partial_reports",
            "fuselight_server.places",
            "fuselight_server.runs",
            "fuselight_server.same_text",
            "fuselight_server.settings",
            "fuselight_server.state",
            "fuselight_server.target_device",
        ),
        (*SHARED, *SERVER),
    ),
    Room(("fuselight_server.convert",), (*SHARED, *SERVER), ("lsprotocol", "pygls")),
    Room(("fuselight_server.pipes",)),
    Room(
        ("fuselight_server.features", "fuselight_server.app"),
        (
            *SHARED,
            *SERVER,
            *DOCTOR,
            "fuselight_server.convert",
            "fuselight_server.features",
            "fuselight_server.pipes",
        ),
        ("attrs", "cattrs", "lsprotocol", "pygls"),
    ),
    Room(
        ("fuselight_server.cli",),
        (*SHARED, *SERVER_CORE, *DOCTOR, "fuselight_server.app"),
        ("typer", "rich", "click"),
    ),
)
FACADES = ("fuselight", "fuselight_server", "fuselight_server.__main__")
PACKAGES = ("fuselight", "fuselight_server")


def _within(module: str, rooms: tuple[str, ...]) -> bool:
    return any(module == room or module.startswith(f"{room}.") for room in rooms)


def _module(path: Path) -> str:
    relative = path.relative_to(ROOT).with_suffix("")
    parts = relative.parts[1:]
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


PRIVATE = re.compile(r"\._(?!_)")
MODULES = {_module(path): path for path in SOURCES}


def _imports(path: Path, module: str) -> Iterator[tuple[int, str]]:
    """Each import as (line, module), `from a import b` as `a.b` where that is a module of ours."""
    package = module if path.name == "__init__.py" else module.rpartition(".")[0]
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
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


def _room(module: str) -> Room | None:
    return next((room for room in ROOMS if room.holds(module)), None)


def _allowed(imported: str, room: Room) -> bool:
    top = imported.partition(".")[0]
    if top in PACKAGES:
        # A package's own docstring and version are everybody's.
        return imported in PACKAGES or room.holds(imported) or _within(imported, room.project)
    return top in sys.stdlib_module_names or top in room.libraries


@pytest.mark.parametrize("module", [name for name in MODULES if name not in FACADES])
def test_imports_stay_in_their_room(module: str) -> None:
    room = _room(module)
    assert room is not None, f"{module} is in no room: give it one here and in docs/architecture.md"
    wrong = [
        f"{MODULES[module].relative_to(ROOT)}:{line} imports {imported}"
        for line, imported in _imports(MODULES[module], module)
        if not _allowed(imported, room)
    ]
    assert not wrong, "\n".join(wrong)


def _is_launching(module: str, name: str) -> bool:
    """Whether it is Inductor's Triton runtime in the package that is there for Triton."""
    return _within(module, ("fuselight.triton_api",)) and name.startswith("torch._inductor.runtime")


def test_two_modules_import_triton() -> None:
    """By name, since it is imported as it is needed and has no types: a room would not see it."""
    importing = re.compile(r"""^\s*(?:import|from) triton\b|import_module\(["']triton\b""", re.MULTILINE)
    found = {name for name, path in MODULES.items() if importing.search(path.read_text(encoding="utf-8"))}
    # The virtual GPU that code is generated for has a driver of its own.
    assert found == {"fuselight.triton_api.names", "fuselight.torch_api.generation.virtual"}


def test_only_torch_api_knows_torchs_private_names() -> None:
    wrong = []
    for module, path in MODULES.items():
        if module == "fuselight.torch_api" or module.startswith("fuselight.torch_api."):
            continue
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            names: list[str] = []
            if isinstance(node, ast.Import):
                names = [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom) and node.level == 0:
                names = [f"{node.module}.{alias.name}" for alias in node.names]
            elif isinstance(node, ast.Attribute):
                names = [ast.unparse(node)]
            wrong += [
                f"{path.relative_to(ROOT)}:{node.lineno} uses {name}"  # type: ignore[attr-defined]
                for name in names
                if name.startswith("torch.") and PRIVATE.search(name) and not _is_launching(module, name)
            ]
    assert not wrong, "\n".join(wrong)


def test_the_table_in_the_docs_names_every_room() -> None:
    table = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    names = {module.rpartition(".")[2] for room in ROOMS for module in room.modules}
    missing = sorted(name for name in names if name not in table)
    assert not missing, f"docs/architecture.md does not name {missing}"


def test_every_room_has_someone_in_it() -> None:
    empty = [
        module
        for room in ROOMS
        for module in room.modules
        if not any(_within(name, (module,)) for name in MODULES)
    ]
    assert not empty, f"no such module: {empty}"
