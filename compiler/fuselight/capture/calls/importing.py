"""Import the user's file as the editor has it: unsaved buffers count, and workspace modules come from their source.

Invariant: for a module of the workspace the text that runs is the overlay's, else the file's as it is now, or as it was
when the first process of the same measurement read it. No cached
bytecode is read for them, because a `.pyc` is matched by size and whole second of change: two quick saves of the same
length would run the older text. `sys.path`, `__name__` and `sys.argv` are as `python file.py` would set them.
A notebook is the module of its cells, of which only those above the target and its own run (`shared/notebooks/`). A
statement of it that fails, and that the target does not need, is noted as left out.
"""

from __future__ import annotations

import ast
import asyncio
import contextlib
import importlib
import importlib.abc
import importlib.machinery
import importlib.util
import inspect
import linecache
import os
import sys
import types
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from fuselight.capture.calls.devices import may_name_device, redirect_devices
from fuselight.capture.calls.kept_texts import kept_text
from fuselight.shared.notebooks.cells import SUFFIX
from fuselight.shared.notebooks.effects import bound_names
from fuselight.shared.notebooks.module_text import module_of_notebook
from fuselight.shared.notebooks.run_selection import LeftOut, RunSelection, select_statements
from fuselight.shared.report import Location, Note, data_key, is_user_file

_NEVER_SHADOWED = frozenset({"torch", "fuselight"})
"""Without the real ones there is no run; the user's file of that name would end theirs, too."""


_FAILED = "__fuselight_failed__"
"""The name by which the module of a notebook calls its `FailedStatements`, while it is imported."""


class FailedStatements:
    """The statements of a notebook that failed, and without which the target is the same."""

    caught = Exception

    def __init__(self, path: str, statements: Sequence[ast.stmt], notes: list[Note]) -> None:
        self._path, self._statements, self._notes = path, statements, notes
        self._lost: set[str] = set()

    def __call__(self, row: int) -> None:
        """Note that the statement with this index raised the exception that is handled now."""
        error, statement = sys.exc_info()[1], self._statements[row]
        missing = getattr(error, "name", None) if isinstance(error, NameError) else None
        if missing in self._lost:
            reason = f"needs `{missing}`, which is left out"
        else:
            message = (str(error).splitlines() or [""])[0]
            reason = f"raised {type(error).__name__}{': ' if message else ''}{message}, and the target does not need it"
        self._lost.update(bound_names(statement))
        self._notes.append(
            _note_left_out("statement_left_out", f"this statement {reason}", self._path, statement)
        )


@dataclass
class Sources:
    """Where workspace modules come from in one run, and what was done to them on the way."""

    roots: tuple[str, ...]
    overlays: Mapping[str, str] = field(default_factory=dict)
    redirect: bool = False
    """Whether a hard-coded CUDA device becomes the CPU."""
    redirect_numbers: bool = False
    """Whether a number that is used as a device becomes the CPU too."""
    notes: list[Note] = field(default_factory=list)
    files: dict[str, str] = field(default_factory=dict)
    """The workspace files that were run, each with the key of its text as it was then."""
    texts: dict[str, bytes] = field(default_factory=dict)
    """Those texts, if `keeps_texts`."""
    keeps_texts: bool = False
    kept: str = ""
    """Folder of the texts that all processes of a measurement run (`kept_texts`); empty for a process alone."""
    target: tuple[str, int] | None = None
    """The notebook of the target and its line there: the cells after it do not run. None: all cells of a notebook."""
    failed_statements: FailedStatements | None = None
    """Of that notebook."""
    before_user_code: Callable[[], None] | None = None
    """Called once, before the first code of the user's runs: all changes of `sys.modules` until then are ours."""

    def text_of(self, path: str, read: Callable[[], bytes]) -> bytes:
        """The text of a workspace file. `read` reads it from the disk, and its exceptions are raised.

        Raises NotebookError for a damaged notebook.
        """
        text = self.overlays.get(path)
        if text is not None:
            return text.encode("utf-8", "surrogatepass")
        data = kept_text(self.kept, path, read) if self.kept else read()
        return module_of_notebook(data).encode("utf-8", "surrogatepass") if path.endswith(SUFFIX) else data

    def enter_user_code(self) -> None:
        """Note that code of the user's runs next."""
        notify, self.before_user_code = self.before_user_code, None
        if notify is not None:
            notify()

    def is_users(self, path: str) -> bool:
        """Whether `path` is the user's: a file of the workspace, or one that the editor has open."""
        return path in self.overlays or is_user_file(path, self.roots)


