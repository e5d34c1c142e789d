"""Runs the probes of program texts, each text in a fork of this process, which has imported torch and nothing else.

    python probe_runner.py < jobs

Each line of standard input is a job: {"folder", "main", "compiled", "out"}. Writes the observations of all probes of
that text to `out` (JSON), then one line on standard output. A probe is a function `probe_*` of the program without
arguments; the program is imported afresh, and the generators are seeded, for each.

In eager mode, the program's calls of torch.compile do nothing. Compiled, they are in force, with the backend
`aot_eager` in place of Inductor, which takes seconds a graph; a program that compiles nothing itself gets the targets
of its directives compiled.
"""

from __future__ import annotations

import contextlib
import dataclasses
import importlib
import io
import json
import logging
import math
import os
import random
import re
import signal
import sys
import traceback
import warnings
from pathlib import Path
from typing import Any

import torch

_SECONDS = 240
_ELEMENTS = 1 << 14
_DEPTH = 12
_ADDRESS = re.compile(r"0x[0-9a-f]{6,}")
_LINE = re.compile(r":\d+: ")
_DIRECTIVE = re.compile(r"#\s*fuselight:\s*(\w+)\s*\(")
_COMPILES = re.compile(r"torch\.compile\(|@torch\.compile|\.compile\(\)")
_BACKEND = "aot_eager"


def observed(value: Any, depth: int = 0) -> tuple[Any, ...]:
    """A value as plain data (observation.Observation)."""
    kind = type(value).__name__
    if isinstance(value, torch.Tensor):
        return ("tensor", _tensor(value))
    if value is None or isinstance(value, (bool, int, float)):
        return (kind, value)
    if isinstance(value, (str, bytes)):
        return (kind, _ADDRESS.sub("0x", repr(value)))
    if isinstance(value, BaseException):
        return ("exception", kind)
    return _container(value, kind, depth) or ("object", f"{kind} {_ADDRESS.sub('0x', repr(value))}"[:200])


def _container(value: Any, kind: str, depth: int) -> tuple[Any, ...] | None:
    if depth > _DEPTH:
        return ("object", f"{kind}, too deep")
    if isinstance(value, dict):
        return ("dict", [(repr(key), observed(item, depth + 1)) for key, item in value.items()])
    if isinstance(value, (tuple, list)):
        items = [observed(item, depth + 1) for item in value]
        return ("tuple" if isinstance(value, tuple) else "list", items)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        names = [field.name for field in dataclasses.fields(value)]
        return ("dict", [(name, observed(getattr(value, name, None), depth + 1)) for name in names])
    return None


def _tensor(value: torch.Tensor) -> dict[str, Any]:
    detached = value.detach()
    if detached.layout is not torch.strided:
        detached = detached.to_dense()
    flat = detached.resolve_conj().resolve_neg().reshape(-1)[:_ELEMENTS]
    if flat.is_complex():
        flat = torch.view_as_real(flat).reshape(-1)
    strides = [step for step, size in zip(detached.stride(), detached.shape, strict=True) if size > 1]
    return {
        "type": type(value).__name__,
        "dtype": str(value.dtype),
        "shape": list(value.shape),
        "strides": strides if value.numel() else [],
        "requires_grad": value.requires_grad,
        "values": (flat.double() if flat.is_floating_point() else flat).tolist(),
    }


class Compiler:
    """Compiles what the program compiles, with a backend that needs no code generation; in eager mode, nothing.

    torch's own calls of torch.compile stay: torch.cond compiles itself also in eager mode.
    """

    def __init__(self, folder: str, *, compiled: bool) -> None:
        """Replace torch.compile for the files of a folder."""
        self._folder, self._compiled = folder, compiled
        self._original: Any = torch.compile
        torch.compile = self._replaced
        torch.nn.Module.compile = lambda module, *_args, **options: self._in_place(module, options)  # type: ignore[method-assign]

    def _replaced(self, model: Any = None, **options: Any) -> Any:
        caller = sys._getframe(1).f_code.co_filename  # noqa: SLF001 - whether the program calls it
        if not caller.startswith(self._folder + os.sep):
            return self._original(model, **options)
        if model is None:
            return lambda function: self.compile(function, **options)
        return self.compile(model, **options)

    def compile(self, model: Any, **options: Any) -> Any:
        """What the program gets."""
        if not self._compiled:
            return model
        kept = {name: value for name, value in options.items() if name not in {"backend", "mode", "options"}}
        return self._original(model, backend=_BACKEND, **kept)

    def _in_place(self, module: torch.nn.Module, options: dict[str, Any]) -> None:
        if self._compiled:
            module._compiled_call_impl = self.compile(module._call_impl, **options)  # noqa: SLF001

    def compile_targets(self, module: Any, text: str) -> None:
        """Compile the targets of the directives, as their users would, in a program that compiles nothing."""
        if not self._compiled or _COMPILES.search(text):
            return
        for name in dict.fromkeys(_DIRECTIVE.findall(text)):
            target = getattr(module, name, None)
            if isinstance(target, type) and issubclass(target, torch.nn.Module):
                target.forward = self.compile(target.forward)
            elif callable(target) and not isinstance(target, type):
                setattr(module, name, self.compile(target))


