"""What counts as a difference between ranks, on logs that are made up."""

from __future__ import annotations

import asyncio
import dataclasses
import io
import json
from pathlib import Path
from typing import Any

import pytest

from fuselight_server.base.cancellation import CancelToken
from fuselight_server.base.finding import Severity
from fuselight_server.base.terminal import Terminal
from fuselight_server.cli.formats.ranks import print_ranks
from fuselight_server.commands.open import OpenRequest, open_jobs
from fuselight_server.jobs.ranks.comparison import compare_digests, compare_ranks
from fuselight_server.jobs.ranks.digests import digest
from fuselight_server.jobs.ranks.findings import rank_findings
from fuselight_server.jobs.ranks.many import MANY_RANKS, MAX_SHOWN, read_many
from fuselight_server.jobs.ranks.model import DifferenceKind, RankTable
from fuselight_server.jobs.trace_log.files import LogError, find_logs
from fuselight_server.jobs.trace_log.reader import read_jobs
from tests.support.job_logs import project, written
from tests.support.trace_logs import artifact, event, record

GRAPH = """\
class GraphModule(torch.nn.Module):
    def forward(self, L_x_: "f32[4, 8][8, 1]{device}"):
        l_x_ = L_x_

        # File: {folder}/net.py:{line} in {function}, code: x = torch.{operator}(x)
        x: "f32[4, 8][8, 1]{device}" = torch.{operator}(l_x_, device='{device}');  l_x_ = None
        return (x,)
"""


def compiled(
    rank: int,
    frame: int = 0,
    *,
    function: str = "step",
    operator: str = "relu",
    device: str = "cpu",
    folder: str = "/job/src",
    seconds: float = 1.0,
    again: str | None = None,
    cache: str | None = None,
    is_ended: bool = True,
    library: str = "",
    late: float = 0.0,
) -> bytes:
    """The records of a compile of one function; a recompilation if `again` says why.

    `library`: the file that the function is in, called by line 90 of the user's. `late`: seconds that it starts later.
    """
    at = f"{frame}/{0 if again is None else 1}/0"
    line, path = 10 * frame + 5, library or f"{folder}/net.py"
    caller = [{"line": 90, "name": "main", "filename": f"{folder}/train.py"}] if library else []
    options: dict[str, Any] = {
        "at": at,
        "process": 100 + rank,
        "rank": rank,
        "second": 10 * frame + (5 if again else 0),
    }
    start = 1_000.0 + 10 * frame + (5 if again else 0) + late
    graph = GRAPH.format(operator=operator, device=device, folder=folder, line=line, function=function)
    metrics = {
        "co_name": function,
        "co_filename": path,
        "co_firstlineno": line - 1,
        "start_time": start,
        "entire_frame_compile_time_s": seconds,
    }
    parts = [
        event("dynamo", "B", start, **options),
        record(
            "dynamo_start",
            {"stack": [*caller, {"line": line - 1, "name": function, "filename": path}]},
            **options,
        ),
        b"" if again is None else artifact("recompile_reasons", json.dumps([again]), **options),
        record("dynamo_output_graph", {}, graph, **options),
        b"" if cache is None else artifact(f"fx_graph_cache_{cache}", '{"key": "k"}', **options),
    ]
    if is_ended:
        parts += [
            event("dynamo", "E", start + seconds, **options),
            record("compilation_metrics", metrics, **options),
        ]
    return b"".join(parts)


def logs_of(folder: Path, logs: dict[int, bytes]) -> Path:
    return written(folder, {f"rank_{rank}_x": data for rank, data in logs.items()})


def table_of(folder: Path, logs: dict[int, bytes]) -> RankTable:
    (job,) = read_jobs([logs_of(folder, logs)])
    table = compare_ranks(job)
    assert table is not None
    return table


def messages(table: RankTable) -> list[str]:
    return [difference.message for difference in table.differences]


AGAIN = "0/0: tensor 'x' size mismatch at index 0. expected 4, actual {}"


