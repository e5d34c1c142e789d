"""The first difference of recorded jobs of two to four ranks, with its line and its message; none where ranks agree."""

from __future__ import annotations

import functools
import re
from pathlib import Path

import pytest

from fuselight_server.base.finding import Severity
from fuselight_server.jobs.ranks.comparison import compare_ranks
from fuselight_server.jobs.ranks.findings import rank_findings
from fuselight_server.jobs.ranks.model import DifferenceKind, RankTable
from fuselight_server.jobs.trace_log.reader import read_jobs
from tests.support.rank_logs import SOURCE, unpack

PLANTED = {
    "branch_on_rank": ("FL911", "`sin` is only in the graph of rank 1"),
    "other_operator": ("FL911", "the graph of rank 2 has `tanh` here, that of the others `relu`"),
    "operator_left_out": ("FL911", "`sum` is missing in the graph of rank 0 (the others have it)"),
    "last_batch": (
        "FL913",
        "ranks 1 and 3 compiled again here: x.size(0) was 4, now 6 (the others did not)",
    ),
    "other_width": (
        "FL913",
        "ranks 2 and 3 compiled again here: x.size(1) was 640, now 8 (the others did not)",
    ),
    "changed_number": (
        "FL913",
        "rank 0 compiled again here: net.scale is no longer 2 (rank 1 did not)",
    ),
    "other_reasons": (
        "FL913",
        "rank 1 compiled again: x.dtype was float32, now float64; rank 0 compiled again: x.size(0) was 4, now 6",
    ),
    "printed_on_rank_0": (
        "FL911",
        "the graph breaks here only on rank 0: `print` cannot be traced",
    ),
    "broken_in_helper": (
        "FL911",
        "the graph breaks here only on rank 1: requested by torch._dynamo.graph_break()",
    ),
    "branch_on_data": ("FL911", "the graph of rank 1 has `cos` here, that of rank 0 `sin` on line "),
    "order_of_collectives": (
        "FL912",
        "rank 1 calls the collective `all_gather_into_tensor` here, where rank 0 calls `all_reduce`",
    ),
    "extra_collective": ("FL912", "only rank 0 calls the collective `all_reduce` here"),
    "other_reduction": (
        "FL912",
        "rank 1 calls the collective `all_reduce(..., 'max')` here, where the others call `all_reduce(..., 'sum')`",
    ),
    "rank_in_graph": (
        "FL915",
        "a constant of the graph differs in `*`: 1 on rank 0, 2 on rank 1, 3 on rank 2, 4 on rank 3",
    ),
    "uneven_shards": (
        "FL915",
        "the graphs are compiled for other inputs: `x` is f32[4, 8] on ranks 0-1, 3, f32[5, 8] on rank 2",
    ),
    "other_dtype": (
        "FL915",
        "the graphs are compiled for other inputs: `x` is f32[4, 8] on rank 0, bf16[4, 8] on rank 1",
    ),
    "training_on_one_rank": (
        "FL915",
        "a constant of the graph differs in `dropout`: False on ranks 0 and 2, True on rank 1",
    ),
    "grad_mode": (
        "FL915",
        "the same graph has other guards: grad mode off (rank 1), grad mode on (rank 0)",
    ),
    "evaluated_on_rank_0": ("FL911", "only rank 0 compiled `evaluate`"),
    "failed_on_rank_1": (
        "FL914",
        "the compile failed only on rank 1: RuntimeError: no kernel for this device",
    ),
    "killed_while_compiling": (
        "FL914",
        "the compile of rank 1 had not ended when its log ended (rank 0 has finished it)",
    ),
    "past_the_limit": (
        "FL913",
        "rank 1 reached the recompile limit here: x.size(0) was 5, now 6 (rank 0 did not)",
    ),
    "marked_on_one_rank": (
        "FL915",
        "the graphs are compiled for other inputs: `x` is f32[4, 8] on ranks 0 and 2, f32[s77, 8] on rank 1",
    ),
    "deeper_on_last_rank": ("FL911", "`linear` is only in the graph of rank 2"),
    "compiled_in_other_order": (
        "FL912",
        "rank 1 compiled the collectives of `second` first, rank 0 those of `first`",
    ),
}
EQUAL = (
    "simple",
    "other_values",
    "trained",
    "replicated",
    "recompiled_by_all",
    "broken_by_all",
    "printed_outside",
    "started_late",
    "pairs",
    "own_folders",
    "unused_objects",
    "failed_on_all",
    "past_the_limit_on_all",
    "dynamic",
    "several_functions",
    "gathered_and_scattered",
    "read_value_on_all",
    "autocast_on_all",
    "equal_branch_on_data",
    "checkpointed_by_rank_0",
)