class _Loader(importlib.machinery.SourceFileLoader):
    """Compiles a module from its text of now."""

    def __init__(self, name: str, path: str, sources: Sources) -> None:
        super().__init__(name, path)
        self._sources = sources

    def get_data(self, path: str) -> bytes:
        return self._sources.text_of(path, lambda: super(_Loader, self).get_data(path))

    def get_code(self, fullname: str) -> types.CodeType:
        path = self.get_filename(fullname)
        return compile_source(self.get_data(path), path, self._sources)

    def exec_module(self, module: types.ModuleType) -> None:
        if self.path.endswith(SUFFIX):
            code = self.get_code(module.__name__)
            module.__dict__[_FAILED] = self._sources.failed_statements
            _execute(code, module.__dict__)
            module.__dict__.pop(_FAILED, None)
        else:
            super().exec_module(module)


def compile_source(data: bytes, path: str, sources: Sources) -> types.CodeType:
    """Compile a workspace file, with its devices redirected if the run asks for that. Raises SyntaxError."""
    sources.files[path] = data_key(data)
    if sources.keeps_texts:
        sources.texts[path] = data
    if sources.kept:
        with contextlib.suppress(SyntaxError, UnicodeDecodeError):  # which compiling it raises
            _show(path, importlib.util.decode_source(data))
    if path.endswith(SUFFIX):
        return _compile_notebook(data.decode("utf-8", "surrogatepass"), path, sources)
    source: Any = data
    if sources.redirect and (may_name_device(data.decode("latin-1")) or sources.redirect_numbers):
        source = ast.parse(data, path)
        sources.notes.extend(redirect_devices(source, path, numbers=sources.redirect_numbers))
    code: types.CodeType = compile(source, path, "exec", dont_inherit=True)
    return code


def _compile_notebook(text: str, path: str, sources: Sources) -> types.CodeType:
    """Compile what runs of a notebook, and note what does not."""
    line = sources.target[1] if sources.target is not None and sources.target[0] == path else None
    selection = select_statements(text, line)
    sources.notes.extend(_left_out(selection, path))
    if sources.redirect and (may_name_device(text) or sources.redirect_numbers):
        sources.notes.extend(redirect_devices(selection.tree, path, numbers=sources.redirect_numbers))
    body = selection.tree.body
    if selection.optional:
        sources.failed_statements = FailedStatements(path, tuple(body), sources.notes)
        body = [_tolerant(node, row) if row in selection.optional else node for row, node in enumerate(body)]
    tree = ast.Module(body, [])
    code: types.CodeType = compile(tree, path, "exec", selection.flags, dont_inherit=True)
    return code


def _tolerant(statement: ast.stmt, row: int) -> ast.stmt:
    """Return a statement whose exceptions are noted."""
    hook = ast.Name(_FAILED, ast.Load())
    note = ast.Expr(ast.Call(hook, [ast.Constant(row)], []))
    handler = ast.ExceptHandler(ast.Attribute(hook, "caught", ast.Load()), None, [note])
    attempt = ast.copy_location(ast.Try([statement], [handler], [], []), statement)
    return ast.fix_missing_locations(attempt)


def _note_left_out(kind: str, words: str, path: str, node: LeftOut | ast.stmt) -> Note:
    line, end_line = (
        (node.line, node.end_line)
        if isinstance(node, LeftOut)
        else (node.lineno, node.end_lineno or node.lineno)
    )
    return Note(kind, f"left out of the run: {words}", Location(path, line, end_line=end_line))


def _left_out(selection: RunSelection, path: str) -> Iterator[Note]:
    for left_out in selection.left_out:
        kind = "cell_left_out" if left_out.is_broken else "statement_left_out"
        subject = "this cell" if left_out.is_broken else "this statement"
        yield _note_left_out(kind, f"{subject} {left_out.reason}", path, left_out)


def _execute(code: types.CodeType, names: dict[str, Any]) -> None:
    """Run a module. That of a notebook may wait for coroutines, as IPython lets its cells do."""
    if code.co_flags & inspect.CO_COROUTINE:
        asyncio.run(eval(code, names))  # noqa: S307 - running the user's file is what was asked for
    else:
        exec(code, names)  # noqa: S102 - as above


class _ImportFinder(importlib.abc.MetaPathFinder):
    """First on `sys.meta_path`: lets the others find, and takes over what is the workspace's."""

    def __init__(self, sources: Sources) -> None:
        self._sources = sources

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: types.ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        for finder in sys.meta_path:
            find = getattr(finder, "find_spec", None)
            if finder is self or find is None:
                continue
            spec = find(fullname, path, target)
            if spec is not None:
                return self._taken_over(spec)
        return self._unsaved(fullname, sys.path if path is None else path)

    def _taken_over(self, spec: importlib.machinery.ModuleSpec) -> importlib.machinery.ModuleSpec | None:
        origin = spec.origin
        if origin is None or not origin.endswith(".py") or not self._sources.is_users(origin):
            return spec
        spec.loader = _Loader(spec.name, origin, self._sources)
        spec.cached = None
        return spec

    def _unsaved(self, fullname: str, path: Iterable[str]) -> importlib.machinery.ModuleSpec | None:
        """Find a module that exists in an unsaved buffer only."""
        tail = fullname.rpartition(".")[2]
        for entry in path:
            for candidate, package in ((f"{tail}/__init__.py", True), (f"{tail}.py", False)):
                origin = os.path.join(entry or os.getcwd(), candidate)
                if origin in self._sources.overlays:
                    loader = _Loader(fullname, origin, self._sources)
                    places = [os.path.dirname(origin)] if package else None
                    return importlib.util.spec_from_file_location(
                        fullname, origin, loader=loader, submodule_search_locations=places
                    )
        return None


