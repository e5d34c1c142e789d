"""The reader of a job's logs: files and folders of any kind, logs that grow, and bytes of any kind."""

from __future__ import annotations

import functools
import gzip
import os
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fuselight.shared.environment_record import allowed_variables
from fuselight_server.jobs.trace_log import assembly, files, payloads, reader
from fuselight_server.jobs.trace_log.assembly import FileAssembly
from fuselight_server.jobs.trace_log.budget import MemoryBudget
from fuselight_server.jobs.trace_log.files import LogError, find_logs
from fuselight_server.jobs.trace_log.graphs import lines_of
from fuselight_server.jobs.trace_log.model import AttemptState, LoggedJob, NoteKind, ProcessLog
from fuselight_server.jobs.trace_log.reader import JobReader, ReadStep, read_jobs
from fuselight_server.jobs.trace_log.records import RecordSplitter
from tests.support.trace_logs import JOBS, artifact, compiled, event, record

NAME = "dedicated_log_torch_trace_{}.log"
VERSION = artifact("torch_version", '{"pytorch_version": "2.13.0"}', at="", second=1_000)


def job_of(*paths: Path) -> LoggedJob:
    (job,) = read_jobs(paths)
    return job


def process_of(path: Path, data: bytes) -> ProcessLog:
    path.write_bytes(data)
    (process,) = job_of(path).processes
    return process


def kinds_of(job: LoggedJob) -> list[NoteKind]:
    return [note.kind for note in job.notes]


def test_a_log_a_packed_log_and_the_log_of_tlparse_give_the_same(tmp_path: Path) -> None:
    data = VERSION + compiled() + compiled("0/1/0", start=1_003)
    plain = process_of(tmp_path / NAME.format("a"), data)
    packed = process_of(tmp_path / "b.log.gz", gzip.compress(data))
    output = tmp_path / "tl_out" / "rank_3"
    output.mkdir(parents=True)
    (output / "raw.log").write_bytes(data)
    (output / "compile_directory.json").write_text("{}")
    (parsed,) = job_of(tmp_path / "tl_out").processes
    assert parsed.rank == 3
    for process in (plain, packed, parsed):
        assert process.torch_version == "2.13.0"
        assert [str(compile_record.id) for compile_record in process.compiles] == ["0/0", "0/1"]
        graph = process.compiles[1].graphs[0]
        assert payloads.read_text(graph.payload) == "class GraphModule:\n    pass"
        assert [(phase.start, phase.end) for phase in process.phases] == [(1_000, 1_001), (1_003, 1_004)]
        assert (process.started, process.ended) == (1_000, 1_004)


def test_each_rank_has_its_log_and_missing_ranks_are_a_note(tmp_path: Path) -> None:
    for rank in (0, 2, 10):
        (tmp_path / NAME.format(f"rank_{rank}_x")).write_bytes(compiled())
    (tmp_path / NAME.format("launcher")).write_bytes(compiled(rank=1))
    job = job_of(tmp_path)
    assert list(job.ranks) == [0, 1, 2, 10]
    (note,) = job.notes
    assert note.kind is NoteKind.MISSING_RANKS
    assert "3, 4, 5, 6, 7, 8, 9" in note.message


def test_a_note_of_a_single_rank_or_record_is_in_the_singular(tmp_path: Path) -> None:
    bad = b"V1127 20:00:00.000000 7 torch/x.py:1] {this is not json\n"
    (tmp_path / NAME.format("rank_0_x")).write_bytes(bad + compiled())
    (tmp_path / NAME.format("rank_2_x")).write_bytes(compiled())
    messages = [note.message for note in job_of(tmp_path).notes]
    assert messages[0] == "1 rank below 2 has no log: 1."
    assert messages[1].startswith("1 record cannot be read; the first, at byte 0: ")