@pytest.mark.parametrize(
    ("library", "function", "shown", "words"),
    [
        ("/py/site-packages/torch/_dynamo/external_utils.py", "inner", None, "train.py:90 (0/0)"),
        ("/usr/lib/python3.11/contextlib.py", "helper", "helper", "train.py:90 helper (0/0)"),
        ("", "step", "step", "net.py:4 step (0/0)"),
    ],
)
def test_a_function_of_a_library_that_starts_late_is_on_the_line_that_calls_it(
    tmp_path: Path, library: str, function: str, shown: str | None, words: str
) -> None:
    """torch wraps `inner` around a module, as that of DistributedDataParallel."""
    table = table_of(
        tmp_path, {rank: compiled(rank, function=function, library=library, late=rank) for rank in (0, 1)}
    )
    (skew,) = table.skews
    assert skew.function == shown
    assert table.rows[0].slowest is not None
    assert (table.rows[0].slowest.function, table.rows[0].slowest.location) == (shown, skew.location)
    assert table.timeline is not None
    assert {span.name for lane in table.timeline.lanes for span in lane.spans} == {shown or "train.py:90"}
    lines = io.StringIO()
    print_ranks(table, Terminal(lines))
    assert f"  {words}: rank 1 began this compile 1.0 s after rank 0" in lines.getvalue()


def test_a_module_of_a_library_that_one_rank_compiles_is_named_by_the_line_that_calls_it(
    tmp_path: Path,
) -> None:
    wrapper = "/py/site-packages/torch/_dynamo/external_utils.py"
    logs = {rank: compiled(rank) for rank in (0, 1)}
    logs[1] += compiled(1, 1, function="inner", library=wrapper)
    (difference,) = table_of(tmp_path, logs).differences
    assert difference.message == "only rank 1 compiled the module that this line calls"
    assert difference.location is not None
    assert (difference.location.line, difference.function) == (90, None)


def test_devices_folders_and_varying_sizes_are_no_difference(tmp_path: Path) -> None:
    logs = {
        rank: compiled(rank, device=f"cuda:{rank}", folder=f"/node{rank}/job/src")
        + compiled(rank, again=AGAIN.format(5 + rank), folder=f"/node{rank}/job/src")
        for rank in range(3)
    }
    table = table_of(tmp_path, logs)
    assert messages(table) == []
    assert [group.label for group in table.groups] == ["ranks 0-2"]


def test_one_more_function_on_a_rank_does_not_shift_the_others(tmp_path: Path) -> None:
    logs = {rank: compiled(rank, 1) for rank in range(3)}
    logs[2] = compiled(2, 0, function="warm_up") + compiled(2, 1)
    assert messages(table_of(tmp_path, logs)) == ["only rank 2 compiled `warm_up`"]


def test_only_the_first_difference_is_a_warning(tmp_path: Path) -> None:
    logs = {rank: compiled(rank, 0) + compiled(rank, 1, function="loss") for rank in range(3)}
    logs[1] = compiled(1, 0, operator="sin") + compiled(1, 1, function="loss", operator="cos")
    table = table_of(tmp_path, logs)
    assert messages(table) == [
        "the graph of rank 1 has `sin` here, that of the others `relu`",
        "the graph of rank 1 has `cos` here, that of the others `relu`",
    ]
    first, second = rank_findings(table, inputs="job")
    assert (first.severity, second.severity) == (Severity.WARNING, Severity.INFORMATION)
    assert [item.span.line for item in second.related] == [first.span.line]
    assert "can follow from the first" in second.message
    assert "Or nothing, if these ranks are stages of a pipeline" in first.message


def test_a_graph_without_a_line_of_the_users_differs_on_the_call_that_led_there(tmp_path: Path) -> None:
    """As that of an `nn.Sequential`, of which all code is torch's own."""
    inside = b"/lib/python3.11/site-packages/torch/_dynamo/external_utils.py"

    def called(rank: int, operator: str) -> bytes:
        caller = b'"stack": [{"line": %d, "name": "train", "filename": "/job/src/train.py"}, ' % (20 + rank)
        log = compiled(rank, operator=operator).replace(b'"stack": [', caller)
        return log.replace(b"# File: ", b"# Of ").replace(b"/job/src/net.py", inside)

    table = table_of(tmp_path, {0: called(0, "relu"), 1: called(1, "sin")})
    (difference,) = table.differences
    assert difference.location is not None
    assert (difference.location.path, difference.location.line) in {
        ("/job/src/train.py", 20),
        ("/job/src/train.py", 21),
    }
    (finding,) = rank_findings(table, inputs="job")
    assert "near this line" not in finding.title


@pytest.mark.parametrize(
    ("reason", "hint"),
    [
        (AGAIN.format(6), "Pad or drop the last batch"),
        ("0/0: GLOBAL_STATE changed: grad_mode ", "Call it in the same modes"),
    ],
)
def test_the_advice_for_one_more_compile_fits_what_changed(tmp_path: Path, reason: str, hint: str) -> None:
    (finding,) = rank_findings(
        table_of(tmp_path, {0: compiled(0), 1: compiled(1) + compiled(1, again=reason)}), inputs="job"
    )
    assert finding.code == "FL913"
    assert hint in finding.message


