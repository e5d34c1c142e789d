"""A real kernel of Jupyter, which runs cells and gives what a frontend would show of each."""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.support.prepared import program_interpreter

SECONDS = 240.0
"""How long a cell may take: a kernel imports torch beside other tests."""
_LAUNCHER = """\
import os
os.environ["JPY_PARENT_PID"] = str(os.getppid())
from ipykernel import kernelapp
kernelapp.launch_new_instance()
"""
"""The kernel ends with its parent, which is not the client where it is a fork."""
_STYLE = re.compile(r"\x1b\[[\d;]*m")


@dataclass
class ShownCell:
    """What a frontend shows below one cell."""

    status: str = ""
    streams: str = ""
    result: str = ""
    error: str = ""
    texts: list[str] = field(default_factory=list)
    """What was displayed, as plain text."""
    pages: list[str] = field(default_factory=list)
    """The same as HTML."""
    order: list[str] = field(default_factory=list)
    """The kinds of messages, in their order."""

    @property
    def report(self) -> str:
        """The only report."""
        (text,) = self.texts
        return text

    @property
    def codes(self) -> list[str]:
        """`GB0059 cell [2]:9` for each finding of the only report."""
        return [f"{code} {place}" for code, place in _FINDING.findall(self.report)]


_FINDING = re.compile(r"^\w+\[(\w+)\]: .*\n *--> (.+:\d+):\d+$", re.MULTILINE)


class NotebookKernel:
    """A kernel that runs. `run` waits for a cell to end."""

    def __init__(self, folder: Path, variables: Mapping[str, str]) -> None:
        from jupyter_client.kernelspec import KernelSpec  # noqa: PLC0415 - the unit ring has no Jupyter
        from jupyter_client.manager import KernelManager  # noqa: PLC0415 - the same

        self._manager: Any = KernelManager(connection_file=str(folder / "connection.json"))
        argv = [program_interpreter(), "-c", _LAUNCHER, "-f", "{connection_file}"]
        self._manager._kernel_spec = KernelSpec(argv=argv, display_name="Python", language="python")
        variables = {"IPYTHONDIR": str(folder / "ipython"), **variables}
        self._manager.start_kernel(cwd=str(folder), env={**os.environ, **variables})
        self._client: Any = self._manager.client()
        self._client.start_channels()
        self._client.wait_for_ready(timeout=SECONDS)

    def run(self, cell: str, *, on_output: Callable[[], None] | None = None) -> ShownCell:
        """Run a cell. `on_output` is called once, when it first prints something."""
        shown = ShownCell()

        def take(message: dict[str, Any]) -> None:
            nonlocal on_output
            kind, content = message["msg_type"], message["content"]
            if kind in _TAKEN:
                _TAKEN[kind](shown, content)
                shown.order.append(kind)
            if kind == "stream" and (then := on_output) is not None:
                on_output = None
                then()

        reply = self._client.execute_interactive(cell, output_hook=take, timeout=SECONDS, allow_stdin=False)
        shown.status = reply["content"]["status"]
        return shown

    def interrupt(self) -> None:
        """Interrupt the cell that runs, as the button of a frontend does."""
        self._manager.interrupt_kernel()

    def restart(self) -> None:
        """Start again, with nothing defined."""
        self._manager.restart_kernel(now=True)
        self._client.wait_for_ready(timeout=SECONDS)

    def close(self) -> None:
        """End the kernel."""
        self._client.stop_channels()
        self._manager.shutdown_kernel(now=True)
        self._manager.cleanup_resources()


@contextlib.contextmanager
def started_kernel(folder: Path, **variables: str) -> Iterator[NotebookKernel]:
    """A kernel in a folder, which ends with the block."""
    kernel = NotebookKernel(folder, variables)
    try:
        yield kernel
    finally:
        kernel.close()


def _displayed(shown: ShownCell, content: dict[str, Any]) -> None:
    shown.texts.append(content["data"]["text/plain"])
    shown.pages.append(content["data"].get("text/html", ""))


def _streamed(shown: ShownCell, content: dict[str, Any]) -> None:
    shown.streams += content["text"]


def _returned(shown: ShownCell, content: dict[str, Any]) -> None:
    shown.result = content["data"]["text/plain"]


def _failed(shown: ShownCell, content: dict[str, Any]) -> None:
    shown.error = _STYLE.sub("", "\n".join(content["traceback"]))


_TAKEN: dict[str, Callable[[ShownCell, dict[str, Any]], None]] = {
    "display_data": _displayed,
    "stream": _streamed,
    "execute_result": _returned,
    "error": _failed,
}