def test_two_jobs_in_one_folder_are_two(tmp_path: Path) -> None:
    for start, run in ((1_000, "a"), (2_000, "b")):
        for rank in (0, 1):
            log = tmp_path / NAME.format(f"rank_{rank}_{run}")
            log.write_bytes(compiled(start=start + rank / 2))
    first, second = read_jobs([tmp_path])
    assert (first.started, second.started) == (1_000, 2_000)
    assert list(first.ranks) == list(second.ranks) == [0, 1]
    assert first.notes == ()


def test_processes_of_one_run_are_one_job_until_ranks_start_again(tmp_path: Path) -> None:
    for number, (start, rank) in enumerate(((0, None), (100, 0), (101, 1), (300, 0), (301, 1))):
        data = compiled(start=start, process=number, rank=rank)
        (tmp_path / NAME.format(number)).write_bytes(data)
    assert len(read_jobs([tmp_path])) == 3
    reader = JobReader([tmp_path], is_one_run=True)
    for _ in reader.steps():
        pass
    first, again = reader.jobs()
    assert [process.process for process in first.processes] == [1, 2, 0]
    assert [process.process for process in again.processes] == [3, 4]
    assert not [note for note in first.notes if note.kind is NoteKind.OVERLAPPING_JOBS]


def test_jobs_that_ran_at_the_same_time_are_parted_with_a_note(tmp_path: Path) -> None:
    for run in ("a", "b"):
        (tmp_path / NAME.format(f"rank_0_{run}")).write_bytes(compiled())
    first, second = read_jobs([tmp_path])
    assert kinds_of(first) == kinds_of(second) == [NoteKind.OVERLAPPING_JOBS]


@pytest.mark.parametrize(
    ("paths", "starts", "kinds"),
    [
        (("/a.py", "/b.py"), (1_000, 1_000), [NoteKind.OVERLAPPING_JOBS]),
        (("/a.py", "/a.py"), (1_000, 1_000), []),
        (("/a.py", "/b.py"), (1_000, 1_001.5), []),
    ],
    ids=["nothing in common", "a common file", "after each other"],
)
def test_processes_without_a_rank_may_be_of_several_jobs(
    tmp_path: Path, paths: tuple[str, str], starts: tuple[float, float], kinds: list[NoteKind]
) -> None:
    for number, (path, start) in enumerate(zip(paths, starts, strict=True)):
        (tmp_path / NAME.format(number)).write_bytes(
            compiled(path=path, start=start, process=number, rank=None)
        )
    (job,) = read_jobs([tmp_path])
    assert kinds_of(job) == kinds


def test_processes_in_one_file_are_told_by_their_numbers(tmp_path: Path) -> None:
    log = tmp_path / "joined.log"
    names = [
        record("str", [path, 0], at="", process=process) for path, process in (("/a.py", 1), ("/b.py", 2))
    ]
    start = {"stack": [{"line": 1, "name": "f", "filename": 0}]}
    log.write_bytes(
        names[0]
        + names[1]
        + record("dynamo_start", start, process=2)
        + record("dynamo_start", start, process=1)
        + record("str", ["/c.py", 0], at="", process=1)  # the number of another process, used again
        + record("dynamo_start", start, process=1)
    )
    job = job_of(log)
    paths = sorted((process.process, process.compiles[0].stack[0].path) for process in job.processes)
    assert paths == [(1, "/a.py"), (1, "/c.py"), (2, "/b.py")]
    assert kinds_of(job) == [NoteKind.SEVERAL_PROCESSES]


def test_only_the_bad_record_is_lost_and_its_position_is_reported(tmp_path: Path) -> None:
    bad = b"V1127 20:00:00.000000 7 torch/x.py:1] {this is not json\n"
    data = (
        b"\tlost\n"
        + bad
        + record("dynamo_start", {"stack": 7})
        + record("never_seen", {}, "a payload")
        + b"\x00\x01\xff\n\n"
        + compiled()
    )
    process = process_of(tmp_path / "a.log", data)
    assert process.bad_records == 4
    assert process.bad_lines[1][0] == len(b"\tlost\n")
    assert process.unknown == {"never_seen": 1}
    assert [compile_record.state for compile_record in process.compiles] == [AttemptState.FINISHED]
    assert kinds_of(job_of(tmp_path / "a.log")) == [NoteKind.BAD_RECORDS]