def test_a_rank_whose_log_ends_in_a_compile_is_not_blamed_for_what_it_lacks(tmp_path: Path) -> None:
    whole = {rank: compiled(rank, 0) + compiled(rank, 1, function="loss") for rank in range(2)}
    table = table_of(tmp_path, whole | {2: compiled(2, 0, is_ended=False)})
    assert [difference.kind for difference in table.differences] == [DifferenceKind.UNFINISHED]
    assert messages(table) == [
        "the compile of rank 2 had not ended when its log ended (the others have finished it)"
    ]


@pytest.mark.parametrize("is_complete", [True, False])
def test_a_log_that_is_still_read_lacks_nothing(tmp_path: Path, is_complete: bool) -> None:  # noqa: FBT001
    folder = logs_of(tmp_path, {0: compiled(0), 1: compiled(1) + compiled(1, again=AGAIN.format(6))})
    (job,) = read_jobs([folder])
    first, second = (digest(process) for process in job.processes)
    first = dataclasses.replace(first, log=dataclasses.replace(first.log, is_complete=is_complete))
    table = compare_digests([first, second])
    assert table is not None
    expected = ["rank 1 compiled again here: x.size(0) was 4, now 6 (rank 0 did not)"]
    assert messages(table) == (expected if is_complete else [])


@pytest.mark.parametrize(("slow", "count"), [(9.0, 1), (1.5, 0)])
def test_a_cache_that_only_some_ranks_hit_counts_if_it_cost_a_second(
    tmp_path: Path, slow: float, count: int
) -> None:
    logs = {rank: compiled(rank, cache="hit") for rank in range(3)}
    logs[3] = compiled(3, cache="miss", seconds=slow)
    table = table_of(tmp_path, logs)
    assert len(table.differences) == count
    if count:
        (finding,) = rank_findings(table, inputs="job")
        assert finding.title == "rank 3 missed the compile cache here, which the others hit: 8.0 s longer"
        assert (finding.code, finding.severity) == ("FL915", Severity.INFORMATION)


def test_calls_past_the_recompile_limit_count_once(tmp_path: Path) -> None:
    def refused(rank: int, count: int) -> bytes:
        return b"".join(
            artifact(
                "recompile_reasons",
                json.dumps([AGAIN.format(9 + number)]),
                at=f"0/{number + 1}/0",
                process=100 + rank,
                rank=rank,
            )
            for number in range(count)
        )

    logs = {rank: compiled(rank) + refused(rank, count) for rank, count in enumerate((3, 1))}
    table = table_of(tmp_path / "both", logs)
    assert (messages(table), [row.refused for row in table.rows]) == ([], [3, 1])
    table = table_of(tmp_path / "one", {0: compiled(0), 1: logs[1]})
    assert messages(table) == [
        "rank 1 reached the recompile limit here: x.size(0) was 4, now 9 (rank 0 did not)"
    ]


def test_damaged_logs_raise_nothing(tmp_path: Path) -> None:
    whole = compiled(1) + compiled(1, again=AGAIN.format(6)) + compiled(1, 1, function="loss", cache="hit")
    for number, cut in enumerate(range(0, len(whole), 307)):
        for damaged in (whole[:cut], whole[:cut] + b"\xff\x00" + whole[cut + 30 :]):
            folder = logs_of(tmp_path / f"{number}-{len(damaged)}", {0: compiled(0), 1: damaged})
            for job in read_jobs([folder]):
                table = compare_ranks(job)
                if table is not None:
                    rank_findings(table, inputs="job")


GUARDS = """\
TREE_GUARD_MANAGER:
+- RootGuardManager
| +- GLOBAL_STATE: ___check_global_state() against {{"grad_mode":true,"num_threads":{threads}}}
| +- GuardManager: source=L['x']
| | +- TENSOR_MATCH: check_tensor(L['x'], Tensor, DispatchKeySet(CPU), torch.float32, device={device}, \
requires_grad={grad}, size=[4, 8], stride=[8, 1])  # x = torch.relu(x)  # src/net.py:5 in step
| | +- ID_MATCH: ___check_obj_id(L['self'], {address}), type=<class 'module'>  # x = x.relu()  # src/net.py:5 in step
| | +- EQUALS_MATCH: L['self'].name == 'rank{device}'  # x = torch.relu(x)  # src/net.py:5 in step
| | +- LAMBDA_GUARD: __optimizer_{address}_{address}_c5() is not None
"""


