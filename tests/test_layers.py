"""Checks the table of layers in docs/architecture.md: what each part of the project may import.

By syntax tree, so that an import inside a function or under TYPE_CHECKING counts as well.
"""

from __future__ import annotations

import ast
import functools
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
    "fuselight.foreign_files",
    "fuselight.inputs",
    "fuselight.owned_folders",
    "fuselight.protocol",
    "fuselight.report",
    "fuselight.suites",
    "fuselight.tuned_code",
    "fuselight.tuned_file",
    "fuselight.tuned_rules",
    "fuselight.version",
)
"""What both sides know: standard library only."""
DOCTOR = ("fuselight.doctor", "fuselight_server.doctor")
COMPILER = ("fuselight",)
BASE = (
    "fuselight_server.files",
    "fuselight_server.finding",
    "fuselight_server.formatting",
    "fuselight_server.interrupts",
    "fuselight_server.settings",
    "fuselight_server.store",
)
"""Modules at the root of the server, which every layer of the server may use."""
SERVER_CORE = (
    *BASE,
    "fuselight_server.findings",
    "fuselight_server.fixes",
    "fuselight_server.interpreters",
    "fuselight_server.kernels",
    "fuselight_server.measured",
    "fuselight_server.runs",
    "fuselight_server.static",
    "fuselight_server.sweep",
    "fuselight_server.tuned",
    "fuselight_server.worker_client",
)
"""The server without its two faces: no LSP, no terminal."""
SERVER = (
    *SERVER_CORE,
    "fuselight_server.graphs",
    "fuselight_server.predictions",
    "fuselight_server.results",
    "fuselight_server.session",
)


@dataclass(frozen=True)
class Layer:
    """Modules and what they may import besides the standard library and their own layer."""

    modules: tuple[str, ...]
    project: tuple[str, ...] = ()
    libraries: tuple[str, ...] = ()

    def holds(self, module: str) -> bool:
        return _within(module, self.modules)


