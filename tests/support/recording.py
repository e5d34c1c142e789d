"""Run a small program under the Recorder, in this process, with Dynamo reset.

The snippet is written to a file, for Dynamo and the columns need one; its `main()` is what is recorded.
"""

from __future__ import annotations

import contextlib
import importlib.util
import io
import sys
import textwrap
import uuid
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from fuselight.capture.dynamo import (
    AotCapture,
    CompileCalls,
    Parts,
    Recorder,
    capture_only,
    failure_of,
    versions,
)
from fuselight.shared.report import Failure, Report, TargetRef, Tier

PRELUDE = "import torch\nfrom torch import nn\n"


@dataclass(frozen=True)
class Recorded:
    """The recording of one snippet."""

    parts: Parts
    failure: Failure | None
    path: str
    lines: tuple[str, ...]
    compile_calls: CompileCalls
    printed: str = ""

    def line(self, text: str) -> int:
        """The only line of the snippet that contains `text`."""
        numbers = [number for number, line in enumerate(self.lines, 1) if text in line]
        assert len(numbers) == 1, (text, numbers)
        return numbers[0]


def record(
    folder: Path, source: str, *, aot_autograd: bool = False, own_backend: bool = False, **options: Any
) -> Recorded:
    """Run the snippet's `main()` under a Recorder and return the recording.

    `aot_autograd`: AOTAutograd traces the graphs too, as in the run of a program. `own_backend`: the backends compile
    that the snippet asks for, as under `fuselight run`.
    """
    path = folder / f"snippet_{uuid.uuid4().hex[:8]}.py"
    text = PRELUDE + textwrap.dedent(source)
    path.write_text(text, encoding="utf-8")
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    torch._dynamo.reset()
    failure = None
    printed = io.StringIO()
    roots = (str(folder),)
    try:
        with contextlib.redirect_stdout(printed), _capture(aot_autograd, own_backend) as calls:
            spec.loader.exec_module(module)
            with Recorder(roots=roots, **options) as recorder:
                try:
                    module.main()
                except Exception as error:  # noqa: BLE001 - the failure is what some snippets are about
                    failure = failure_of(error, roots=roots, nodes=recorder.nodes)
    finally:
        del sys.modules[path.stem]
    return Recorded(recorder.parts(), failure, str(path), tuple(text.splitlines()), calls, printed.getvalue())


def _capture(aot_autograd: bool, own_backend: bool) -> AbstractContextManager[CompileCalls]:  # noqa: FBT001 - private
    if own_backend:
        return contextlib.nullcontext(CompileCalls())
    return capture_only(AotCapture(lambda _gm: True)) if aot_autograd else capture_only()


def report_of_parts(parts: Parts, target: TargetRef, **fields: Any) -> Report:
    """What was recorded as the report of a run of tier capture; `fields` are further ones, or others."""
    return Report(versions(), target, Tier.CAPTURE, 1, **{**vars(parts), **fields})
