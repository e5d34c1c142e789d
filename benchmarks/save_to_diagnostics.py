"""From a save to published diagnostics with a warm worker, against what the user's own first call would take.

Ours is taken where an editor would take it: from `didSave` to the server's word that all of the run is published.
The other side is as warm: a process that has imported everything and compiled a tiny function forks, and the child
builds the model and calls it once, with `backend="eager"` or cold with Inductor.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from pathlib import Path

from benchmarks.gpt2 import BUILD_AND_CALL, SOURCE, write_model
from benchmarks.table import Row, median, times_faster
from tests.support.lsp_client import Client

ROUNDS = 5
DEADLINE = 300.0
"""Seconds for one save; the first one imports torch and transformers."""
GRAPHS = "1 graph, 0 breaks"
"""What the lens says of the model after a run that did its work."""
SLACK_SECONDS = 0.3

_BASELINE = f"""{SOURCE}
{BUILD_AND_CALL}
import os, sys, tempfile, time
import torch._dynamo, torch._inductor.compile_fx
import transformers.models.gpt2.modeling_gpt2
torch.set_num_threads(1)
torch.compile(lambda x: x + 1, backend="eager")(torch.ones(2))
threads = int(sys.argv[1])
for options in sys.stdin:
    started = time.perf_counter()
    child = os.fork()
    if child == 0:
        torch.set_num_threads(threads)
        # A cache on disk that another child has filled would make a cold compile warm.
        os.environ["TORCHINDUCTOR_CACHE_DIR"] = tempfile.mkdtemp(dir=".")
        build_and_call(**eval(options))
        os._exit(0)
    status = os.waitpid(child, 0)[1]
    print(time.perf_counter() - started if status == 0 else "failed", flush=True)
"""


class Baseline:
    """A process with everything imported that forks a child per measurement."""

    def __init__(self, folder: Path, program: str = _BASELINE) -> None:
        script = folder / "baseline.py"
        script.write_text(program, encoding="utf-8")
        self.process = subprocess.Popen(
            [sys.executable, str(script), str(_threads())],
            cwd=folder,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def seconds(self, options: str) -> float:
        """Time of one child: build, compile with `options` (a dict's source), first call."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        print(options, file=self.process.stdin, flush=True)
        return float(self.process.stdout.readline())

    def close(self) -> None:
        """End the process."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait()


def _threads() -> int:
    import torch  # noqa: PLC0415 - only its default number of threads, in this process

    return torch.get_num_threads()


def _save(client: Client, uri: str, generation: int) -> tuple[float, int]:
    """One save, until its findings are published; returns the seconds and the generation of its run."""
    started = time.perf_counter()
    client.save(uri)
    status = client.idle(generation + 1, deadline=DEADLINE)
    taken = time.perf_counter() - started
    lens = client.lenses(uri)[0]
    if not lens.startswith(GRAPHS):
        raise RuntimeError(f"the run gave nothing to measure: {lens}\n{client.transcript()}")
    return taken, status["generation"]


def _measure(folder: Path) -> tuple[list[float], list[float], list[float]]:
    """Seconds of the saves and of the first calls with the eager backend, interleaved, and of cold compiles."""
    path = write_model(folder)
    baseline = Baseline(folder)
    interpreter = {"executable": sys.executable, "args": [], "why": "the benchmark's own"}
    client = Client(settings={"resolvedInterpreter": interpreter}, write_bytecode=True)
    try:
        client.start(folder)
        uri = client.open(path)
        _, generation = _save(
            client, uri, 0
        )  # the first save starts the worker and imports transformers there
        baseline.seconds("{'backend': 'eager'}")
        saves, eagers = [], []
        colds = [baseline.seconds("{}")]
        for _ in range(ROUNDS):
            taken, generation = _save(client, uri, generation)
            saves.append(taken)
            eagers.append(baseline.seconds("{'backend': 'eager'}"))
        colds.append(baseline.seconds("{}"))
        return saves, eagers, colds
    finally:
        baseline.close()
        client.stop()


def rows() -> list[Row]:
    """The two promises about a save."""
    with tempfile.TemporaryDirectory() as folder:
        saves, eagers, colds = _measure(Path(folder))
    ours, eager, cold = median(saves), median(eagers), median(colds)
    return [
        Row(
            "save to diagnostics, warm worker, GPT-2 12 layers, less 0.3 s, against build + first call, eager backend",
            (ours - SLACK_SECONDS) / eager,
            1.15,
            detail=f"{ours:.2f} s against {eager:.2f} s",
        ),
        times_faster("the same, against build + cold torch.compile first call", ours, cold, 6),
    ]


if __name__ == "__main__":
    from benchmarks.print_table import print_table

    sys.exit(print_table(rows()))
