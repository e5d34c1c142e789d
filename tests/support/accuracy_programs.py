"""Run programs of `tests/cases/accuracy` in eager mode and with each backend, and compare what `main` returns.

    python tests/support/accuracy_programs.py [--write] FILE...

Each run is a fork whose torch is imported and whose C++ headers are compiled, with graph caches that start empty.
Invariant: with `--write`, a program's `# seen:` line is what was measured; the exit code counts the programs whose
header disagrees with the measurement.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import re
import shutil
import signal
import sys
import tempfile
from pathlib import Path
from typing import Any

import torch
import torch._functorch.config
import torch._inductor.compile_fx
import torch._inductor.config
from torch.utils._pytree import tree_flatten

BACKENDS = ("eager", "aot_eager", "aot_eager_decomp_partition", "inductor", "no caches")
STAGES = dict(zip(BACKENDS, ("capture", "functionalization", "decomposition", "code", "caches"), strict=True))
RAISED = "raised"
SECONDS = 240
"""The limit of one run: a cold compile takes 10 seconds on an idle machine."""


def header(path: Path) -> dict[str, str]:
    """Return the `# key: value` lines at the top of a program."""
    lines = path.read_text().splitlines()
    return dict(re.findall(r"^# (truth|stage|seen): (.*)$", "\n".join(lines[:6]), re.MULTILINE))


def substitute_compile(backend: str | None) -> None:
    """Let `torch.compile` do nothing, or compile with this backend."""
    real = torch.compile

    def compile_(model: Any = None, **options: Any) -> Any:
        if model is None:
            return lambda given: compile_(given, **options)
        if backend is None:
            return model
        if backend in ("inductor", "no caches"):
            return real(model, **options)
        kept = {key: value for key, value in options.items() if key in ("dynamic", "fullgraph")}
        guards = options.get("options", {}).get("guard_filter_fn")
        kept |= {"options": {"guard_filter_fn": guards}} if guards else {}
        return real(model, backend=backend, **kept)

    torch.compile = compile_
    if backend == "no caches":
        torch._inductor.config.fx_graph_cache = False
        torch._functorch.config.enable_autograd_cache = False


def run_main(path: Path, backend: str | None, answer: Path) -> None:
    """Run a program's `main` in this process and save what it returns."""
    cache = Path(os.environ["TORCHINDUCTOR_CACHE_DIR"])
    for graphs in ("fxgraph", "aotautograd"):
        shutil.rmtree(cache / graphs, ignore_errors=True)
    signal.alarm(SECONDS)
    sys.argv = [str(path)]
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    substitute_compile(backend)
    torch.manual_seed(0)
    try:
        specification = importlib.util.spec_from_file_location("program", path)
        assert specification is not None
        assert specification.loader is not None
        program = sys.modules["program"] = importlib.util.module_from_spec(specification)
        specification.loader.exec_module(program)
        result = program.main()
    except Exception as error:  # noqa: BLE001 - a failure is a result, too
        result = f"{RAISED} {type(error).__name__}: {str(error).strip()[:200]}"
    torch.save(result, answer)


def outcome(path: Path, backend: str | None) -> Any:
    """Return what `main` returns in a fork, or a text if the fork died."""
    with tempfile.TemporaryDirectory() as folder:
        answer = Path(folder, "answer")
        if not (child := os.fork()):
            try:
                run_main(path, backend, answer)
            finally:
                os._exit(0)
        os.waitpid(child, 0)
        return torch.load(answer, weights_only=False) if answer.exists() else "no answer"