LAYERS = (
    Layer(("fuselight.codec",)),
    Layer(("fuselight.report",)),
    Layer(("fuselight.version",)),
    Layer(("fuselight.environment",), ("fuselight.report", "fuselight.torch_api", "fuselight.version")),
    Layer(("fuselight.protocol",), ("fuselight.codec", "fuselight.report")),
    Layer(("fuselight.inputs",), ("fuselight.report",)),
    Layer(("fuselight.configurations",), ("fuselight.report",)),
    Layer(("fuselight.foreign_files",)),
    Layer(("fuselight.tuned_rules",), ("fuselight.report",)),
    Layer(
        ("fuselight.tuned_file",),
        ("fuselight.codec", "fuselight.foreign_files", "fuselight.report", "fuselight.tuned_rules"),
    ),
    Layer(("fuselight.tuned_code",), ("fuselight.report",)),
    Layer(("fuselight.suites",), ("fuselight.foreign_files",)),
    Layer(("fuselight.owned_folders",)),
    Layer(("fuselight.devices",), ("fuselight.report",)),
    Layer(("fuselight.torch_api",), ("fuselight.report",), ("torch",)),
    Layer(
        ("fuselight.virtual_gpu",),
        ("fuselight.torch_api", "fuselight.triton_api", "fuselight.report"),
        ("torch",),
    ),
    Layer(
        ("fuselight.triton_api",),
        ("fuselight.codec", "fuselight.foreign_files", "fuselight.report", "fuselight.torch_api"),
        ("torch",),
    ),
    Layer(
        ("fuselight.dynamo",),
        ("fuselight.torch_api", "fuselight.environment", "fuselight.report", "fuselight.torch_texts"),
        ("torch",),
    ),
    Layer(
        ("fuselight.inductor",),
        (
            "fuselight.torch_api",
            "fuselight.virtual_gpu",
            "fuselight.dynamo",
            "fuselight.report",
            "fuselight.devices",
        ),
        ("torch",),
    ),
    Layer(
        ("fuselight.runtime",),
        (
            "fuselight.codec",
            "fuselight.environment",
            "fuselight.foreign_files",
            "fuselight.report",
            "fuselight.torch_api",
            "fuselight.tuned_code",
            "fuselight.tuned_file",
        ),
        ("torch",),
    ),
    Layer(("fuselight.prims",), ("fuselight.torch_api", "fuselight.dynamo", "fuselight.report"), ("torch",)),
    Layer(("fuselight.torch_texts",)),
    Layer(("fuselight.target",), ("fuselight.torch_api", "fuselight.dynamo", *SHARED), ("torch",)),
    Layer(("fuselight.worker.wire",), SHARED),
    Layer(
        ("fuselight.doctor",),
        (
            "fuselight.codec",
            "fuselight.devices",
            "fuselight.environment",
            "fuselight.owned_folders",
            "fuselight.torch_api",
            "fuselight.triton_api",
            "fuselight.version",
        ),
        ("torch",),
    ),
    Layer(
        ("fuselight.measure",),
        (
            "fuselight.torch_api",
            "fuselight.virtual_gpu",
            "fuselight.dynamo",
            "fuselight.inductor",
            "fuselight.runtime",
            "fuselight.target",
            *SHARED,
        ),
        ("torch",),
    ),
    Layer(("fuselight.tune",), ("fuselight.measure", *SHARED)),
    Layer(("fuselight.worker", "fuselight.program", "fuselight.incremental_json"), COMPILER, ("torch",)),
    Layer(("fuselight_server.files",), ("fuselight.foreign_files",)),
    Layer(("fuselight_server.interrupts",)),
    Layer(("fuselight_server.interpreters",), ("fuselight_server.settings",)),
    Layer(("fuselight_server.formatting",), ("fuselight_server.finding",)),
    Layer(("fuselight_server.finding",), ("fuselight.report",)),
    Layer(
        ("fuselight_server.settings", "fuselight_server.store"),
        (*SHARED, *BASE, "fuselight.incremental_json"),
    ),
    Layer(
        ("fuselight_server.static",),
        (*SHARED, *BASE),
        ("tree_sitter", "tree_sitter_python", "libcst"),
    ),
    Layer(("fuselight_server.kernels",), (*SHARED, *BASE)),
    Layer(("fuselight_server.measured",), (*SHARED, *BASE, "fuselight_server.kernels")),
    Layer(
        ("fuselight_server.tuned",),
        (*SHARED, *BASE, "fuselight.tune.knobs", "fuselight_server.kernels", "fuselight_server.measured"),
    ),
    Layer(
        ("fuselight_server.findings",),
        (
            *SHARED,
            *BASE,
            "fuselight_server.kernels",
            "fuselight_server.measured",
            "fuselight_server.static.reading",
        ),
    ),
    Layer(
        ("fuselight_server.fixes",),
        (*SHARED, *BASE, "fuselight_server.findings", "fuselight_server.runs", "fuselight_server.static"),
        ("libcst",),
    ),
    Layer(
        ("fuselight_server.worker_client",),
        (*SHARED, *BASE, "fuselight.worker.wire", "fuselight_server.findings"),
    ),
    Layer(
        ("fuselight_server.runs",),
        (*SHARED, *BASE, "fuselight_server.static", "fuselight_server.worker_client"),
    ),
    Layer(
        ("fuselight_server.sweep",),
        (
            *SHARED,
            *BASE,
            "fuselight.worker.remote_run",
            "fuselight_server.findings",
            "fuselight_server.kernels",
            "fuselight_server.measured",
            "fuselight_server.runs",
            "fuselight_server.static",
            "fuselight_server.tuned",
        ),
    ),
    Layer(
        ("fuselight_server.results",),
        (
            *SHARED,
            *BASE,
            "fuselight_server.findings",
            "fuselight_server.kernels",
            "fuselight_server.measured",
            "fuselight_server.runs",
            "fuselight_server.static",
            "fuselight_server.tuned",
        ),
    ),
    Layer(
        ("fuselight_server.predictions",),
        (*SHARED, *BASE, "fuselight_server.findings", "fuselight_server.static"),
    ),
    Layer(
        ("fuselight_server.graphs",),
        (
            *SHARED,
            *BASE,
            "fuselight_server.findings",
            "fuselight_server.kernels",
            "fuselight_server.results",
        ),
    ),
    Layer(("fuselight_server.session",), (*SHARED, *SERVER)),
    Layer(
        ("fuselight_server.doctor",),
        (
            "fuselight.codec",
            "fuselight.doctor",
            "fuselight_server.settings",
            "fuselight_server.worker_client",
        ),
    ),
    Layer(
        ("fuselight_server.features.convert",),
        (*SHARED, *SERVER),
        ("lsprotocol", "pygls"),
    ),
    Layer(("fuselight_server.features.pipes",)),
    Layer(
        ("fuselight_server.features", "fuselight_server.app"),
        (*SHARED, *SERVER, *DOCTOR),
        ("attrs", "cattrs", "lsprotocol", "pygls"),
    ),
    Layer(
        ("fuselight_server.cli",),
        (*SHARED, *SERVER_CORE, *DOCTOR, "fuselight_server.app"),
    ),
)
FACADES = ("fuselight", "fuselight_server", "fuselight_server.__main__")
PACKAGES = ("fuselight", "fuselight_server")


