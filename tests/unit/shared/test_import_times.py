"""What imports take by line of the user's files: one process with all kinds of imports, and the same one untimed."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from fuselight import PACKAGE
from fuselight.shared.codec import decode
from fuselight.shared.report import ImportLine, Imports

DRIVER = """\
import json, os, runpy, sys, time
sys.path[:0] = [os.path.dirname(sys.argv[1])]
import clock
time.sleep = clock.sleep
times = None
if sys.argv[2] == "timed":
    sys.path.insert(0, sys.argv[3])
    from fuselight.shared import import_times
    del sys.path[0]
    import_times._clock = clock.read
    clock.is_used = True
    times = import_times.install()
    times.begin_program()
try:
    runpy.run_path(sys.argv[1], run_name="__main__")
finally:
    sys.stdout.flush()
    if times is not None:
        print(json.dumps(times.stop_and_report()))
"""
CLOCK = """\
import threading
now = 0.0
is_used = False
read_by_thread = threading.Event()
def sleep(seconds):
    global now
    now += seconds
def read():
    if threading.current_thread() is not threading.main_thread():
        read_by_thread.set()
    return now
"""
"""The clock of the program: only `time.sleep` moves it, so that no schedule and no load changes a number."""
FILES = {
    "clock.py": CLOCK,
    "site-packages/library.py": """
import importlib, time
time.sleep(0.04)
def load():
    return importlib.import_module("plugin")
""",
    "site-packages/plugin.py": "import time\ntime.sleep(0.03)\n",
    "site-packages/warned.py": 'import warnings\nwarnings.warn("old", DeprecationWarning, stacklevel=2)\n',
    "package/__init__.py": "",
    "package/inner.py": "import time\ntime.sleep(0.02)\n",
    "helpers.py": """
import time
time.sleep(0.02)
import library
""",
    "slow.py": "import time\ntime.sleep(0.1)\n",
    "broken.py": 'import time\ntime.sleep(0.02)\nraise RuntimeError("no data")\n',
    "main.py": """
import clock, os, sys, threading, traceback, warnings
sys.path.append(os.path.join(os.path.dirname(__file__), "site-packages"))
warnings.simplefilter("always")
import helpers
from package import inner
def lazy():
    import slow
thread = threading.Thread(target=lazy)
class StartsThread:
    def find_spec(self, name, path=None, target=None):
        if name == "slow":  # this thread holds the import's lock, and the module is not in sys.modules yet
            thread.start()
            if clock.is_used:
                clock.read_by_thread.wait()  # the other thread's import has begun, and waits for this one
sys.meta_path.insert(0, StartsThread())
import slow
thread.join()
import library
library.load()
for name in ("broken", "absent"):
    try:
        __import__(name)
    except Exception:
        traceback.print_exc(file=sys.stdout)
try:
    import broken
except RuntimeError:
    traceback.print_exc(file=sys.stdout)
import warned
if hasattr(os, "fork"):
    sys.stdout.flush()
    if os.fork() == 0:
        import clock, time, wave
        time.sleep(0.01)
        if "fuselight.shared.import_times" in sys.modules:
            forked = sys.modules["fuselight.shared.import_times"].active().stop_and_report()
            names = [name for line in forked["lines"] for name in line["modules"]]
            print("forked", names, forked["is_forked"], forked["seconds"] < forked["until_compile"], flush=True)
        os._exit(0)
    os.wait()
raise SystemExit
""",
}


def lines_of(text: str) -> list[str]:
    return text.strip().splitlines()


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> dict[str, subprocess.CompletedProcess[str]]:
    folder = tmp_path_factory.mktemp("imports")
    for name, text in FILES.items():
        path = folder / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text.lstrip("\n"), encoding="utf-8")
    driver = folder / "driver.py"
    driver.write_text(DRIVER, encoding="utf-8")
    return {
        kind: subprocess.run(
            [sys.executable, str(driver), str(folder / "main.py"), kind, str(Path(PACKAGE).parent)],
            capture_output=True,
            text=True,
            check=True,
            cwd=folder,
        )
        for kind in ("plain", "timed")
    }


@pytest.fixture(scope="module")
def data(ran: dict[str, subprocess.CompletedProcess[str]]) -> dict[str, Any]:
    recorded: dict[str, Any] = json.loads(lines_of(ran["timed"].stdout)[-1])
    return recorded


@pytest.fixture(scope="module")
def imports(data: dict[str, Any]) -> Imports:
    return decode(Imports, data)


def row(imports: Imports, file: str, text: str) -> ImportLine:
    number = FILES[file].lstrip("\n").splitlines().index(text) + 1
    (line,) = [
        line
        for line in imports.lines
        if Path(line.location.path).name == file and line.location.line == number
    ]
    return line


def test_a_line_has_what_it_imports_in_turn_and_its_own_part(imports: Imports) -> None:
    helpers = row(imports, "main.py", "import helpers")
    library = row(imports, "helpers.py", "import library")
    assert helpers.modules == ("helpers",)
    assert library.own_seconds == library.seconds == pytest.approx(0.04)
    assert helpers.own_seconds == pytest.approx(0.02)
    assert helpers.seconds == pytest.approx(0.06)


def test_a_package_and_its_module_are_one_import_of_the_line(imports: Imports) -> None:
    line = row(imports, "main.py", "from package import inner")
    assert set(line.modules) == {"package", "package.inner"}
    assert line.own_seconds == line.seconds == pytest.approx(0.02)


def test_a_line_in_which_a_library_imports_has_that(imports: Imports) -> None:
    line = row(imports, "main.py", "library.load()")
    assert line.modules == ("plugin",)
    assert line.seconds == pytest.approx(0.03)


def test_failing_imports_count(imports: Imports) -> None:
    line = row(imports, "main.py", "        __import__(name)")
    assert set(line.modules) == {"broken", "absent"}
    assert line.seconds == pytest.approx(0.02)


def test_seconds_of_several_threads_count_once(imports: Imports) -> None:
    """One thread waits for the other's import: both lines have its seconds, and the process has them once."""
    both = [line for line in imports.lines if line.modules == ("slow",)]
    assert [line.seconds for line in both] == pytest.approx([0.1, 0.1])
    total = sum(line.own_seconds for line in imports.lines) + imports.outside_seconds
    assert imports.seconds == pytest.approx(total - 0.1)
    assert imports.until_compile == pytest.approx(imports.seconds)


def test_the_program_prints_what_it_prints_untimed(
    ran: dict[str, subprocess.CompletedProcess[str]],
) -> None:
    """Its tracebacks have no frame of ours, and a warning about its importer names that."""
    own = [line for line in lines_of(ran["timed"].stdout)[:-1] if not line.startswith("forked")]
    assert own == lines_of(ran["plain"].stdout)
    assert sum(line.startswith("Traceback") for line in own) == 3
    assert ran["timed"].stderr == ran["plain"].stderr
    assert "main.py" in ran["plain"].stderr


@pytest.mark.skipif(sys.platform == "win32", reason="no fork")
def test_a_fork_has_its_own_imports_only(ran: dict[str, subprocess.CompletedProcess[str]]) -> None:
    forked = [line for line in lines_of(ran["timed"].stdout) if line.startswith("forked")]
    assert forked == ["forked ['wave'] True True"]


def test_the_record_is_a_part_of_a_report(data: dict[str, Any], imports: Imports) -> None:
    assert imports.began > 1e9
    assert set(data) <= set(Imports.__dataclass_fields__)
