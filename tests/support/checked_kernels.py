"""Checks files of Triton kernels as a run does, in this process. A line with a fault ends with `# expect: FLnnn`."""

from __future__ import annotations

import ast
import contextlib
import importlib.metadata
import importlib.util
import re
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

from fuselight.adapters.torch_api import settings
from fuselight.adapters.torch_api.absent_gpu import device_guards
from fuselight.adapters.torch_api.uninitialized import UninitializedMemory
from fuselight.adapters.triton_api.launches.record import LaunchSummary
from fuselight.adapters.triton_api.launches.stand_in import standing_in
from fuselight.capture.calls.calls import PlannedCall
from fuselight.capture.calls.rungs import Ladder
from fuselight.shared.devices import find
from fuselight.shared.protocol import DirectiveLine, InputsPlan, Target
from fuselight.shared.report import KernelFault
from fuselight.worker.child import kernel_calls, kernel_checks
from fuselight.worker.child.kernel_launches import KernelLaunches, VariedResult
from fuselight.worker.child.varied_launches import VariedLaunches

CODES = {
    "bounds": "FL941",
    "descriptor": "FL941",
    "race": "FL942",
    "unwritten": "FL943",
    "overflow": "FL944",
    "sectors": "FL945",
    "left out": "FL950",
}
_DIRECTIVE = re.compile(r"^# fuselight: ((\w+)\(.*\))$", re.MULTILINE)
_EXPECTED = re.compile(r"# expect: (FL\d+)$")


def _has_block_pointers() -> bool:
    try:
        version = importlib.metadata.version("triton")
    except importlib.metadata.PackageNotFoundError:
        return False
    return tuple(map(int, version.split(".")[:2])) < (3, 9)


HAS_BLOCK_POINTERS = _has_block_pointers()
"""Whether this Triton has them: 3.9 refuses `tl.make_block_ptr`. What needs one is then left out."""
WITH_BLOCK_POINTERS = pytest.mark.skipif(not HAS_BLOCK_POINTERS, reason="Triton 3.9 has no block pointers")


def expected(path: Path) -> set[tuple[int, str]]:
    """The lines with faults, and their codes."""
    lines = path.read_text(encoding="utf-8").splitlines()
    left_out = {line for function in _left_out(path).values() for line in function}
    return {
        (number, match[1])
        for number, line in enumerate(lines, 1)
        if number not in left_out and (match := _EXPECTED.search(line)) is not None
    }


def directives(path: Path) -> list[tuple[str, str, int]]:
    """Of each directive: the function, the text and the line."""
    text, left_out = path.read_text(encoding="utf-8"), _left_out(path)
    return [
        (match[2], match[1], text.count("\n", 0, match.start()) + 1)
        for match in _DIRECTIVE.finditer(text)
        if match[2] not in left_out
    ]


def _left_out(path: Path) -> dict[str, range]:
    """The functions that need what this Triton lacks, with their lines."""
    if HAS_BLOCK_POINTERS:
        return {}
    functions = [
        node for node in ast.parse(path.read_text(encoding="utf-8")).body if isinstance(node, ast.FunctionDef)
    ]
    left_out = {"make_block_ptr": range(0)}
    for function in functions:  # a kernel stands above what launches it
        if any(re.search(rf"\b{name}\b", ast.unparse(function)) for name in left_out):
            left_out[function.name] = range(function.lineno, (function.end_lineno or 0) + 1)
    return left_out


class CheckedFile:
    """A file whose functions are called in eager mode."""

    def __init__(self, path: Path, module: ModuleType, launches: KernelLaunches) -> None:
        self.launches = launches
        self._path, self.module = path, module

    def check(self, name: str, text: str, line: int) -> list[KernelFault]:
        """Make the call of a directive. Returns what is wrong with its launches."""
        before = len(self.launches.faults)
        planned = self._planned(name, text, line)
        why = kernel_checks.reason_for_fake(planned)
        if planned.fake or why is not None:
            with settings.fake_tensors():
                kernel_calls.eager_call(planned, None)
        else:
            memory = UninitializedMemory(self.launches.note_unwritten)
            self.launches.log.uninitialized = memory
            kernel_calls.eager_call(planned, memory)
        self.launches.log.uninitialized = None
        self.launches.log.seconds = self.launches.log.address_seconds = 0.0
        return self.launches.faults[before:]

    def vary(self, name: str, text: str, line: int) -> VariedResult:
        """Check the call of a directive, and further ones with other sizes and strides."""
        launches = self.launches
        launches.start_again()
        summaries: list[LaunchSummary] = []
        launches.log.summaries = summaries
        planned = self._planned(name, text, line)
        is_fake = planned.fake or kernel_checks.reason_for_fake(planned) is not None
        self.check(name, text, line)
        calls = VariedLaunches(
            launches,
            lambda varied: self._planned(name, varied, line),
            vars(self.module),
            is_fake=is_fake,
            enters_fake=is_fake,
        )
        return calls.vary(text, list(launches.faults), summaries)

    def _planned(self, name: str, text: str, line: int) -> PlannedCall:
        target = Target(str(self._path), name, "function", line + 1, compiled=False)
        plan = InputsPlan((DirectiveLine(line, 0, text),))
        answered, _ = Ladder(target, plan, vars(self.module), "cpu").climb()
        assert answered is not None
        return answered.calls[0]


@contextlib.contextmanager
def checked_file(path: Path) -> Iterator[CheckedFile]:
    """Import a file on a machine without a GPU, until the block ends."""
    launches = KernelLaunches((str(path.parent),))
    with device_guards(), standing_in(find("h100-sxm"), launches.log, lambda other: other == str(path)):
        spec = importlib.util.spec_from_file_location(f"checked_{path.stem}", path)
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        yield CheckedFile(path, module, launches)
