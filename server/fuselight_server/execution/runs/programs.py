"""Programs among files: a file that compiles something which none of its names stands for.

It compiles in a loop or a function, by `layer.compile()`, or in a module of the workspace that it imports. Its
`__main__` block is run, or the file itself where its statements are the program. Invariant: nothing is run here, and a
file of which nothing can be run is named with the lines on which it compiles.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from fuselight_server.base.files import disk_text
from fuselight_server.execution.runs.planning import PlannedRun, main_run, script_run
from fuselight_server.source.compile_mentions import CompileMentions, compile_mentions
from fuselight_server.source.local_imports import LocalImports, import_folders
from fuselight_server.source.reading import Reading


@dataclass
class Programs:
    """Finds the programs among files, each of which is read once."""

    texts: Mapping[str, str]
    named: frozenset[str]
    """The files that the user named, not a folder of theirs."""
    _imports: LocalImports = field(default_factory=LocalImports)
    _known: dict[str, CompileMentions] = field(default_factory=dict)

    def run_of(self, reading: Reading, roots: Sequence[str]) -> PlannedRun | None:
        """The run of a file without targets that compiles something; None for every other file."""
        if reading.main_line is not None:
            return main_run(reading) if self._compiles(reading.path, roots) else None
        if "compile" not in self.texts.get(reading.path, "") and reading.path not in self.named:
            return None  # cheap: most files of a folder
        line = self._mentions(reading.path).action_line
        if line is None:
            return None
        own = self._mentions(reading.path)
        is_program = own.is_reached or (reading.path in self.named and self._compiles(reading.path, roots))
        return script_run(reading, line) if is_program else None

    def uncalled(self, readings: Sequence[Reading]) -> dict[str, tuple[int, ...]]:
        """The lines on which each file compiles without anything that can be run, by path."""
        paths = [reading.path for reading in readings if "compile" in self.texts.get(reading.path, "")]
        return {path: lines for path in paths if (lines := tuple(self._mentions(path).lines))}

    def _compiles(self, path: str, roots: Sequence[str]) -> bool:
        """Whether a file, or one of the workspace that it imports, calls torch's compiler."""
        if self._mentions(path).lines:
            return True
        files = self._imports.files(path, import_folders(roots)).values()
        return any(self._mentions(file).lines for file in files)

    def _mentions(self, path: str) -> CompileMentions:
        if path not in self._known:
            text = self.texts.get(path)
            text = disk_text(path) if text is None else text
            self._known[path] = compile_mentions(text or "")
        return self._known[path]