@pytest.mark.parametrize("grads", [("False", "False"), ("False", "True")])
def test_of_guards_only_modes_and_properties_of_tensors_count(tmp_path: Path, grads: tuple[str, str]) -> None:
    logs = {}
    for rank, grad in enumerate(grads):
        text = GUARDS.format(threads=rank + 1, device=rank, address=139_689_920_614_368 + rank, grad=grad)
        logs[rank] = compiled(rank) + artifact("dynamo_cpp_guards_str", text, process=100 + rank, rank=rank)
    table = table_of(tmp_path, logs)
    expected = (
        "the same graph has other guards: `x` has requires_grad True (rank 1), "
        "`x` has requires_grad False (rank 0)"
    )
    assert messages(table) == ([] if grads[0] == grads[1] else [expected])
    if table.first is not None:
        assert table.first.location is not None
        assert table.first.location.line == 5


def test_missing_ranks_are_named_up_to_the_world_size(tmp_path: Path) -> None:
    world = artifact("fuselight_environment", '{"WORLD_SIZE": "6"}', at="", process=100, rank=0)
    table = table_of(tmp_path, {0: compiled(0) + world, 2: compiled(2), 3: compiled(3)})
    assert (table.world_size, table.missing) == (6, (1, 4, 5))


def test_a_job_of_one_process_has_no_table(tmp_path: Path) -> None:
    (job,) = read_jobs([logs_of(tmp_path, {0: compiled(0)})])
    assert compare_ranks(job) is None


def test_graphs_that_cannot_be_read_again_are_noted(tmp_path: Path) -> None:
    folder = logs_of(tmp_path, {0: compiled(0), 1: compiled(1, operator="sin")})
    (job,) = read_jobs([folder])
    for log in folder.iterdir():
        log.write_bytes(b"")
    table = compare_ranks(job)
    assert table is not None
    assert messages(table) == []
    assert table.notes == (
        "2 compiles are not compared: their logs name no function, or cannot be read again.",
    )


def test_many_ranks_are_compared_and_those_that_differ_are_opened(tmp_path: Path) -> None:
    logs = {rank: compiled(rank) for rank in range(MANY_RANKS + 6)}
    logs[17] = compiled(17, operator="sin")
    logs[40] += compiled(40, again=AGAIN.format(6))
    folder = logs_of(tmp_path / "logs", logs)
    source = project(tmp_path / "source", {"src/net.py": "\n" * 30})
    request = OpenRequest((folder,), (source,))
    (job,) = asyncio.run(open_jobs(request, lambda _text: None, CancelToken()))
    assert [process.log.rank for process in job.processes] == [0, 17, 40]
    assert job.ranks is not None
    assert len(job.ranks.rows) == MANY_RANKS + 6
    assert [group.label for group in job.ranks.groups] == ["ranks 0-16, 18-39, 41-69", "rank 17", "rank 40"]
    assert messages(job.ranks) == ["the graph of rank 17 has `sin` here, that of the others `relu`"]
    assert any("All 70 ranks are compared" in note and "ranks 0, 17, 40" in note for note in job.notes)


def test_many_ranks_of_as_many_kinds_open_a_bounded_number(tmp_path: Path) -> None:
    logs = {rank: compiled(rank, operator=f"op{rank}") for rank in range(MAX_SHOWN * 2)}
    (job,) = read_many(find_logs([logs_of(tmp_path, logs)]), "job")
    assert len(job.job.ranks) == MAX_SHOWN
    assert len(job.digests) == MAX_SHOWN * 2
    table = compare_digests(job.digests)
    assert table is not None
    assert len(table.groups) == MAX_SHOWN * 2


def test_many_files_that_are_no_logs_are_an_error_and_one_is_a_note(tmp_path: Path) -> None:
    folder = written(
        tmp_path, {"rank_0_x": compiled(0), "rank_1_x": b"\x00rubbish\n", "rank_2_x": compiled(2)}
    )
    (job,) = read_many(find_logs([folder]), "job")
    assert [item.log.rank for item in job.digests] == [0, 2]
    assert any("rank_1_x" in str(note.file) for note in job.job.notes)
    rubbish = written(tmp_path / "rubbish", {"rank_0_x": b"\x00\n"})
    with pytest.raises(LogError, match="no record"):
        read_many(find_logs([rubbish]), "job")


def test_a_cancelled_reading_keeps_what_it_has(tmp_path: Path) -> None:
    folder = logs_of(tmp_path, {rank: compiled(rank) for rank in range(5)})
    seen: list[int] = []
    (job,) = read_many(
        find_logs([folder]),
        "job",
        progress=lambda done, _total: seen.append(done),
        is_canceled=lambda: len(seen) >= 2,
    )
    assert len(job.digests) == 2
    assert any("cancelled" in note.message for note in job.job.notes)
