"""Every read goes through the readers of what others wrote; each that does not is named here, with the reason.

`foreign_files` opens files within bounds, `foreign_data` parses them within bounds. A call that opens, unpacks or
parses by itself is found by syntax tree.
"""

from __future__ import annotations

import ast
import functools
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SOURCES = sorted([*ROOT.glob("compiler/**/*.py"), *ROOT.glob("server/**/*.py")])
FUNCTIONS = frozenset({"open"})
METHODS = frozenset(
    {"read_text", "read_bytes", "getlines", "literal_eval", "genops", "run_path", "run_module"}
)
OF_MODULES = {
    **{
        name: {"load", "loads"}
        for name in ("json", "pickle", "tomllib", "marshal", "plistlib", "yaml", "torch")
    },
    "ast": {"parse"},
    "os": {"open", "fdopen", "popen"},
    "io": {"open", "open_code", "FileIO"},
    "codecs": {"open"},
    "tokenize": {"open"},
    "gzip": {"open", "decompress", "GzipFile"},
    "bz2": {"open", "decompress", "BZ2File"},
    "lzma": {"open", "decompress", "LZMAFile"},
    "zlib": {"decompress"},
    "zipfile": {"ZipFile"},
    "tarfile": {"open", "TarFile"},
    "shelve": {"open"},
    "sqlite3": {"connect"},
    "mmap": {"mmap"},
    "configparser": {"ConfigParser", "RawConfigParser"},
    "fileinput": {"input"},
}
_NAMES = re.compile("|".join(FUNCTIONS.union(METHODS, *OF_MODULES.values())).encode())
READERS = frozenset(
    {
        "compiler/fuselight/shared/foreign_data.py",
        "compiler/fuselight/shared/foreign_files.py",
    }
)
"""The readers themselves."""
NOTHING = "opens the null device"
SYSTEM = "files of the kernel in /proc and /sys"
PACKAGED = "files of Fuselight's own package"
OWN = "what this process or its parent wrote, in a folder of its own with mode 0700"
ANSWER = "JSON of a process of ours, which encoded it"
CACHES = "torch's own caches, which torch runs with or without Fuselight"
WRITES = "writes a new file"
USER_CODE = "the user's code in the process that runs it, after consent"
PASSED: dict[str, str] = {
    "server/fuselight_server/__init__.py": NOTHING,
    "server/fuselight_server/base/pipes.py": NOTHING,
    "server/fuselight_server/cli/command_line.py": NOTHING,
    "server/fuselight_server/cli/formats/annotations.py": PACKAGED,
    "server/fuselight_server/cli/verify.py": "a diff that the user names, maybe a pipe; its bytes are bounded",
    "server/fuselight_server/editor/handlers/protocol.py": ANSWER,
    "server/fuselight_server/execution/launched_ranks.py": SYSTEM,
    "server/fuselight_server/execution/programs.py": SYSTEM,
    "server/fuselight_server/explain/pages/document.py": PACKAGED,
    "server/fuselight_server/explain/findings/breaks/torch_causes.py": "a literal within a message of torch",
    "server/fuselight_server/jobs/trace_log/files.py": "a log of any size, which is streamed in bounded memory",
    "server/fuselight_server/fixes/verification/change_context.py": "a literal of a parsed file",
    "server/fuselight_server/sweep/suites.py": "TOML of bounded size, and a literal of a parsed file",
    "server/fuselight_server/fixes/verification/file_texts.py": WRITES,
    "server/fuselight_server/sweep/uploads.py": WRITES,
    "compiler/fuselight/shared/folder_lock.py": "opens a folder, to lock it",
    "compiler/fuselight/shared/tuned_file.py": WRITES,
    "compiler/fuselight/shared/codec.py": PACKAGED,
    "compiler/fuselight/shared/version.py": PACKAGED,
    "compiler/fuselight/shared/report/visible.py": "one character",
    "compiler/fuselight/shared/wire.py": ANSWER,
}


