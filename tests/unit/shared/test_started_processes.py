"""What processes of a program are given to record themselves, and what is read of them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from fuselight.shared.started_processes import (
    ENDS,
    RUN,
    TRACE,
    ProcessEnd,
    added_logs,
    logs_in,
    named_dumps,
    process_variables,
    read_ends,
    startup_folder,
    write_ends,
)
from tests.support.trace_logs import compiled


def test_what_a_user_has_set_is_kept() -> None:
    plain = process_variables({}, "/run", "1")
    assert (plain[TRACE], plain[RUN], plain["PYTHONPATH"]) == ("/run", "/run/1", startup_folder())
    assert plain["TORCH_FR_DUMP_TEMP_FILE"].startswith("/run/")
    assert named_dumps(plain) == plain["TORCH_FR_DUMP_TEMP_FILE"]
    assert plain["TORCH_NCCL_DUMP_ON_TIMEOUT"] == "1"
    user = {
        TRACE: "/mine",
        "PYTHONPATH": "/libs",
        "TORCH_NCCL_DEBUG_INFO_TEMP_FILE": "/dumps/",
        "TORCH_NCCL_TRACE_BUFFER_SIZE": "9",
        "TORCH_NCCL_DUMP_ON_TIMEOUT": "0",
    }
    added = process_variables(user, "/run")
    assert added == {
        TRACE: "/mine",
        RUN: "/run",
        "PYTHONPATH": os.pathsep.join((startup_folder(), "/libs")),
    }
    assert (named_dumps(user), named_dumps({})) == ("/dumps/", "")


def test_only_logs_that_were_added_count_and_not_that_of_the_program(tmp_path: Path) -> None:
    folder = tmp_path / "runs [1]"
    assert logs_in(str(folder)) == frozenset()
    folder.mkdir()

    def log(name: str, data: bytes) -> str:
        path = folder / f"dedicated_log_torch_trace_{name}.log"
        path.write_bytes(data)
        return str(path)

    log("old", compiled(process=5))
    before = logs_in(str(folder))
    rank, program, empty = log("a", compiled(process=6)), log("b", compiled(process=7)), log("c", b"")
    assert added_logs(str(folder), before) == (rank, program, empty)
    assert added_logs(str(folder), before, 7) == (rank, empty)


def test_ends_survive_and_what_is_no_record_reads_as_nothing(tmp_path: Path) -> None:
    ends = (ProcessEnd(rank=1, pid=5, code=-9), ProcessEnd(number=0, error="ValueError: bad"))
    write_ends(str(tmp_path), ends)
    assert read_ends(str(tmp_path)) == ends
    for text in ("", "{", "3", '[{"rank": "x"}]', "null", "[" * 100_000):
        (tmp_path / ENDS).write_text(text)
        assert read_ends(str(tmp_path)) == ()
    assert read_ends(str(tmp_path / "gone")) == ()


PROGRAM = """
import os, sys
import sitecustomize
print(sitecustomize.__file__, getattr(sitecustomize, "NAME", None))
print([entry for entry in sys.path if "startup" in entry])
import torch
print(torch.VALUE, type(torch.__loader__).__name__, torch.__spec__.loader is torch.__loader__)
"""


def test_a_process_starts_as_without_the_recorder(tmp_path: Path) -> None:
    (tmp_path / "torch.py").write_text("VALUE = 3\n")

    def start(**changes: str) -> tuple[str, str]:
        plain = {name: value for name, value in os.environ.items() if name != RUN}
        variables = {**plain, **process_variables({"PYTHONPATH": str(tmp_path)}, "/run"), **changes}
        done = subprocess.run(
            [sys.executable, "-c", PROGRAM], capture_output=True, text=True, env=variables, check=False
        )
        return done.stdout, done.stderr

    ours = f"{startup_folder()}/sitecustomize.py None"
    rest = ["[]", "3 SourceFileLoader True"]
    out, err = start()
    if out.splitlines()[0] != ours:  # this Python has a sitecustomize of its own
        assert not out.startswith(startup_folder())
    assert (out.splitlines()[1:], err) == (rest, "")
    (tmp_path / "sitecustomize.py").write_text("NAME = 'mine'\n")
    out, err = start()
    assert (out.splitlines(), err) == ([f"{tmp_path}/sitecustomize.py mine", *rest], "")
    (tmp_path / "sitecustomize.py").write_text("import missing_module\n")
    out, err = start()
    assert "No module named 'missing_module'" in err, "the user's own error is shown as in a plain start"
