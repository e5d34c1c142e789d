"""What a run saves of Python's own before user code, and how little of the host's memory it touches for that."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest

from fuselight.capture.calls import importing
from fuselight.worker.child.originals import Loaded, Originals
from tests.support.live_worker import LiveWorker

pytestmark = pytest.mark.torch

LOOKS_AT_ITS_RUN = """\
import sys, torch
frame = sys._getframe()
while "state" not in frame.f_locals:
    frame = frame.f_back
originals = frame.f_locals["state"].originals
accepted = originals._intact == originals._version_of_loaded() != [None]
print("accepted:", accepted)

# fuselight: f(f32[4])
def f(x):
    return x.sin()
"""


class CountedModules(dict[str, ModuleType]):
    """Counts how often all modules are looked at."""

    looks = 0

    def items(self) -> object:  # type: ignore[override]
        self.looks += 1
        return super().items()


@pytest.fixture
def loaded_modules() -> Iterator[dict[str, ModuleType]]:
    """`sys.modules`, which is again as it was after the test."""
    before = dict(sys.modules)
    yield sys.modules
    for name in sys.modules.keys() - before.keys():
        del sys.modules[name]
    sys.modules.update(before)


def test_modules_that_we_add_ourselves_are_no_reason_to_look_at_all(
    loaded_modules: dict[str, ModuleType],
) -> None:
    originals = Originals()
    modules = originals._modules = CountedModules(originals._modules)
    loaded_modules["ours"] = ModuleType("ours")
    originals.accept_modules()
    assert (originals.restore(), modules.looks) == ([], 0)
    loaded_modules["users"] = ModuleType("users")
    assert (originals.restore(), modules.looks) == ([], 1)
    real = loaded_modules.pop("torch.fft")
    assert [name for *_, name in originals.restore()] == ['sys.modules["torch.fft"]']
    assert loaded_modules["torch.fft"] is real


def test_a_run_accepts_its_own_module_before_user_code(live: LiveWorker) -> None:
    assert "accepted: True" in live.analyse(LOOKS_AT_ITS_RUN).output.stdout


@pytest.mark.usefixtures("loaded_modules")
@pytest.mark.parametrize("package", [False, True])
def test_user_code_is_announced_once_before_it_runs(
    package: bool,  # noqa: FBT001 - the column of a table
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    announced: list[str] = []
    monkeypatch.setattr(sys, "announced", announced, raising=False)
    monkeypatch.syspath_prepend(str(tmp_path))
    text = "import sys\nsys.announced.append(__name__)\n"
    name = "announced_package.part" if package else "announced_part"
    (tmp_path / "announced_package").mkdir()
    (tmp_path / "announced_package" / "__init__.py").write_text(text)
    path = tmp_path / f"{name.replace('.', '/')}.py"
    path.write_text(text)
    sources = importing.Sources((str(tmp_path),), before_user_code=lambda: announced.append("announced"))
    importing.import_file(str(path), name, sources)
    importing.run_as_main(str(path), sources, ())
    own = ["announced_package"] if package else []
    assert announced == ["announced", *own, name, "__main__"]


def test_modules_of_the_host_come_before_those_of_the_user(
    loaded_modules: dict[str, ModuleType], monkeypatch: pytest.MonkeyPatch
) -> None:
    last: ModuleType = loaded_modules.setdefault("last_of_host", ModuleType("last_of_host"))
    last.__file__ = "/envs/lib/python3.11/site-packages/last_of_host.py"
    loaded = Loaded()
    assert loaded.last == "last_of_host"
    assert loaded.last_before(["/projects/model"]) == "last_of_host"
    assert loaded.last_before(["/projects/model", "/envs/lib/python3.11/site-packages"]) == ""
    shadow: object = SimpleNamespace(__file__="/projects/model/last_of_host.py")
    monkeypatch.setitem(loaded_modules, "last_of_host", shadow)
    assert loaded.last_before(["/projects/model"]) == ""
