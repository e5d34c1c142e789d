"""The driver of an absent GPU: everything that it replaces is restored, in forked children and threads too."""

from __future__ import annotations

import os
import threading
from importlib import import_module
from pathlib import Path

import pytest
import torch

from fuselight.shared.report import Assembled, Device
from tests.support.kernels import DEVICES, H100, MI300X, NO_TRITON, source, with_line

pytest.importorskip("triton", reason=NO_TRITON)

from fuselight.adapters.triton_api import assemble, forked_query, names, store
from fuselight.adapters.triton_api.driver import virtual_driver

pytestmark = pytest.mark.torch


@pytest.fixture(autouse=True)
def _nothing_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store, "_memory", type(store._memory)())


def state() -> tuple[object, ...]:
    knobs = names.knobs()
    return (
        names.driver()._active,
        torch.version.hip,
        dict(os.environ),
        dict(vars(knobs.cache)),
        dict(vars(knobs.runtime)),
        dict(vars(knobs.compilation)),
        "print" in vars(names.nvidia_compiler()),
        torch.cuda.is_initialized(),  # type: ignore[no-untyped-call]  # torch's
    )


@pytest.mark.parametrize("device", [H100, MI300X], ids=["cuda", "hip"])
@pytest.mark.parametrize("line", ["", "spare = undefined"])
@pytest.mark.parametrize("apart_", [True, False])
def test_compiling_restores_the_process_state(
    device: Device, line: str, *, apart_: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("TRITON_CACHE_DIR", raising=False)
    monkeypatch.setattr(forked_query, "FORKS", apart_ and forked_query.FORKS)
    import_module(
        "torch._inductor.runtime.triton_heuristics"
    )  # the import names Inductor's folder in the environment
    before, threads = state(), set(threading.enumerate())
    assembled = assemble(with_line(line) if line else source("pointwise"), device)
    assert (assembled.failure is None) is (line == "")
    assert state() == before
    assert set(threading.enumerate()) <= threads  # a thread of an earlier test may end in between


def test_triton_sees_the_target_only_inside_the_block(tmp_path: Path) -> None:
    driver, before = names.driver(), state()
    outer, inner = names.gpu_target("cuda", 80, 32), names.gpu_target("hip", "gfx942", 64)

    def nested() -> None:
        with virtual_driver(outer, str(tmp_path)):
            with virtual_driver(inner, str(tmp_path / "inner")):
                assert driver.active.get_current_target() == inner
                assert torch.version.hip is not None
                assert driver.active.get_current_device() == driver.active.get_current_stream() == 0
                assert driver.active.get_active_torch_device() == torch.device("cuda", 0)
                assert driver.active.is_active()
                assert names.knobs().cache.dir == str(tmp_path / "inner")
            assert driver.active.get_current_target() == outer
            assert torch.version.hip is None
            assert names.knobs().cache.dir == str(tmp_path)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        nested()
    assert state() == before


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")
@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")
def test_a_child_forked_at_that_time_has_neither_the_lock_nor_the_driver(tmp_path: Path) -> None:
    inside, done = threading.Event(), threading.Event()
    before = names.driver()._active

    def hold() -> None:
        with virtual_driver(names.gpu_target("cuda", 80, 32), str(tmp_path)):
            inside.set()
            done.wait(60)

    thread = threading.Thread(target=hold)
    thread.start()
    assert inside.wait(60)
    child = os.fork()
    if child == 0:
        code = 1
        try:
            clean = names.driver()._active is before
            code = 0 if clean and assemble(source("pointwise"), H100).failure is None else 2
        finally:
            os._exit(code)
    try:
        _, status = os.waitpid(child, 0)
        assert os.waitstatus_to_exitcode(status) == 0
        assert names.driver()._active is not before  # still inside, here
    finally:
        done.set()
        thread.join(60)
    assert names.driver()._active is before


def test_threads_are_interleaved(tmp_path: Path) -> None:
    answers: dict[str, Assembled] = {}

    def assemble_source(name: str, device: Device) -> None:
        answers[name] = assemble(source("pointwise"), device, cache=str(tmp_path))

    threads = [threading.Thread(target=assemble_source, args=item) for item in DEVICES.items()]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    for name, device in DEVICES.items():
        assert answers[name].failure is None
        assert f".target sm_{device.arch.replace('.', '')}" in answers[name].listings["ptx"].text


def test_the_users_switches_of_triton_do_not_reach_it(monkeypatch: pytest.MonkeyPatch) -> None:
    plain = assemble(source("pointwise"), H100)
    for name in (
        "TRITON_INTERPRET",
        "TRITON_DISABLE_LINE_INFO",
        "TRITON_KERNEL_DUMP",
        "TRITON_STORE_BINARY_ONLY",
    ):
        monkeypatch.setenv(name, "1")
    monkeypatch.setenv("TRITON_OVERRIDE_ARCH", "sm80")
    assert assemble(source("pointwise"), H100) == plain


def test_a_user_hook_still_runs_and_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(forked_query, "FORKS", False)  # else it is seen in the child alone
    seen = []
    runtime = names.knobs().runtime

    def theirs(*arguments: object) -> tuple[str, str]:
        seen.append(len(arguments))
        return "theirs", "theirs"

    with runtime.scope():
        runtime.add_stages_inspection_hook = theirs
        assert assemble(source("persistent_reduction"), H100).failure is None
        assert runtime.add_stages_inspection_hook is theirs
    assert 5 in seen  # with the stages; newer Tritons ask without arguments for a key, too