def _loaded(folder: str, main: str) -> Any:
    """Import the program afresh, with all modules of its folder."""
    for name, module in list(sys.modules.items()):
        if (getattr(module, "__file__", None) or "").startswith(folder + os.sep):
            del sys.modules[name]
    torch._dynamo.reset()  # noqa: SLF001 - a benchmark
    _seed()
    return importlib.import_module(Path(main).stem)


def _seed() -> None:
    random.seed(0)
    torch.manual_seed(0)
    if "numpy" in sys.modules:
        sys.modules["numpy"].random.seed(0)


def _observe(folder: str, main: str, text: str, name: str, compiler: Compiler) -> dict[str, Any]:
    """What one probe returns, raises, prints, logs and warns."""
    out, err, logged = io.StringIO(), io.StringIO(), io.StringIO()
    handler = logging.StreamHandler(logged)
    entries: dict[str, Any] = {
        "result": ("NoneType", None),
        "raised": "",
        "message": "",
        "family": "other",
        "warned": [],
    }
    logging.getLogger().addHandler(handler)
    try:
        module = _loaded(folder, main)
        compiler.compile_targets(module, text)
        probe = getattr(module, name)
        entries["family"] = ((probe.__doc__ or "").split() or ["other"])[0].strip(".:,").lower()
        with (
            contextlib.redirect_stdout(out),
            contextlib.redirect_stderr(err),
            warnings.catch_warnings(record=True) as warned,
        ):
            warnings.simplefilter("always")
            _seed()
            entries["result"] = observed(probe())
        own = [message for message in warned if message.filename.startswith(folder + os.sep)]
        entries["warned"] = [f"{message.category.__name__}: {message.message}" for message in own]
    except Exception as raised:  # noqa: BLE001 - a user's program may raise anything
        entries.update(raised=type(raised).__name__, message=traceback.format_exc()[-1500:])
    finally:
        logging.getLogger().removeHandler(handler)
    entries.update(
        printed=out.getvalue(),
        logged=_LINE.sub(": ", logged.getvalue()),
        stderr=_LINE.sub(": ", err.getvalue()),
    )
    return entries


def _run(job: dict[str, Any]) -> dict[str, Any]:
    folder, main = job["folder"], job["main"]
    os.chdir(folder)
    sys.path.insert(0, str(Path(main).parent))
    text = Path(main).read_text(encoding="utf-8")
    compiler = Compiler(folder, compiled=job["compiled"])
    names = sorted(set(re.findall(r"^def (probe_\w+)\(\)", text, re.MULTILINE)))
    return {name: _observe(folder, main, text, name, compiler) for name in names}


def _in_fork(job: dict[str, Any]) -> None:
    child = os.fork()
    if child:
        os.waitpid(child, 0)
        return
    code = 1
    try:
        signal.alarm(_SECONDS)
        entries = _run(job)
        Path(job["out"]).write_text(json.dumps(entries), encoding="utf-8")
        code = 0
    except BaseException:  # noqa: BLE001 - the fork must end here
        traceback.print_exc()
    finally:
        os._exit(code)


def main() -> None:
    """Answer each job."""
    torch.set_num_threads(1)
    importlib.import_module("torch._dynamo")
    importlib.import_module("torch._functorch.aot_autograd")
    assert math.isfinite(float(torch.zeros(1)))
    for line in sys.stdin:
        _in_fork(json.loads(line))
        print("done", flush=True)


if __name__ == "__main__":
    main()