@pytest.mark.parametrize("kept", [0.3, 0.9, 0.99])
def test_a_torn_log_says_so(tmp_path: Path, kept: float) -> None:
    data = compiled() + compiled("0/1/0", start=1_002)
    cut = data[: int(len(data) * kept)]
    job = read_jobs([_written(tmp_path / "a.log", cut)])[0]
    assert NoteKind.TRUNCATED in kinds_of(job)
    packed = gzip.compress(data * 50)
    torn = read_jobs([_written(tmp_path / "b.log.gz", packed[: int(len(packed) * kept)])])
    assert NoteKind.UNREADABLE_FILE in kinds_of(torn[0])


def test_a_record_that_is_cut_is_not_also_a_bad_record(tmp_path: Path) -> None:
    payload = record("aot_autograd_cache_miss", {}, '{"key": "a", "components": ["b"]}')
    head = record("dynamo_start", {"stack": []})
    for torn in (payload[:-20], head[: len(head) // 2]):
        job = job_of(_written(tmp_path / "a.log", compiled() + torn))
        assert kinds_of(job) == [NoteKind.TRUNCATED]


@pytest.mark.parametrize(
    ("stack", "reason"),
    [(7, "a stack is not a list"), ([{"line": "x", "name": "f"}], "a frame of a stack has no line number")],
)
def test_the_reason_of_a_bad_record_says_what_is_wrong(tmp_path: Path, stack: object, reason: str) -> None:
    process = process_of(tmp_path / "a.log", record("dynamo_start", {"stack": stack}) + compiled())
    assert process.bad_lines == ((0, reason),)


def _written(path: Path, data: bytes) -> Path:
    path.write_bytes(data)
    return path


def test_states_of_attempts(tmp_path: Path) -> None:
    start = {"stack": [{"line": 1, "name": "torch_dynamo_resume_in_f_at_9", "filename": "/a.py"}]}
    data = (
        record("dynamo_start", start, at="0/0/0")
        + record("dynamo_start", start, at="0/0/1")
        + artifact("recompile_reasons", "0/0: x changed", at="0/1/0")
        + record("compilation_metrics", {"fail_type": "Unsupported"}, at="1/0/0")
        + record("compiled_autograd_graph", {}, "a graph", at="", compiled_autograd_id=0)
    )
    process = process_of(tmp_path / "a.log", data)
    states = {
        str(compile_record.id): [attempt.state for attempt in compile_record.attempts]
        for compile_record in process.compiles
    }
    assert states == {
        "0/0": [AttemptState.RESTARTED, AttemptState.UNFINISHED],
        "0/1": [AttemptState.REFUSED],
        "1/0": [AttemptState.FAILED],
        "!0": [AttemptState.UNKNOWN],
    }
    assert process.compiles[0].function == "f"
    assert process.compiles[0].last.resumed_at == 9
    assert process.compiles[1].recompile_reasons == ("0/0: x changed",)


def test_missing_components_differ_from_empty_ones(tmp_path: Path) -> None:
    bodies = {
        "fx_graph_cache_miss": '{"key": "k", "components": ["[abc] gm: text\\nmore", "odd"]}',
        "aotautograd_cache_bypass": '{"components": [], "cache_bypass_reason": "autocast"}',
        "fx_graph_cache_hit": '{"time_saved_ns": 2000000000}',
        "precompile_cache_bypass": "{}",
        "other_thing_remote_cache_hit": "{}",
    }
    data = b"".join(artifact(name, body) for name, body in bodies.items())
    process = process_of(tmp_path / "a.log", data)
    miss, bypass, hit, precompile, other = process.cache_events
    assert [cache_event.components for cache_event in process.cache_events] == [2, 0, None, None, None]
    components = payloads.read_components(miss)
    assert components is not None
    assert [(component.name, component.value) for component in components] == [
        ("gm", "text\nmore"),
        ("", "odd"),
    ]
    assert payloads.read_components(bypass) == ()
    assert payloads.read_components(hit) is None
    assert (bypass.reason, hit.time_saved, precompile.cache.value) == ("autocast", 2.0, "precompile")
    assert (other.cache.value, other.is_remote) == ("other", True)


def test_secrets_of_the_environment_are_never_kept(tmp_path: Path) -> None:
    variables = '{"HF_TOKEN": "hf_secret", "TORCH_LOGS": "https://user:word@host", "TORCHX_API_KEY": "k"}'
    program = "import os\nos.environ['TORCHINDUCTOR_FREEZING'] = '1'\nos.environ['AWS_SECRET'] = 'k'\n"
    data = artifact("fuselight_environment", variables, at="") + artifact("fx_graph_runnable", program)
    process = process_of(tmp_path / "a.log", data)
    assert process.environment == {"TORCH_LOGS": "https://host", "TORCHINDUCTOR_FREEZING": "1"}
    assert allowed_variables({1: 2, "WORLD_SIZE": 8}) == {"WORLD_SIZE": "8"}


def test_a_phase_that_never_ends_has_no_end(tmp_path: Path) -> None:
    odd = record("chromium_event", {}, '{"ph": "B", "ts": 3e6, "name": "odd order"}')
    data = event("outer", "B", 1) + event("inner", "B", 2) + event("inner", "E", 2.5) + odd
    process = process_of(tmp_path / "a.log", data + event("stray", "E", 4))
    phases = [(phase.name, phase.start, phase.end, phase.depth) for phase in process.phases]
    assert phases == [("outer", 1, None, 0), ("inner", 2, 2.5, 1), ("odd order", 3, None, 1)]
    assert str(process.phases[0].compile_id) == "0/0"


def test_lines_of_a_graph_have_the_source_that_torch_names() -> None:
    text = """class GraphModule(torch.nn.Module):
    def forward(self, L_x_: "f32[2]"):
        l_x_ = L_x_

        # File: /a b.py:3 in f, code: y = x + 1
        add: "f32[2]" = l_x_ + 1;  l_x_ = None
        # recompute: MUST_SAVE File: /b.py:7 in g, code: return y[0]
        item: "f32[2]" = add[0]
        neg = -item
        call: "f32[2]" = torch.ops.aten.relu.default(neg)
        weight = self.weight
        return (call,)"""
    rows = [(line.path, line.line, line.text, line.operator, line.printed) for line in lines_of(text)]
    assert rows == [
        ("/a b.py", 3, "y = x + 1", "+", 6),
        ("/b.py", 7, "return y[0]", "getitem", 8),
        ("/b.py", 7, "return y[0]", "-", 9),
        ("/b.py", 7, "return y[0]", "torch.ops.aten.relu.default", 10),
    ]


def test_paths_without_a_log_are_clear_errors(tmp_path: Path) -> None:
    (tmp_path / "server.log").write_text("listening on port 80\n")
    with pytest.raises(LogError, match="has no log of"):
        read_jobs([tmp_path])
    with pytest.raises(LogError, match="cannot be read"):
        read_jobs([tmp_path / "missing"])
    with pytest.raises(LogError, match="has no record of"):
        read_jobs([tmp_path / "server.log"])
    (tmp_path / NAME.format("empty")).write_bytes(b"")
    with pytest.raises(LogError, match="has no record of"):
        read_jobs([tmp_path])


def test_logs_by_other_names_are_known_by_their_first_line(tmp_path: Path) -> None:
    (tmp_path / "server.log").write_text("listening on port 80\n")
    (tmp_path / "rank_1.log.gz").write_bytes(gzip.compress(compiled()))
    assert list(job_of(tmp_path).ranks) == [1]


def test_a_link_out_of_the_folder_is_not_read(tmp_path: Path) -> None:
    folder, outside = tmp_path / "folder", tmp_path / "outside"
    folder.mkdir()
    outside.mkdir()
    (outside / NAME.format("secret")).write_bytes(compiled())
    (folder / NAME.format("a")).write_bytes(compiled())
    (folder / NAME.format("out")).symlink_to(outside / NAME.format("secret"))
    (folder / NAME.format("same")).symlink_to(folder / NAME.format("a"))
    (folder / "deeper").symlink_to(outside)
    os.mkfifo(folder / NAME.format("pipe"))
    logs = find_logs([folder])
    assert [Path(file.path).name for file in logs.files] == [NAME.format("a"), NAME.format("same")]
    assert {note.kind for note in logs.notes} == {NoteKind.UNREADABLE_FILE, NoteKind.LINK}


def test_a_folder_of_many_files_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "MAX_FILES", 3)
    for number in range(5):
        (tmp_path / NAME.format(number)).write_bytes(compiled(process=number))
    job = job_of(tmp_path)
    assert kinds_of(job) == [NoteKind.TOO_MANY_FILES]
    assert len(list(job.processes)) == 3


def test_facts_beyond_the_budget_are_counted_and_not_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reader, "MemoryBudget", lambda: MemoryBudget(5_000))
    log = _written(tmp_path / "a.log", b"".join(compiled(f"{frame}/0/0") for frame in range(50)))
    job = job_of(log)
    (process,) = job.processes
    assert 0 < len(process.compiles) < 50
    assert process.kinds["compilation_metrics"] == 50
    assert process.not_kept["compile attempts"] > 0
    assert kinds_of(job) == [NoteKind.NOT_KEPT]