def _within(module: str, layers: tuple[str, ...]) -> bool:
    return any(module == layer or module.startswith(f"{layer}.") for layer in layers)


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


def _imports(path: Path, module: str) -> Iterator[tuple[int, str]]:
    """Each import as (line, module), `from a import b` as `a.b` where that is a module of ours."""
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


def _layer(module: str) -> Layer | None:
    return next((layer for layer in LAYERS if layer.holds(module)), None)


def _allowed(imported: str, layer: Layer) -> bool:
    top = imported.partition(".")[0]
    if top in PACKAGES:
        # A package's own docstring and version are everybody's.
        return imported in PACKAGES or layer.holds(imported) or _within(imported, layer.project)
    return top in sys.stdlib_module_names or top in layer.libraries


@pytest.mark.parametrize("module", [name for name in MODULES if name not in FACADES])
def test_imports_obey_the_table(module: str) -> None:
    layer = _layer(module)
    assert layer is not None, f"{module} has no layer: add it here and in docs/architecture.md"
    wrong = [
        f"{MODULES[module].relative_to(ROOT)}:{line} imports {imported}"
        for line, imported in _imports(MODULES[module], module)
        if not _allowed(imported, layer)
    ]
    assert not wrong, "\n".join(wrong)


def test_no_module_of_the_language_server_imports_itself_through_others() -> None:
    """Imports under TYPE_CHECKING count: a circle of types is a circle to read."""
    graph = {
        name: {imported for _, imported in _imports(path, name) if imported in MODULES} - {name}
        for name, path in MODULES.items()
        if name.startswith("fuselight_server.") and not name.startswith("fuselight_server.cli")
    }
    while leaves := {name for name, imported in graph.items() if not imported & graph.keys()}:
        for name in leaves:
            del graph[name]
    assert not graph, f"in a circle, or above one: {sorted(graph)}"


def _is_launching(module: str, name: str) -> bool:
    """Whether it is Inductor's Triton runtime in the package that is there for Triton."""
    return _within(module, ("fuselight.triton_api",)) and name.startswith("torch._inductor.runtime")


def test_one_module_imports_triton() -> None:
    """Checks names in the text, because the import is lazy and untyped, so that the table would not find it."""
    importing = re.compile(r"""^\s*(?:import|from) triton\b|import_module\(["']triton\b""", re.MULTILINE)
    found = {name for name, path in MODULES.items() if importing.search(path.read_text(encoding="utf-8"))}
    assert found == {"fuselight.triton_api.names"}


def _root(node: ast.expr) -> str | None:
    """The name that a chain of attributes, calls and subscripts starts with."""
    while isinstance(node, (ast.Attribute, ast.Call, ast.Subscript)):
        node = node.func if isinstance(node, ast.Call) else node.value
    return node.id if isinstance(node, ast.Name) else None


PRIVATE_NAMES = ("fuselight.torch_api", "fuselight.virtual_gpu")
"""The adapter to torch, and the compiler for a GPU that is not there, which is made of Inductor's own parts."""


def test_two_packages_use_torchs_private_names() -> None:
    wrong = []
    for module, path in MODULES.items():
        if _within(module, PRIVATE_NAMES):
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


def test_the_table_in_the_docs_names_every_layer() -> None:
    table = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    names = {module.rpartition(".")[2] for layer in LAYERS for module in layer.modules}
    missing = sorted(name for name in names if name not in table)
    assert not missing, f"docs/architecture.md does not name {missing}"


def test_every_package_rule_matches_a_module() -> None:
    empty = [
        module
        for layer in LAYERS
        for module in layer.modules
        if not any(_within(name, (module,)) for name in MODULES)
    ]
    assert not empty, f"no such module: {empty}"


def test_no_class_name_is_defined_twice() -> None:
    """A reader who searches for a class finds one."""
    defined: dict[str, list[str]] = {}
    for module, path in MODULES.items():
        for node in _nodes(path):
            if isinstance(node, ast.ClassDef):
                defined.setdefault(node.name, []).append(module)
    assert {name: modules for name, modules in defined.items() if len(modules) > 1} == {}