def install(sources: Sources) -> None:
    """Make imports of this process come from `sources`."""
    sys.meta_path.insert(0, _ImportFinder(sources))
    # As importlib.invalidate_caches does. A host has finders for hundreds of further folders, those inside libraries.
    # They notice changed folders by themselves, and to write to all of them is to copy them in each fork.
    for folder in sys.path:
        sys.path_importer_cache.pop(folder, None)
    for path, text in sources.overlays.items():
        _show(path, text)


def _show(path: str, text: str) -> None:
    """Have tracebacks show the lines of a text. Without a time of change linecache never goes back to the disk."""
    linecache.cache[path] = (len(text), None, text.splitlines(keepends=True), path)


def module_place(path: str) -> tuple[str, str]:
    """Return the dotted name of the module in `path`, and the folder that belongs first on `sys.path` for it."""
    folder, file = os.path.split(path)
    parts = [] if file == "__init__.py" else [os.path.splitext(file)[0]]
    while os.path.isfile(os.path.join(folder, "__init__.py")) and os.path.dirname(folder) != folder:
        folder, name = os.path.split(folder)
        parts.append(name)
    return ".".join(reversed(parts)), folder


def prepare_path(path: str, roots: Sequence[str], started_with: frozenset[str]) -> tuple[str, list[str]]:
    """Set `sys.path` for the file `path`; return its module name and the names of the modules that were removed.

    The workspace's folders come last, as a convenience for files that are run as `python -m` from there: at the end
    they shadow nothing. A library that the host has imported gives way to a file of the user's with its name.
    """
    name, folder = module_place(path)
    sys.path.insert(0, folder)
    for root in roots:
        for place in (root, os.path.join(root, "src")):
            if place not in sys.path and os.path.isdir(place):
                sys.path.append(place)
    removed = []
    for top in _top_names(folder) - started_with - _NEVER_SHADOWED:
        if top in sys.modules and _shadows(folder, top):
            removed += [module for module in sys.modules if module == top or module.startswith(top + ".")]
    for module in removed:
        del sys.modules[module]
    return name, removed


def _top_names(folder: str) -> set[str]:
    """Return the names of the modules and packages that a folder may have."""
    try:
        return {entry.removesuffix(".py") for entry in os.listdir(folder)}
    except OSError:
        return set()


def _shadows(folder: str, top: str) -> bool:
    places = (os.path.join(folder, f"{top}.py"), os.path.join(folder, top, "__init__.py"))
    place = next(filter(os.path.isfile, places), None)
    return place is not None and getattr(sys.modules.get(top), "__file__", None) != place


def import_file(path: str, name: str, sources: Sources) -> types.ModuleType:
    """Import the file as the module `name`. Raises what the user's code raises."""
    parent, _, _ = name.rpartition(".")
    if parent:
        sources.enter_user_code()
        importlib.import_module(parent)
    if name in sys.modules and getattr(sys.modules[name], "__file__", None) == path:
        return sys.modules[name]  # the package's own __init__ has imported it
    package = os.path.basename(path) == "__init__.py"
    spec = importlib.util.spec_from_file_location(
        name,
        path,
        loader=_Loader(name, path, sources),
        submodule_search_locations=[os.path.dirname(path)] if package else None,
    )
    if spec is None or spec.loader is None:
        raise ImportError(f"{path} cannot be imported as {name}")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    sources.enter_user_code()
    spec.loader.exec_module(module)
    return sys.modules.get(name, module)


def run_as_main(path: str, sources: Sources, argv: Sequence[str]) -> None:
    """Run the file as `python path *argv` would. Raises what it raises, and NotebookError."""
    sys.argv = [path, *argv]
    module = types.ModuleType("__main__")
    loader = _Loader("__main__", path, sources)
    module.__dict__.update(__file__=path, __builtins__=__builtins__, __loader__=loader, __spec__=None)
    sys.modules["__main__"] = module
    code = compile_source(loader.get_data(path), path, sources)
    sources.enter_user_code()
    _execute(code, module.__dict__)