def test_a_step_hands_on_what_has_ended_and_a_cancel_keeps_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reader, "_FIRST_STEP", 2_000)
    monkeypatch.setattr(reader, "_STEP", 2_000)
    log = _written(tmp_path / "a.log", b"".join(compiled(f"{frame}/0/0") for frame in range(20)))
    steps: list[ReadStep] = []
    jobs = read_jobs([log], progress=steps.append, is_cancelled=lambda: len(steps) == 3)
    assert [step.total_bytes for step in steps] == [log.stat().st_size] * 3
    assert [step.bytes_read for step in steps] == [2_000, 4_000, 6_000]
    assert str(steps[0].finished[0].compile.id) == "0/0"
    (job,) = jobs
    assert NoteKind.CANCELLED in kinds_of(job)
    assert not next(iter(job.processes)).is_complete


def test_a_log_that_grows_is_followed(tmp_path: Path) -> None:
    first, second = compiled(), compiled("0/1/0", start=1_002)
    log = _written(tmp_path / NAME.format("a"), first[:-10])
    added: list[Callable[[], object]] = [
        lambda: log.write_bytes(first + second[:30]),
        lambda: None,
        lambda: log.write_bytes(first + second),
        lambda: (tmp_path / NAME.format("b")).write_bytes(compiled(process=9)),
    ]

    def wait() -> bool:
        if added:
            added.pop(0)()
            return True
        return False

    following = JobReader([tmp_path])
    finished = [
        str(finished_compile.compile.id)
        for step in following.follow(wait)
        for finished_compile in step.finished
    ]
    assert sorted(finished) == ["0/0", "0/0", "0/1"]
    (job,) = following.jobs()
    assert job.notes == ()
    assert [len(process.compiles) for process in job.processes] == [2, 1]
    assert all(process.is_complete for process in job.processes)


