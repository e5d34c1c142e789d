"""What the host preloads for the next run, and what it leaves to the runs: the fork rules always hold."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
import sysconfig
from collections.abc import Iterator
from pathlib import Path

import pytest

from fuselight_server.base.settings import Interpreter
from tests.support.live_worker import LiveWorker

ENDS_ITS_THREAD = """\
import os, threading
stop = threading.Event()
thread = threading.Thread(target=stop.wait, daemon=True)
thread.start()

def end():
    stop.set()
    while os.path.exists(f"/proc/self/task/{thread.native_id}"):  # join() returns while it is ending
        pass

os.register_at_fork(before=end)
"""
"""As OpenBLAS does, scipy's for one, which has a thread for each core."""

PACKAGES = {
    "calm_one": "import calm_one.inner\n",
    "ends_its_thread": ENDS_ITS_THREAD,
    "exits_at_import": "import os\nif {host}: os._exit(3)\n",
    "starts_a_thread": "import threading\nthreading.Thread(target=threading.Event().wait, daemon=True).start()\n",
    "raises_at_import": "if {host}: raise ValueError('not here')\n",
    "zeta_calm": "n = 1\n",
}
"""`{host}` is true where the import is not that of a run: what is to be seen is what the host's trial does with it."""


@pytest.fixture(scope="module")
def live(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveWorker]:
    """A worker in a separate environment with the packages above and this environment's torch."""
    home = tmp_path_factory.mktemp("environment")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(home)], check=True)
    python = home / "bin" / "python"
    find = "import sysconfig; print(sysconfig.get_path('purelib'))"
    out = subprocess.run([python, "-c", find], check=True, capture_output=True, text=True).stdout
    site = Path(out.strip())
    torch = importlib.util.find_spec("torch")
    assert torch is not None
    assert torch.origin is not None
    sites = {
        sysconfig.get_path("purelib"),
        str(Path(torch.origin).parents[1]),
    }  # torch may be that of another one
    (site / "all.pth").write_text("\n".join(sites) + "\n")
    for name, text in PACKAGES.items():
        (site / name).mkdir()
        (site / name / "__init__.py").write_text(
            text.replace("{host}", "'run' not in __import__('sys').argv")
        )
    (site / "calm_one" / "inner.py").write_text("n = 2\n")
    live = LiveWorker(tmp_path_factory.mktemp("workspace"), Interpreter(str(python)))
    yield live
    print("\n".join(live.lines))  # noqa: T201 - shown when a test fails
    live.close()


SOURCE = f"""\
import sys
sys.argv.append("run")
import torch
before = set(sys.modules)
import {", ".join(PACKAGES)}
print([name for name in {sorted(PACKAGES)} if name not in before])
# fuselight: f(f32[4])
def f(x):
    return x.sin()
"""


def wait_for_line(live: LiveWorker, *words: str) -> str:
    """Wait for a line of the host's log that has all `words`."""
    return live.do(
        live.logged(lambda: next((line for line in live.lines if all(word in line for word in words)), None))
    )


def test_safe_packages_are_preloaded_and_others_are_imported_by_runs(live: LiveWorker) -> None:
    report = live.analyse(SOURCE)
    assert report.failures == ()
    assert report.output.stdout == f"{sorted(PACKAGES)}\n"
    assert "1 new threads" in wait_for_line(live, "starts_a_thread", "stays out of the host")
    assert "ends the process" in wait_for_line(live, "exits_at_import", "stays out of the host")

    def fresh() -> str:
        answer = live.analyse(SOURCE)
        assert answer.failures == ()
        return answer.output.stdout

    left = "['exits_at_import', 'raises_at_import', 'starts_a_thread']\n"
    seen = fresh()
    for _ in range(20):  # the good ones are imported between two runs, when the host has time
        if seen == left:
            break
        seen = fresh()
    assert seen == left
    assert not [line for line in live.lines if "fork rule" in line]


def test_nothing_is_tried_twice(live: LiveWorker) -> None:
    live.analyse(SOURCE)
    tried = len([line for line in live.lines if "in a child before importing" in line])
    for _ in range(3):
        live.analyse(SOURCE)
    assert len([line for line in live.lines if "in a child before importing" in line]) == tried
