"""Which processes an exception of a launcher names."""

from __future__ import annotations

from types import SimpleNamespace

from fuselight.shared.started_processes import ProcessEnd
from fuselight.worker.child.started_processes import ends_of


class ChildFailedError(Exception):
    """As torchrun raises it."""

    def __init__(self, failures: object) -> None:
        super().__init__("")
        self.failures = failures


class ProcessRaisedException(Exception):  # noqa: N818 - as torch names it
    """As mp.spawn raises it."""

    def __init__(self, text: str, code: int | None = None) -> None:
        super().__init__(text)
        self.error_index, self.error_pid = 2, 40
        if code is not None:
            self.exit_code = code


def failure(message: object, code: int = 1) -> SimpleNamespace:
    return SimpleNamespace(pid=30, exitcode=code, error_file_data={"message": message})


def test_ranks_of_torchrun_and_processes_of_spawn() -> None:
    recorded = {"message": "ValueError: bad batch", "extraInfo": {}}
    launcher = ChildFailedError({1: failure("<NONE>", -9), 3: failure(recorded)})
    assert ends_of(launcher) == [
        ProcessEnd(rank=1, pid=30, code=-9),
        ProcessEnd(rank=3, pid=30, code=1, error="ValueError: bad batch"),
    ]
    raised = ProcessRaisedException("\n\n-- Process 2 terminated\nTraceback\n  File\nKeyError: 'x'\n\n")
    assert ends_of(raised) == [ProcessEnd(number=2, pid=40, code=1, error="KeyError: 'x'")]
    assert ends_of(ProcessRaisedException("process 2 exited", 3)) == [ProcessEnd(number=2, pid=40, code=3)]


def test_a_launcher_in_the_causes_counts_and_other_exceptions_name_nobody() -> None:
    outer = RuntimeError("training failed")
    outer.__cause__ = ProcessRaisedException("process 2 exited", -11)
    assert [end.code for end in ends_of(outer)] == [-11]
    circle = ValueError("a")
    circle.__context__ = KeyError("b")
    circle.__context__.__context__ = circle
    assert ends_of(circle) == []
    assert ends_of(ChildFailedError({})) == ends_of(ChildFailedError("text")) == []
    odd = ChildFailedError({"x": SimpleNamespace()})
    assert ends_of(odd) == [ProcessEnd()], (
        "a release of torch with other names: that one failed is still known"
    )
