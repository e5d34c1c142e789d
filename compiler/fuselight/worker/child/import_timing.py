"""Times the imports of a program in a process of its own, which begins without torch and ends at the first compile.

A run is a fork of a host that has imported torch, so its own imports say nothing. Invariant: the process runs the
user's file as the run does, prints nothing, and leaves nothing but `report.Imports` as JSON.
"""

from __future__ import annotations

import argparse
import importlib
import importlib.util
import json
import os
import subprocess
import sys
from collections.abc import Sequence
from typing import Any

from fuselight.shared import import_times
from fuselight.shared.import_hooks import AfterImport
from fuselight.shared.protocol import RunRequest
from fuselight.shared.started_processes import RUN, TRACE
from fuselight.shared.worker_launch import worker_command
from fuselight.worker.child.program import run_script

_LONGEST = 300.0
"""Seconds after which the process is ended: imports rarely take a minute."""
_LONGEST_ERROR = 200


def time_imports(request: RunRequest, module: tuple[str, str] | None, folder: str) -> dict[str, Any] | None:
    """Run the file of a request in a fresh interpreter up to the first compile, and return what it imported.

    `module`: the name that the file is imported by and the folder for `sys.path`; None: it runs as the program. The
    result is written to `folder`.
    """
    path = request.inputs.main_path or request.target.path
    result = os.path.join(folder, "imports.json")
    options = ["--result", result]
    for root in request.roots:
        options += ["--root", root]
    if module is not None:
        options += ["--module", *module]
    variables = {name: value for name, value in os.environ.items() if name not in {TRACE, RUN}}
    try:
        subprocess.run(  # noqa: S603 - this interpreter, with the file that the run is for
            worker_command(sys.executable, job=["imports", *options, "--", path, *request.argv]),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env=variables,
            timeout=_LONGEST,
            check=False,
        )
        with open(result, encoding="utf-8") as file:
            imports: dict[str, Any] = json.load(file)
    except (OSError, ValueError, subprocess.TimeoutExpired):
        return None
    return imports


def main(arguments: Sequence[str]) -> int:
    """Do it in this process, and end it."""
    parser = argparse.ArgumentParser(prog="imports")
    parser.add_argument("--result", required=True)
    parser.add_argument("--root", action="append", default=[])
    parser.add_argument("--module", nargs=2, metavar=("NAME", "FOLDER"))
    parser.add_argument("program", nargs="+")
    options = parser.parse_args(arguments)
    times = import_times.install()
    process = os.getpid()

    def write(error: str = "") -> None:
        imports = times.stop_and_report()
        if imports is None or os.getpid() != process:
            return
        data = {**imports, "is_separate": True, "error": error[:_LONGEST_ERROR]}
        with open(options.result, "w", encoding="utf-8") as file:
            json.dump(data, file)

    def end_at_compile(*_: object) -> None:
        if os.getpid() == process:
            write()
            os._exit(0)

    def watch_compiles() -> None:
        with times.paused():
            from fuselight.capture.dynamo import Recorder  # noqa: PLC0415 - torch, which was imported by now

            Recorder(roots=(), on_call=end_at_compile).__enter__()

    sys.meta_path.insert(0, AfterImport("torch._dynamo", watch_compiles))
    times.begin_program()
    error = ""
    try:
        _run(options.program, options.module, options.root)
    except SystemExit:
        pass
    except BaseException as ended:  # noqa: BLE001 - the user's code may raise anything
        error = f"{type(ended).__name__}: {ended}"
    write(error)
    os._exit(0)


def _run(program: Sequence[str], module: Sequence[str] | None, roots: Sequence[str]) -> None:
    """Run the file as a program, or import it as a module."""
    folders = [place for root in roots for place in (root, os.path.join(root, "src")) if os.path.isdir(place)]
    sys.path += [place for place in folders if place not in sys.path]  # last, as in a run
    if module is None:
        run_script(program)
        return
    name, folder = module
    sys.path.insert(0, folder)
    sys.argv = list(program)
    parent = name.rpartition(".")[0]
    if parent:
        importlib.import_module(parent)
    is_package = os.path.basename(program[0]) == "__init__.py"
    places = [os.path.dirname(program[0])] if is_package else None
    spec = importlib.util.spec_from_file_location(name, program[0], submodule_search_locations=places)
    if name in sys.modules or spec is None or spec.loader is None:
        return
    loaded = importlib.util.module_from_spec(spec)
    sys.modules[name] = loaded
    spec.loader.exec_module(loaded)