def difference(want: Any, got: Any) -> str:
    """Describe how two results differ, by more than rounding: an empty text if they do not."""
    wanted, got_values = tree_flatten(want)[0], tree_flatten(got)[0]
    if len(wanted) != len(got_values):
        return f"eager {want!r:.60}, compiled {got!r:.120}".replace("\n", " ")
    parts = []
    for index, (a, b) in enumerate(zip(wanted, got_values, strict=True)):
        if not isinstance(a, torch.Tensor) or not isinstance(b, torch.Tensor):
            words = "" if a == b else f"eager {a}, compiled {b}"
        elif (a.dtype, a.shape) != (b.dtype, b.shape):
            words = f"eager {a.dtype} {list(a.shape)}, compiled {b.dtype} {list(b.shape)}"
        else:
            words = difference_of_values(a.detach(), b.detach())
        parts += [f"result {index}: {words}"] if words else []
    return "; ".join(parts).replace("torch.", "").replace("\n", " ")


def difference_of_values(a: Any, b: Any) -> str:
    """Describe the largest difference of two tensors of one dtype and shape."""
    eps = torch.finfo(a.dtype).eps if a.is_floating_point() or a.is_complex() else 0
    relative = eps * (64 if eps < 1e-5 else 4)  # half types round at every step
    x, y = (value.to(torch.complex128).reshape(-1) for value in (a, b))
    level = x.abs().nan_to_num(0, 0, 0).mean().item() if len(x) else 0.0
    apart = ~torch.isclose(x, y, relative, relative * level, equal_nan=True)
    if not apart.any():
        return ""
    worst = int(torch.nan_to_num((x - y).abs(), nan=torch.inf).where(apart, -1.0).argmax())
    return f"eager {a.reshape(-1)[worst].item():.6g}, compiled {b.reshape(-1)[worst].item():.6g}"


def measure(path: Path) -> dict[str, str]:
    """Return how each backend's result differs from eager's, with eager mode itself first."""
    want = outcome(path, None)
    seen = {"again": difference(want, outcome(path, None))}
    for backend in BACKENDS[:4]:
        seen[backend] = difference(want, outcome(path, backend))
    if seen["inductor"] and not seen["aot_eager_decomp_partition"]:
        seen["no caches"] = difference(want, outcome(path, "no caches"))
    return seen


def measured_stage(seen: dict[str, str]) -> str:
    """Return the stage of the first backend that differs and stays different up to Inductor."""
    if not seen["inductor"]:
        return "none"
    if seen.get("no caches") == "":
        return "caches"
    right = [index for index, backend in enumerate(BACKENDS[:4]) if not seen[backend]]
    return STAGES[BACKENDS[max(right, default=-1) + 1]]


def prepare() -> None:
    """Import what a compile imports, and compile the headers, once for all forks."""
    torch._inductor.config.compile_threads = 1
    torch.set_num_threads(1)
    torch._inductor.config.fx_graph_cache = False
    torch.compile(lambda x: x.sin() + 1)(torch.ones(3, requires_grad=True)).sum().backward()
    torch._inductor.config.fx_graph_cache = True
    torch._dynamo.reset()


def write_seen(path: Path, words: str) -> None:
    """Set a program's `# seen:` line."""
    lines = path.read_text().split("\n")
    lines[2] = f"# seen: {words:.150}"
    path.write_text("\n".join(lines))


def report(path: Path, *, write: bool) -> bool:
    """Measure a program, print a line a backend, and return whether its header agrees."""
    seen = measure(path)
    stage, declared = measured_stage(seen), header(path).get("stage", "")
    agrees = stage == declared or (declared == "user" and stage != "none") or path.parent.name == "right"
    agrees = agrees and RAISED not in seen["inductor"]
    print(f"{'ok ' if agrees else 'BAD'} {path.name} {declared}, measured {stage}", flush=True)
    for backend, words in seen.items():
        print(f"      {backend}: {words or 'equal':.200}", flush=True)
    if write and agrees:
        write_seen(path, seen["inductor"] or "no difference beyond rounding")
    return agrees


def main() -> int:
    """Measure the programs given, print one line a program, and count those whose header disagrees."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--write", action="store_true")
    parser.add_argument("programs", nargs="+", type=Path)
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory() as cache:
        os.environ["TORCHINDUCTOR_CACHE_DIR"] = cache
        prepare()
        return sum(not report(path, write=chosen.write) for path in chosen.programs)


if __name__ == "__main__":
    sys.exit(main())
