"""When a rank's dump is written and removed: with a clock and a recorder of the test's own, and no torch."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from fuselight.adapters.torch_api.distributed.wait_watch import WAITS_AFTER, WaitWatch
from fuselight.shared.started_processes import WAIT_DUMP

LIBRARY = Path("torch", "distributed", "distributed_c10d.py")
ENTRY = {"process_group": ["0", "default_pg"], "collective_seq_id": 1, "state": "scheduled", "retired": True}


class Rank:
    """A rank whose recorder has begun `begun` collectives, of which `ended` have ended."""

    def __init__(self, number: int, logs: Path, folder: Path) -> None:
        self.number, self.logs, self.now = number, logs, 0.0
        self.begun = self.ended = 0
        self.entries: list[dict[str, Any]] = [dict(ENTRY)]
        self.watch = WaitWatch(
            number, str(logs), str(folder), self.progress, self.dump, clock=lambda: self.now
        )

    def progress(self) -> dict[str, tuple[int, int]]:
        return {"0": (self.begun, self.ended)}

    def dump(self) -> dict[str, Any]:
        return {"version": "2.10", "entries": self.entries, "pg_config": {}}

    def look_for(self, seconds: float) -> None:
        for _ in range(int(seconds)):
            self.now += 1
            self.watch.look()

    @property
    def written(self) -> dict[str, Any] | None:
        path = self.logs / f"{WAIT_DUMP}{self.number}"
        body: dict[str, Any] | None = json.loads(path.read_text()) if path.exists() else None
        return body


@pytest.fixture
def ranks(tmp_path: Path) -> tuple[Rank, Rank]:
    logs, folder = tmp_path / "logs", tmp_path / "run"
    logs.mkdir()
    folder.mkdir()
    return Rank(0, logs, folder), Rank(1, logs, folder)


def fail(error: BaseException, monkeypatch: pytest.MonkeyPatch, watch: WaitWatch) -> None:
    """Have the process end by an exception that nothing has caught."""
    monkeypatch.setattr(sys, "last_value", error, raising=False)
    watch.end()


def caught(call: Callable[[], None]) -> BaseException:
    with pytest.raises(BaseException) as raised:  # noqa: PT011 - whatever ends a process
        call()
    return raised.value


def in_torch(name: str, body: str, **names: Any) -> Callable[..., None]:
    """A function of torch.distributed."""
    code = compile(f"def {name}(src=None):\n    {body}\n", f"/lib/{LIBRARY}", "exec")
    exec(code, names)  # noqa: S102 - the line above
    function: Callable[..., None] = names[name]
    return function


def test_both_ranks_write_dumps_while_one_waits_and_remove_them_when_it_goes_on(
    ranks: tuple[Rank, Rank],
) -> None:
    waiting, other = ranks
    waiting.begun, waiting.ended = 2, 1
    waiting.look_for(WAITS_AFTER)
    other.look_for(WAITS_AFTER)
    assert waiting.written is None, "it does not wait long enough yet"
    assert other.written is None
    waiting.look_for(1)
    other.look_for(1)
    assert waiting.written is not None
    assert other.written is not None, "the rank that does not come says where it is"
    assert any(frame["filename"] == __file__ for frame in other.written["stack"])
    waiting.ended = 2
    waiting.look_for(1)
    assert waiting.written is not None, "an exception may end the process now"
    waiting.begun = waiting.ended = 3
    waiting.look_for(1)
    other.look_for(1)
    assert [rank.written for rank in ranks] == [None, None]


def test_a_call_that_the_recorder_does_not_have_is_known_by_the_stack(ranks: tuple[Rank, Rank]) -> None:
    waiting, _ = ranks

    def look(seconds: float) -> None:
        frame = sys._getframe(1)
        waiting.watch._stack = lambda: [frame]  # type: ignore[method-assign]
        waiting.look_for(seconds)

    in_torch("recv", f"look({WAITS_AFTER + 2})", look=look)(1)
    assert waiting.written is not None
    assert waiting.written["call"] == {"name": "recv", "peer": 1}


def test_a_rank_that_an_exception_ends_leaves_its_dump(
    ranks: tuple[Rank, Rank], monkeypatch: pytest.MonkeyPatch
) -> None:
    waiting, _ = ranks
    waiting.begun = 1
    waiting.look_for(WAITS_AFTER + 1)
    waiting.ended = 1  # gloo counts a collective that timed out
    fail(RuntimeError("Timed out"), monkeypatch, waiting.watch)
    assert waiting.written is not None


@pytest.mark.parametrize(("code", "leaves"), [(1, True), (0, False)])
def test_an_exception_that_mp_spawn_turns_into_an_exit_code_leaves_a_dump(
    ranks: tuple[Rank, Rank], *, code: int, leaves: bool
) -> None:
    """Its process ends in a `finally`, with the exception of `sys.exit`."""
    waiting, _ = ranks
    waiting.begun = 1
    waiting.look_for(WAITS_AFTER + 1)
    waiting.ended = 1

    def collective() -> None:
        raise RuntimeError("Timed out waiting 8000ms for recv operation to complete")

    def run() -> None:
        try:
            collective()
        except RuntimeError:
            sys.exit(code)

    def bootstrap() -> None:
        try:
            run()
        finally:
            waiting.watch.end()

    with pytest.raises(SystemExit):
        bootstrap()
    assert (waiting.written is not None) == leaves


def test_a_wait_that_ended_well_leaves_nothing(ranks: tuple[Rank, Rank]) -> None:
    waiting, other = ranks
    waiting.begun = 1
    waiting.look_for(WAITS_AFTER + 1)
    other.look_for(1)
    other.watch.end()
    assert other.written is not None, "one waits for it"
    assert other.written["ended"] == "ended"
    assert any(frame["filename"] == __file__ for frame in other.written["stack"]), "where it was meanwhile"
    waiting.ended = 1
    waiting.watch.end()
    assert [rank.written for rank in ranks] == [None, None]


@pytest.mark.parametrize(
    ("call", "text", "leaves"),
    [
        (True, "[gloo/transport/tcp/pair.cc:553] Connection closed by peer [127.0.0.1]:59618", True),
        # Of a backward, whose collectives C++ code calls.
        (False, "Timed out waiting 12000ms for send operation to complete", True),
        (True, "Tensors must be contiguous", False),
        (False, "mat1 and mat2 shapes cannot be multiplied", False),
    ],
)
def test_a_rank_whose_peer_is_gone_waits_in_the_call_that_raised(
    ranks: tuple[Rank, Rank], monkeypatch: pytest.MonkeyPatch, *, call: bool, text: str, leaves: bool
) -> None:
    waiting, other = ranks
    other.watch.end()
    assert other.written is None, "nobody waits for it yet"

    def backward() -> None:
        raise RuntimeError(text)

    name = "caught" if call else "backward"
    error = caught(in_torch("all_reduce", f"raise RuntimeError({text!r})") if call else backward)
    trace = error.__traceback__
    while trace is not None and trace.tb_frame.f_code.co_name != name:
        trace = trace.tb_next
    assert trace is not None
    frames = [{"filename": __file__, "line": trace.tb_lineno, "name": name}]
    waiting.entries = [{**ENTRY, "frames": frames, "collective_seq_id": 2}]
    fail(error, monkeypatch, waiting.watch)
    assert (other.written is not None) == leaves
    if not leaves:
        assert waiting.written is None
        return
    assert waiting.written is not None
    assert waiting.written["call"] == ({"name": "all_reduce", "peer": None} if call else None)
    assert [entry["retired"] for entry in waiting.written["entries"]] == [False]


def test_an_interruption_leaves_what_the_ranks_did(
    ranks: tuple[Rank, Rank], monkeypatch: pytest.MonkeyPatch
) -> None:
    waiting, other = ranks
    waiting.begun = 1
    waiting.look_for(WAITS_AFTER + 1)
    other.look_for(1)
    waiting.ended = 1
    for rank in (other, waiting):
        fail(KeyboardInterrupt(), monkeypatch, rank.watch)
        assert rank.written is not None
        assert "ended" not in rank.written
