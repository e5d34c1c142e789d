"""New texts of files and of cells of notebooks, as a person or an agent writes them, as the texts that are verified.

Invariant: a notebook is verified as the module of its cells; its other cells stay as they are.
"""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from fuselight.shared.foreign_files import read_regular
from fuselight.shared.notebooks.cells import PYTHON, SUFFIX, Cell, NotebookError, read_python_cells
from fuselight.shared.notebooks.module_text import module_of_notebook, module_text, python_of_cell
from fuselight_server.base.command_error import CommandError
from fuselight_server.base.files import within
from fuselight_server.base.unified_diff import DiffError, MissingFileError, apply_diff
from fuselight_server.commands.notebook_lines import cell_of
from fuselight_server.commands.sources import SourceFiles, file_encoding, shown_path
from fuselight_server.source.notebooks.module import module_of_text


def named_text(path: str, sources: SourceFiles) -> str | None:
    """The text of a file, or of a cell as its notebook has it; None if there is none."""
    file, number = cell_of(path)
    if number is None:
        return sources.text_or_none(path)
    cells = _cells(file, sources)
    return f"{cells[number - 1].text}\n" if 0 < number <= len(cells) else None


def diff_texts(diff: bytes, folder: Path, sources: SourceFiles) -> dict[str, str]:
    """The new texts of a diff, by the absolute path of a file or cell. Raises DiffError.

    The paths in a diff are relative to the folder in which it applies: `folder`, or the nearest one above it that has
    the files, as in a diff of git's. A diff that is not UTF-8 has the lines of each file in the encoding of the file.
    """
    is_text = True
    try:
        text = diff.decode("utf-8-sig")
    except UnicodeDecodeError:
        is_text, text = False, diff.decode("utf-8", "surrogateescape")
    missing: MissingFileError | None = None
    for base in _bases(folder):
        files = _FilesOfDiff(base, sources, is_text=is_text)
        try:
            return files.named(apply_diff(text, files.read))
        except MissingFileError as error:
            missing = missing or error
    raise missing or DiffError("the diff has no hunk")


def _bases(folder: Path) -> Iterator[Path]:
    """The folder and those above it in which a diff may apply: not the home, what is above it, and the root."""
    yield folder
    home = Path.home()
    for above in folder.parents:
        if above in (home, *home.parents) or above == above.parent:
            return
        yield above


@dataclass(frozen=True)
class _FilesOfDiff:
    """The files that a diff names, with texts that its lines can be compared with."""

    folder: Path
    sources: SourceFiles
    is_text: bool
    """Whether the lines are text; else the bytes of each file, where what is not UTF-8 stands as surrogates."""

    def _path(self, name: str) -> str:
        """The path of a file. Raises DiffError where it leaves the folder, as git does."""
        path = os.path.abspath(self.folder / name)  # noqa: PTH100 - as commands/sources.py names files
        file, _ = cell_of(path)
        folder = str(self.folder)
        if within(path, folder) and within(os.path.realpath(file), os.path.realpath(folder)):
            return path
        raise DiffError(
            f"the diff names `{name}`, which is outside of the folder or leads out of it by a link"
        )

    def read(self, name: str) -> str | None:
        """The text of a file or cell; None if there is none."""
        path = self._path(name)
        text = named_text(path, self.sources)
        if text is None or self.is_text:
            return text
        return text.encode(file_encoding(path)).decode("utf-8", "surrogateescape")

    def named(self, texts: Mapping[str, str]) -> dict[str, str]:
        """The texts by absolute path, decoded as Python does. Raises DiffError."""
        return {(path := self._path(name)): self._decoded(path, text) for name, text in texts.items()}

    def _decoded(self, path: str, text: str) -> str:
        encoding = "utf-8" if self.is_text else file_encoding(path)
        try:
            return text if self.is_text else text.encode("utf-8", "surrogateescape").decode(encoding)
        except UnicodeDecodeError:
            raise DiffError(f"the new text of `{shown_path(path)}` is not {encoding}") from None


def file_texts(changed: Mapping[str, str], sources: SourceFiles) -> dict[str, str]:
    """The new text of each file. `changed`: by the path of a file or cell. Raises CommandError."""
    texts: dict[str, str] = {}
    cells: dict[str, list[Cell]] = {}
    for path, text in changed.items():
        file, number = cell_of(path)
        if number is None:
            texts[path] = _module(path, text) if path.endswith(SUFFIX) else text
            continue
        of_file = cells.setdefault(file, list(_cells(file, sources)))
        if not 0 < number <= len(of_file):
            raise CommandError(f"`{shown_path(file)}` has no cell {number}. Nothing was verified.")
        of_file[number - 1] = dataclasses.replace(of_file[number - 1], text=text.removesuffix("\n"))
    both = next((file for file in cells if file in texts), None)
    if both is not None:
        raise CommandError(
            f"the change names `{shown_path(both)}` and a cell of it. Name either. Nothing was verified."
        )
    return texts | {file: module_text(map(python_of_cell, of_file)) for file, of_file in cells.items()}


def _module(path: str, text: str) -> str:
    """The module of a notebook's new text, which is the file's JSON or the module already."""
    if not text.lstrip("\ufeff \t\r\n").startswith("{"):
        return text
    try:
        return module_of_notebook(text)
    except NotebookError as error:
        raise CommandError(
            f"the new text of `{shown_path(path)}` is no notebook: {error}. Nothing was verified."
        ) from None


def _cells(file: str, sources: SourceFiles) -> Sequence[Cell]:
    """The code cells of a notebook; of a text that is not on disk, its module's, without commands of IPython."""
    if file in sources.given:
        module = module_of_text(sources.given[file])
        return [Cell(cell.id, PYTHON, "\n".join(cell.python.lines), cell.number) for cell in module.cells]
    try:
        return read_python_cells(read_regular(file))
    except (OSError, NotebookError):
        return ()
