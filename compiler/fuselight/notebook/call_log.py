"""The calls of a kernel that compile, as descriptions that later runs of the cells use as inputs.

Invariant: nothing but descriptions is kept, and nothing is written once the user has turned it off.
"""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Callable, Iterator, Mapping
from types import CodeType, FunctionType, MethodType
from typing import Any

from fuselight.notebook.cells import KernelCells
from fuselight.shared.inputs import DirectiveError, parse_directive
from fuselight.shared.inputs.records import ConstructorCalls, call_text, is_resumed, owner_of, text_of_call
from fuselight.shared.kernel_calls import (
    MAX_CALLS,
    KernelCall,
    KernelCalls,
    calls_path,
    merged,
    read_calls,
    write_calls,
)
from fuselight.shared.report import is_user_file, text_key

OFF = "FUSELIGHT_NO_RECORDED_CALLS"
"""The environment variable that turns recording of calls off."""


class CallLog:
    """The recorded calls of one notebook. `names` gives the variables of the user."""

    def __init__(
        self,
        cells: KernelCells,
        names: Mapping[str, Any],
        roots: tuple[str, ...],
        notebook: Callable[[], str],
    ) -> None:
        self._cells, self._names, self._roots, self._notebook = cells, names, roots, notebook
        self._new: dict[KernelCall, None] = {}
        self.is_on = not os.environ.get(OFF)
        self.failure = ""
        """Why the last calls could not be written."""

    @property
    def path(self) -> str:
        """The file."""
        return os.fspath(calls_path(self._notebook(), os.getcwd()))

    def called(self, code: CodeType, f_locals: Mapping[str, object], constructors: ConstructorCalls) -> None:
        """Describe a call that is being compiled."""
        if not self.is_on or is_resumed(code):
            return
        cell = self._cells.cell(code.co_filename)
        running = self._cells.running()
        key = text_key(cell.text) if cell is not None else text_key(running[0].text) if running else ""
        if is_user_file(code.co_filename, self._roots):
            self._add(*call_text(code, f_locals, constructors), key)
        for name in self._variables(code, f_locals):
            self._add(name, text_of_call(name, code, f_locals), key)

    def write(self) -> None:
        """Write the calls that are new, if there are any."""
        if not self._new or not self.is_on:
            return
        path = calls_path(self._notebook(), os.getcwd())
        older = read_calls(path)
        calls = merged(older.calls if older is not None else (), self._new)
        try:
            write_calls(path, KernelCalls(self._notebook(), calls))
        except OSError as error:
            self.failure = str(error)
        self._new.clear()

    def turn_off(self) -> None:
        """Record no more calls, and drop those that are not written yet."""
        self.is_on = False
        self._new.clear()

    def forget_calls(self) -> None:
        """Delete the file. Raises OSError."""
        self._new.clear()
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self.path)

    def _add(self, target: str, text: str, key: str) -> None:
        try:
            parse_directive(text)
        except DirectiveError:  # a value without a notation: such a call cannot be repeated
            return
        call = KernelCall(target, text, key)
        self._new.pop(call, None)
        self._new[call] = None
        if len(self._new) > MAX_CALLS:
            del self._new[next(iter(self._new))]

    def _variables(self, code: CodeType, f_locals: Mapping[str, Any]) -> Iterator[str]:
        """The user's variables that hold what is compiled: `net = torch.compile(Net())`."""
        from fuselight.adapters.torch_api.dynamo import targets  # noqa: PLC0415 - torch, which compiles just now

        owner, module = owner_of(code, f_locals), sys.modules["torch"].nn.Module
        for name, value in list(self._names.items()):
            if name.startswith("_") or name == code.co_name:
                continue
            if isinstance(value, module):
                is_called = owner is not None and getattr(value, "_orig_mod", value) is owner
            else:
                is_called = isinstance(value, (FunctionType, MethodType)) and targets.code_of(value) is code
            if is_called and targets.is_compiled(value):
                yield name
