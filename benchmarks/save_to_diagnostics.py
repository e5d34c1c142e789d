"""From a save to findings in a warm worker, against what the user's own first call would take.

The other side of the ratio is as warm as ours: a process that has imported everything and compiled a tiny function
forks, and the child builds the model and calls it once, with `backend="eager"` or cold with Inductor.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from benchmarks.gpt2 import BUILD_AND_CALL, SOURCE, write_model
from benchmarks.table import Row, median
from fuselight.protocol import Analyse
from fuselight_server.findings import findings
from fuselight_server.static.document import read_source
from fuselight_server.worker_process import Interpreter, Worker

ROUNDS = 5
SLACK_SECONDS = 0.3

_BASELINE = f"""{SOURCE}
{BUILD_AND_CALL}
import os, sys, time
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
        build_and_call(**eval(options))
        os._exit(0)
    status = os.waitpid(child, 0)[1]
    print(time.perf_counter() - started if status == 0 else "failed", flush=True)
"""


class Baseline:
    """A process with everything imported that forks a child per measurement."""

    def __init__(self, folder: Path) -> None:
        script = folder / "baseline.py"
        script.write_text(_BASELINE, encoding="utf-8")
        self.process = subprocess.Popen(
            [sys.executable, str(script), str(_threads())],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            # A warm cache on disk would make the cold compile warm.
            env={**os.environ, "TORCHINDUCTOR_CACHE_DIR": str(folder / "inductor")},
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


async def _save(worker: Worker, path: Path, generation: int) -> float:
    """One save: the source is read, run and turned into findings; returns the seconds."""
    started = time.perf_counter()
    text = path.read_text(encoding="utf-8")
    reading = read_source(str(path), text)
    target = next(target for target in reading.targets if target.directives)
    answer = await worker.run(
        Analyse(
            id=generation,
            generation=generation,
            target=reading.request(target),
            inputs=reading.plan(target),
            roots=(str(path.parent),),
        ),
        lambda _: None,
    )
    report = getattr(answer, "report", None)
    if report is None or report.failures or not report.compiles:
        raise RuntimeError(f"the run gave nothing to measure: {answer}")
    findings(report)
    return time.perf_counter() - started


async def _measure(folder: Path) -> tuple[list[float], list[float], float]:
    path = write_model(folder)
    baseline = Baseline(folder)
    worker = Worker(Interpreter(sys.executable), cwd=str(folder), log=lambda _: None)
    try:
        await worker.start()
        await _save(worker, path, 1)  # the first save imports transformers in the host
        baseline.seconds("{'backend': 'eager'}")
        saves, eagers = [], []
        for generation in range(2, ROUNDS + 2):
            saves.append(await _save(worker, path, generation))
            eagers.append(baseline.seconds("{'backend': 'eager'}"))
        return saves, eagers, baseline.seconds("{}")
    finally:
        baseline.close()
        await worker.close()


def rows() -> list[Row]:
    """The two promises about a save."""
    with tempfile.TemporaryDirectory() as folder:
        saves, eagers, cold = asyncio.run(_measure(Path(folder)))
    ours, eager = median(saves), median(eagers)
    return [
        Row(
            "save to findings, warm worker, GPT-2 12 layers, less 0.3 s, against build + first call, eager backend",
            (ours - SLACK_SECONDS) / eager,
            1.15,
            detail=f"{ours:.2f} s against {eager:.2f} s",
        ),
        Row(
            "the same, against build + cold torch.compile first call",
            cold / ours,
            6,
            at_least=True,
            detail=f"{ours:.2f} s against {cold:.2f} s",
        ),
    ]


if __name__ == "__main__":
    from benchmarks.print_table import print_table

    sys.exit(print_table(rows()))