def _calls(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """The line and the name of each call that opens, unpacks or parses."""
    nodes = [node for node in ast.walk(tree) if isinstance(node, (ast.Call, ast.ImportFrom))]
    aliases = {
        alias.asname or alias.name: f"{node.module}.{alias.name}"
        for node in nodes
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
        if alias.name in OF_MODULES.get(node.module or "", ())
    }
    for node in nodes:
        if not isinstance(node, ast.Call):
            continue
        function = node.func
        if isinstance(function, ast.Name) and (function.id in FUNCTIONS or function.id in aliases):
            yield node.lineno, aliases.get(function.id, function.id)
        elif isinstance(function, ast.Attribute):
            module = function.value.id if isinstance(function.value, ast.Name) else ""
            is_module = module in OF_MODULES
            if function.attr in METHODS or function.attr in (
                OF_MODULES[module] if is_module else _path_open(node)
            ):
                yield node.lineno, f"{module}.{function.attr}"


def _path_open(node: ast.Call) -> frozenset[str]:
    """`Path.open` takes a mode or an encoding; other methods of this name take neither."""
    texts = [argument.value for argument in node.args if isinstance(argument, ast.Constant)]
    takes_mode = any(isinstance(text, str) and set(text) <= set("rwxab+t") for text in texts)
    return frozenset({"open"} if takes_mode or any(item.arg == "encoding" for item in node.keywords) else ())


@functools.cache
def _reads() -> dict[str, list[tuple[int, str]]]:
    texts = ((path, path.read_bytes()) for path in SOURCES)
    reads = {
        path.relative_to(ROOT).as_posix(): list(_calls(ast.parse(text)))
        for path, text in texts
        if _NAMES.search(text)
    }
    return {path: calls for path, calls in reads.items() if calls and path not in READERS}


ROOMS = {
    "compiler/fuselight/adapters/": CACHES,
    "compiler/fuselight/capture/": USER_CODE,
    "compiler/fuselight/doctor/": ANSWER,
    "compiler/fuselight/measure/": SYSTEM,
    "compiler/fuselight/notebook/": USER_CODE,
    "compiler/fuselight/replay/": OWN,
    "compiler/fuselight/worker/": OWN,
}
"""Rooms that run in the user's own Python, after consent: they read what they wrote, or the user's code."""


@pytest.mark.slow
def test_every_read_goes_through_the_readers() -> None:
    around = {
        path: calls
        for path, calls in _reads().items()
        if path not in PASSED and not path.startswith(tuple(ROOMS))
    }
    assert not around, "read it with foreign_files and foreign_data, or name it in PASSED with the reason"


@pytest.mark.slow
def test_each_file_that_is_named_still_reads_by_itself() -> None:
    reads = _reads()
    assert not [path for path in PASSED if path not in reads]
    assert not [room for room in ROOMS if not any(path.startswith(room) for path in reads)]


@pytest.mark.parametrize(
    "text",
    [
        "open(p)",
        "with open(p, 'rb') as file: pass",
        "Path(p).open('rb')",
        "p.open(encoding='utf-8')",
        "p.read_text()",
        "Path(p).read_bytes()",
        "json.loads(x)",
        "json.load(f)",
        "from json import loads as read\nread(x)",
        "pickle.load(f)",
        "zipfile.ZipFile(p)",
        "gzip.decompress(x)",
        "gzip.GzipFile(fileobj=f)",
        "tomllib.loads(x)",
        "ast.parse(x)",
        "ast.literal_eval(x)",
        "tarfile.open(p)",
        "torch.load(p)",
        "runpy.run_path(p)",
        "os.open(p, os.O_RDONLY)",
    ],
)
def test_a_read_is_found(text: str) -> None:
    assert list(_calls(ast.parse(text)))


@pytest.mark.parametrize(
    "text", ["jobs.open(path)", "parse_json(x)", "read_regular(p)", "self.open()", "urllib.parse(x)"]
)
def test_what_reads_nothing_is_not_found(text: str) -> None:
    assert not list(_calls(ast.parse(text)))
