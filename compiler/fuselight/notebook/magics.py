"""The magics: `%%fuselight`, `%fuselight CALL`, `%fuselight_report` and `%fuselight_calls`.

Invariant: a cell below `%%fuselight` runs exactly as without it. An empty line replaces that line, so that IPython
itself compiles, runs and displays the cell, with its lines, its `await` and its exceptions.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib.machinery
import os
import re
import shlex
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NoReturn

from fuselight.notebook import view
from fuselight.notebook.call_log import OFF, CallLog
from fuselight.notebook.cells import KernelCells
from fuselight.notebook.line_call import parse_line, run_line
from fuselight.notebook.recording import KernelRecording, Mark
from fuselight.shared.foreign_files import project_root
from fuselight.shared.kernel_cells import ReportHeading
from fuselight.shared.report import TargetRef

_CELL = re.compile(r"%%fuselight(?![\w?])[ \t]*(?P<options>.*?)\s*$", re.DOTALL)
_NO_LINES = (
    "IPython in a terminal gives cells no files, so findings have no lines. Use a Jupyter kernel to see them."
)
_INTERRUPTED = "The cell was interrupted: the report ends there."
_NOTHING = (
    "torch.compile compiled nothing here: nothing was called, or what was called had been compiled before. "
    "`%%fuselight --reset` drops all compiled code first."
)


class _MagicParser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise _usage_error(f"{self.prog}: {message}. `{self.prog}?` shows its options.")


@dataclass
class _CellReport:
    """A cell under `%%fuselight`, from its first line to its end."""

    label: str
    mark: Mark
    end: contextlib.ExitStack
    remarks: list[str] = field(default_factory=list)


class Magics:
    """The magics of one shell, and what is recorded for them."""

    def __init__(self, shell: Any) -> None:
        self._shell = shell
        self._cells = KernelCells(shell)
        folders = [os.fspath(project_root(os.getcwd())), *filter(None, [self._cells.folder])]
        roots = tuple(dict.fromkeys(folders))
        self._calls = CallLog(self._cells, shell.user_ns, roots, self._notebook)
        self._recording = KernelRecording(roots, self._calls)
        self._open_reports: list[_CellReport] = []
        self._depth = 0
        self._functions: dict[str, tuple[str, Callable[..., Any]]] = {
            "fuselight": ("line_cell", self.fuselight),
            "fuselight_report": ("line", self.report),
            "fuselight_calls": ("line", self.calls),
        }
        self._events = {"pre_run_cell": self._cell_begins, "post_run_cell": self._cell_ends}

    def register(self) -> None:
        """Add the magics to the shell, and record from now on."""
        self._recording.start()
        for name, (kind, function) in self._functions.items():
            self._shell.register_magic_function(function, kind, name)
        for event, listener in self._events.items():
            self._shell.events.register(event, listener)
        self._shell.input_transformers_cleanup.append(self._replaced)
        self._depth = int(self._cells.running() is not None)  # as a rule, a cell loads the extension
        if self._cells.folder is None:
            print(f"fuselight: {_NO_LINES}")  # noqa: T201 - the output of the cell

    def remove(self) -> None:
        """Remove all of it from the shell."""
        self._recording.stop()
        for name, (kind, _) in self._functions.items():
            for table in kind.split("_"):
                self._shell.magics_manager.magics[table].pop(name, None)
        for event, listener in self._events.items():
            with contextlib.suppress(ValueError):
                self._shell.events.unregister(event, listener)
        with contextlib.suppress(ValueError):
            self._shell.input_transformers_cleanup.remove(self._replaced)

    # The magics. Their docstrings are what `%fuselight?` shows.

    def fuselight(self, line: str, cell: str | None = None) -> Any:
        """Show what torch.compile does in a cell, or in one call.

            %%fuselight [--reset]           runs the cell, and shows a report below its output
            %fuselight [--reset] [--backend NAME] net(x)

        --reset         first drops everything that torch has compiled in this kernel
        --backend NAME  compiles what is called, if it is not compiled, with this backend (default: eager)

        A report has graphs, graph breaks and recompilations with the lines of the cells. %fuselight_report shows
        all since %load_ext fuselight, and %fuselight_calls what is recorded of the calls' arguments.
        """
        if cell is not None:
            return self._nested_cell(line, cell)
        options, text = _line_options(line)
        if not text:
            raise _usage_error(
                "%fuselight needs a call, as in `%fuselight net(x)`. `%%fuselight` runs a whole cell."
            )
        parse_line(text)  # a syntax error has no report: nothing runs
        cell_report = self._open(self._label(), reset=options.reset)
        failure: BaseException | None = None
        try:
            result, remarks = run_line(text, options.backend, self._shell, self._cells)
            cell_report.remarks += remarks
        except BaseException as error:
            failure = error
            raise
        finally:
            self._close(cell_report, failure)
        return result

    def report(self, line: str) -> None:
        """Show what torch.compile did in this kernel since %load_ext fuselight, in all cells."""
        if line.strip():
            raise _usage_error("%fuselight_report takes no options")
        remarks = ["Only the last compiles are shown: this kernel has compiled too much to keep all of it."]
        self._show("this kernel", None, remarks if self._recording.dropped else [], None)

    def calls(self, line: str) -> None:
        """Show or change what is recorded of the arguments of compiled calls.

            %fuselight_calls          shows the file, and whether calls are recorded
            %fuselight_calls off      records no more calls in this kernel
            %fuselight_calls on
            %fuselight_calls forget   deletes the file

        The file has shapes, dtypes, strides, devices and short plain values, never the data of a tensor. An editor
        uses it to run the cells with the same inputs.
        """
        word = line.strip()
        actions = {
            "": lambda: None,
            "off": self._calls.turn_off,
            "on": self._turn_on,
            "forget": self._calls.forget_calls,
        }
        if word not in actions:
            raise _usage_error(f"%fuselight_calls takes `on`, `off` or `forget`, not `{word}`")
        actions[word]()
        state = "recorded" if self._calls.is_on else "not recorded"
        exists = "" if os.path.exists(self._calls.path) else " (does not exist)"
        print(f"Calls are {state}. File: {self._calls.path}{exists}")  # noqa: T201 - the output of the cell
        if self._calls.failure:
            print(f"The last calls could not be written: {self._calls.failure}")  # noqa: T201 - the same

    # What IPython calls.

    def _replaced(self, lines: list[str]) -> list[str]:
        """Transform a cell that the user runs. Raises UsageError of IPython."""
        return replace_cell_magic(lines) if self._depth == 0 else lines

    def _cell_begins(self, info: Any) -> None:
        self._depth += 1
        if self._depth > 1:  # code that a cell runs: its `%%fuselight` is a magic like any other
            return
        match = _CELL.match(info.raw_cell.lstrip().partition("\n")[0])
        if match is not None:
            try:
                options = _cell_options(match["options"])
            except _usage_error_class():  # the cell ends with it before its first line
                return
            self._open_reports.append(self._open("cell", reset=options.reset))

    def _cell_ends(self, result: Any = None) -> None:
        if self._depth <= 1:
            while self._open_reports:
                self._end(self._open_reports.pop(), result)
        self._depth = max(self._depth - 1, 0)
        self._calls.write()
        if not self._open_reports:
            self._recording.bound()

    def _end(self, cell_report: _CellReport, result: Any) -> None:
        number = getattr(result, "execution_count", None)
        if number is not None:
            cell_report.label = f"cell [{number}]"
        if getattr(result, "error_before_exec", None) is not None:  # a syntax error: nothing ran
            cell_report.end.close()
        else:
            self._close(cell_report, getattr(result, "error_in_exec", None))

    def _nested_cell(self, line: str, cell: str) -> None:
        """Run a cell that another magic, or a call of `run_cell_magic`, has passed on."""
        cell_report = self._open(self._label(), reset=_cell_options(line).reset)
        failure: BaseException | None = None
        try:
            failure = self._shell.run_cell(cell).error_in_exec
        finally:
            self._close(cell_report, failure)

    def _label(self) -> str:
        running = self._cells.running()
        return running[0].label if running is not None else "cell"

    def _open(self, label: str, *, reset: bool) -> _CellReport:
        remarks = _reset() if reset else []
        end = contextlib.ExitStack()
        mark = end.enter_context(self._recording.run())
        return _CellReport(label, mark, end, remarks)

    def _close(self, cell_report: _CellReport, failure: BaseException | None) -> None:
        cell_report.end.close()
        remarks = list(cell_report.remarks)
        is_cut = failure is not None
        if isinstance(failure, KeyboardInterrupt):
            remarks.append(_INTERRUPTED)
            failure = None
        elif failure is not None:
            remarks.append(f"The cell raised `{type(failure).__name__}`: the report ends there.")
        self._show(cell_report.label, cell_report.mark, remarks, failure, is_complete=not is_cut)

    def _show(
        self,
        label: str,
        since: Mark | None,
        remarks: list[str],
        failure: BaseException | None,
        *,
        is_complete: bool = True,
    ) -> None:
        """Show a report; the cell goes on whatever happens to it."""
        try:
            report = self._recording.recorded_report(TargetRef(label, label, 1, "main"), since)
            report = view.with_failure(report, failure, since.run if since is not None else None)
            is_empty = not (report.compiles or report.breaks or report.not_compiled or report.failures)
            if is_empty and is_complete:
                remarks = [*remarks, _without_compiles()]
            view.show(self._shell, report, self._cells.all(), ReportHeading(label, tuple(remarks)))
        except Exception as error:  # noqa: BLE001 - as the docstring says
            print(f"fuselight: the report could not be shown ({type(error).__name__}: {error})")  # noqa: T201

    def _turn_on(self) -> None:
        if os.environ.get(OFF):
            raise _usage_error(
                f"the variable {OFF} is set: calls are not recorded. Unset it, and load fuselight again."
            )
        self._calls.is_on = True

    def _notebook(self) -> str:
        """The path of the notebook, if the frontend gives it: VS Code does by a variable, Jupyter by the session."""
        named = self._shell.user_ns.get("__vsc_ipynb_file__") or os.environ.get("JPY_SESSION_NAME") or ""
        path = os.path.abspath(str(named)) if named else ""
        return path if path.endswith(".ipynb") and os.path.isfile(path) else ""


def replace_cell_magic(lines: list[str]) -> list[str]:
    """Put an empty line in the place of `%%fuselight`; IPython calls this for each cell. Raises its UsageError."""
    match = _CELL.match(lines[0]) if lines else None
    if match is None:
        return lines
    _cell_options(match["options"])
    body = lines[1:]
    if body and body[0].startswith("%%"):
        from IPython.core.inputtransformer2 import cell_magic  # noqa: PLC0415 - IPython calls this function

        body = cell_magic(body)  # type: ignore[no-untyped-call]
    return ["\n", *body]


def _cell_options(line: str) -> argparse.Namespace:
    parser = _MagicParser(prog="%%fuselight", add_help=False, allow_abbrev=False)
    parser.add_argument("--reset", action="store_true")
    return parser.parse_args(_words(line))


def _line_options(line: str) -> tuple[argparse.Namespace, str]:
    """The options in front of a statement, and the statement as it was written."""
    options = argparse.Namespace(reset=False, backend=None)
    rest = line.strip()
    while rest.startswith("-"):
        word, _, rest = rest.partition(" ")
        name, _, value = word.partition("=")
        if name == "--backend":
            if not value:
                value, _, rest = rest.strip().partition(" ")
            options.backend = value
        elif word == "--reset":
            options.reset = True
        else:
            raise _usage_error(f"%fuselight has no option `{word}`. `%fuselight?` shows its options.")
        rest = rest.strip()
    return options, rest


def _words(line: str) -> list[str]:
    try:
        return shlex.split(line)
    except ValueError as error:
        raise _usage_error(f"%%fuselight: {error}") from None


def _reset() -> list[str]:
    """Drop what torch has compiled; returns remarks."""
    torch = sys.modules.get("torch")
    if torch is None:
        return []
    torch.compiler.reset()
    return ["All compiled code of this kernel was dropped first."]


def _without_compiles() -> str:
    if "torch" in sys.modules:
        return _NOTHING
    if importlib.machinery.PathFinder.find_spec("torch") is None:
        return f"torch is not installed in this kernel ({sys.executable}), so nothing was compiled."
    return "torch is not imported in this kernel, so nothing was compiled."


def _usage_error_class() -> type[Exception]:
    """The exception that IPython shows as one line, without a traceback."""
    from IPython.core.error import UsageError  # noqa: PLC0415 - only IPython calls what is here

    return UsageError


def _usage_error(message: str) -> Exception:
    return _usage_error_class()(message)