def test_a_payload_of_a_log_that_has_changed_is_a_clear_error(tmp_path: Path) -> None:
    log = tmp_path / "a.log"
    process = process_of(log, compiled())
    log.write_bytes(b"")
    with pytest.raises(LogError, match="shorter than when it was read"):
        payloads.read_text(process.compiles[0].graphs[0].payload)
    log.unlink()
    with pytest.raises(LogError, match="cannot be read"):
        payloads.read_text(process.compiles[0].graphs[0].payload)


def records_of(data: bytes, size: int) -> list[Any]:
    splitter = RecordSplitter()
    out = []
    for start in range(0, len(data), size):
        out += list(splitter.feed(data[start : start + size]))
    out += list(splitter.last_record())
    return [
        (
            raw_record.offset,
            raw_record.head,
            raw_record.payload,
            raw_record.payload_offset,
            raw_record.payload_length,
        )
        for raw_record in out
    ]


@given(st.lists(st.sampled_from([b"\n", b"\t", b"a", b"{", b"V1 "]), max_size=40), st.integers(1, 50))
def test_records_do_not_depend_on_how_the_bytes_arrive(parts: list[bytes], size: int) -> None:
    data = b"".join(parts)
    rows = records_of(data, size)
    assert rows == records_of(data, len(data) + 1)
    for offset, head, payload, start, length in rows:
        assert data[offset : offset + len(head)] == head
        assert data[start : start + length] == payload