@pytest.fixture(scope="session")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The logs of all recorded jobs, unpacked once."""
    return unpack(tmp_path_factory.mktemp("ranks"))


@functools.cache
def table_of(folder: Path, name: str, *, has_source: bool = True) -> RankTable:
    (job,) = read_jobs([folder / name])
    table = compare_ranks(
        job, lines=lambda path: SOURCE if has_source and path.endswith("rank_jobs.py") else None
    )
    assert table is not None
    return table


def planted_line(name: str) -> int:
    """The line of the program that ends with the mark; of shared code, the line whose mark names the program."""
    start = SOURCE.index(f"def {name}():")
    end = next(
        (
            number
            for number in range(start + 1, len(SOURCE))
            if re.match(r"def |class |#|[A-Z]", SOURCE[number])
        ),
        len(SOURCE),
    )
    lines = [number + 1 for number in range(start, end) if SOURCE[number].endswith("# HERE")]
    lines += [number for number, text in enumerate(SOURCE, 1) if text.endswith(f"# HERE: {name}")]
    (line,) = lines
    return line


def test_every_recorded_program_is_in_one_of_the_tables(recorded: Path) -> None:
    names = {folder.name for folder in recorded.iterdir()}
    assert names == {*PLANTED, *EQUAL, "unanswered_collective"}
    assert len(PLANTED) >= 20
    assert len(EQUAL) >= 20


@pytest.mark.parametrize("name", PLANTED)
def test_a_planted_difference_is_the_only_one_and_on_its_line(recorded: Path, name: str) -> None:
    table = table_of(recorded, name)
    (difference,) = table.differences
    code, message = PLANTED[name]
    assert difference.location is not None
    assert (difference.location.line, difference.is_exact) == (planted_line(name), True)
    assert difference.location.path == "/project/rank_jobs.py"
    assert difference.message.startswith(message)
    assert len(table.groups) > 1 or code == "FL912"
    findings = rank_findings(table, inputs="job")
    if difference.kind is DifferenceKind.UNFINISHED:
        assert findings == [], "the finding of the log's end says it"
        return
    (finding,) = findings
    assert (finding.code, finding.span.line) == (code, planted_line(name))
    assert finding.title == difference.message


@pytest.mark.parametrize("name", EQUAL)
def test_ranks_that_agree_have_no_difference(recorded: Path, name: str) -> None:
    table = table_of(recorded, name)
    assert table.differences == ()
    assert table.groups[0].ranks == tuple(row.rank for row in table.rows)
    assert rank_findings(table, inputs="job") == []


def test_without_source_a_collective_in_one_place_is_still_on_its_line(recorded: Path) -> None:
    difference = table_of(recorded, "other_reduction", has_source=False).first
    assert difference is not None
    assert difference.location is not None
    assert (difference.location.line, difference.is_exact) == (planted_line("other_reduction"), True)


def test_only_the_line_of_the_helper_is_known_of_a_collective_in_it_without_source(recorded: Path) -> None:
    difference = table_of(recorded, "extra_collective", has_source=False).first
    assert difference is not None
    assert difference.location is not None
    assert (
        SOURCE[difference.location.line - 1].strip()
        == 'return collectives.all_reduce(x, "sum", dist.group.WORLD)'
    )


def test_a_dump_of_the_flight_recorder_names_who_waits_and_for_whom(recorded: Path) -> None:
    table = table_of(recorded, "unanswered_collective")
    (wait,) = table.waits
    line = planted_line("unanswered_collective")
    assert (wait.ranks, wait.collective, wait.sequence) == ((0, 2), "all_reduce", 2)
    assert (
        wait.message
        == "ranks 0 and 2 wait in `all_reduce` (number 2 of group `0 default_pg`), which rank 1 has not started"
    )
    (finding,) = rank_findings(table, inputs="job")
    assert (finding.code, finding.span.line, finding.severity) == ("FL916", line, Severity.WARNING)


def test_a_trace_alone_never_says_that_a_rank_waited(recorded: Path) -> None:
    for name in (*PLANTED, *EQUAL):
        table = table_of(recorded, name)
        texts = [item.message for item in table.differences]
        texts += [item.message for item in table.skews]
        texts += [finding.message for finding in rank_findings(table, inputs="job")]
        assert not any(re.search(r"\bwait", text) for text in texts)


def test_rows_count_what_each_rank_did(recorded: Path) -> None:
    table = table_of(recorded, "last_batch")
    assert [(row.rank, row.compiles, row.recompilations, row.group) for row in table.rows] == [
        (0, 1, 0, 0),
        (1, 2, 1, 1),
        (2, 1, 0, 0),
        (3, 2, 1, 1),
    ]
    assert [group.label for group in table.groups] == ["ranks 0 and 2", "ranks 1 and 3"]
    slowest = table.rows[1].slowest
    assert slowest is not None
    assert slowest.function == "step"
    assert (table.rows[1].seconds or 0.0) > (slowest.seconds or 0.0) > 0


def test_an_unfinished_compile_has_no_end_in_the_table_and_in_the_timeline(recorded: Path) -> None:
    table = table_of(recorded, "killed_while_compiling")
    assert [len(row.unfinished) for row in table.rows] == [0, 1]
    assert table.timeline is not None
    ends = [[span.end for span in lane.spans if span.depth == 0] for lane in table.timeline.lanes]
    assert ends[0][0] is not None
    assert ends[1] == [None]


def test_ranks_that_start_late_are_named_with_the_seconds(recorded: Path) -> None:
    (skew,) = table_of(recorded, "started_late").skews
    assert skew.late == (2,)
    assert re.fullmatch(r"rank 2 began this compile 0\.\d s after the others", skew.message)