def test_a_record_without_an_end_takes_no_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fuselight_server.jobs.trace_log.records.MAX_HEAD", 100)
    monkeypatch.setattr("fuselight_server.jobs.trace_log.records.MAX_PAYLOAD", 100)
    splitter = RecordSplitter()
    data = b"head\n" + b"\tline\n" * 1_000 + b"next\n"
    out = []
    for start in range(0, len(data), 37):
        out += list(splitter.feed(data[start : start + 37]))
        assert len(splitter._data) <= 237
    out += list(splitter.last_record())
    assert [(raw_record.head, raw_record.payload) for raw_record in out] == [(b"head", b""), (b"next", b"")]
    assert abs(out[0].payload_length - 6_000) <= 1


@functools.cache
def recorded() -> bytes:
    """A recording with most kinds of records."""
    names = {"graph_break", "autocast", "compile_crash"}
    logs = [log for job in JOBS if job.name in names for log in job.glob("*.gz")]
    return b"".join(gzip.decompress(log.read_bytes()) for log in logs[:3])


def read(data: bytes) -> list[ProcessLog]:
    file, splitter = FileAssembly("x", None, MemoryBudget()), RecordSplitter()
    for raw in (*splitter.feed(data), *splitter.last_record()):
        file.add_record(raw)
    return [process.log(is_complete=True) for process in file.processes]


def test_a_log_that_is_cut_anywhere_is_read() -> None:
    data = recorded()
    for position in range(0, len(data), 1_000):
        window = data[max(0, position - 30_000) : position]
        read(window)


def test_flipped_bytes_and_swapped_lines_are_read() -> None:
    numbers = random.Random(0)  # noqa: S311 - not for secrets
    data = recorded()
    for _ in range(40):
        start = numbers.randrange(len(data))
        window = bytearray(data[start : start + 40_000])
        for _ in range(20):
            window[numbers.randrange(len(window))] = numbers.randrange(256)
        read(bytes(window))
        lines = data[start : start + 40_000].split(b"\n")
        numbers.shuffle(lines)
        read(b"\n".join(lines))


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=12,
)
KINDS = st.sampled_from([*assembly._HANDLERS, "chromium_event", "artifact", "describe_tensor"])
NAMES = st.sampled_from(
    ["dynamo_graph_break_reason", "recompile_reasons", "dynamo_error", "fx_graph_cache_miss", "torch_version"]
)


def test_each_known_kind_has_its_handler() -> None:
    """A missing one would look like a damaged log: each of its records would be skipped."""
    handlers = set(assembly._HANDLERS.values())
    assert {name for name in handlers if not hasattr(assembly.ProcessAssembly, name)} == set()


@settings(deadline=None, max_examples=40)
@given(st.lists(st.tuples(KINDS, JSON, NAMES, st.text(max_size=80), st.integers(-1, 3)), max_size=8))
def test_known_kinds_with_any_values_are_read(rows: list[tuple[str, Any, str, str, int]]) -> None:
    data = b"".join(
        record(
            kind, {"name": name} if kind == "artifact" else value, payload.replace("\r", ""), at=f"{frame}/0"
        )
        for kind, value, name, payload, frame in rows
    )
    processes = read(data)
    assert sum(process.records for process in processes) == len(rows)


@settings(deadline=None)
@given(st.lists(st.binary(max_size=200), max_size=20))
def test_any_bytes_are_read(lines: list[bytes]) -> None:
    read(b"\n".join(lines))
