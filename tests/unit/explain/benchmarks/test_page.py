"""The page and its exports: names as in the contract, nothing invented, nothing lost."""

from __future__ import annotations

import base64
import csv
import hashlib
import io
import json
import re
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import pytest

from fuselight.shared.codec import DecodeError, encode
from fuselight.shared.report import (
    CompileStep,
    Culprit,
    Device,
    Failure,
    GapKind,
    MeasuredMemory,
    Note,
    Problem,
    TensorError,
)
from fuselight_server.base.finding import SourceLine
from fuselight_server.explain.benchmarks.causes import Cause, causes
from fuselight_server.explain.benchmarks.exports import (
    COLUMNS,
    as_csv,
    as_html,
    as_json,
    file_name,
    from_json,
)
from fuselight_server.explain.benchmarks.history import run_of
from fuselight_server.explain.benchmarks.page import NO_LINES, Around, View, nothing, page
from fuselight_server.explain.benchmarks.page_types import (
    ConfigurationChange,
    ConfigurationRow,
    LineChange,
    MeasuredPage,
    PagePlace,
    ProfileDetails,
    RunComparison,
)
from fuselight_server.explain.pages import document
from fuselight_server.explain.pages.document import NotBuiltError
from tests.support.measured import benchmark, gap, graph, kernel, profile, ran, row, wrong
from tests.support.reports import FILE, ROOT, at, report

VIEW = View(
    uri_of=lambda path: f"file://{path}",
    read_line=lambda _path, line: f"    line {line}",
    shown=lambda path: path.removeprefix(f"{ROOT}/"),
)
FAILURE = Failure(Culprit.ENVIRONMENT, "memory", "out of memory", "give it smaller inputs")
KERNELS = graph(kernel(3, 4), kernel(9, launch=1, flops=10**9, dtype="f32"))
SHOWN = profile(
    [ran(0, 30.0), ran(1, 60.0, isolated_us=50.0), ran(None, 10.0, line=12)],
    [gap(GapKind.LAUNCH, 80.0), gap(GapKind.SYNC, 20.0, 14, "aten::item")],
)
FULL = benchmark(
    row("eager", 300.0),
    row(
        "default", 100.0, generated=(KERNELS,), profile=SHOWN,
        accuracy=wrong(first=(at(4),), first_operator="torch.relu"),
        compile_steps=(CompileStep("inductor_compile", 10.0, 500.0, 1, "0/0", at(3)),),
    ),
    row("max-autotune", None, failure=FAILURE, alone=True),
    problems=(Problem("guards", "the guards", "torch does not say"),),
    of={"cold_cache": True},
)  # fmt: skip


MEMORY = MeasuredMemory(4_000_000, 1_000_000, (), 6_000_000, 500_000)
RESERVED = "reserved 6 MB, 2 MB of it not used at the peak; 500 KB in pieces between tensors at the end"
WITH_MEMORY = benchmark(
    row("eager", memory=MEMORY, estimated_bytes=3_960_000),
    row("default", memory=MeasuredMemory(2_000_000, 1_000_000)),
    row("max-autotune", None, failure=FAILURE, estimated_bytes=5_000_000),
    row("dynamic"),
    notes=(Note("workspaces", "The target has convolutions."), Note("fake_tensors", "built on fake tensors")),
)


def full(**around: Any) -> MeasuredPage:
    return page(FULL, VIEW, Around(**around))


def page_data(**around: Any) -> dict[str, Any]:
    return data(FULL, VIEW, Around(**around))


def data(*of: Any) -> dict[str, Any]:
    """A page as the editor gets it."""
    shown: dict[str, Any] = encode(page(*of))
    return shown


def test_every_page_has_every_field_and_no_number_that_json_lacks() -> None:
    assert page_data().keys() == encode(nothing(FILE, "Net", VIEW, Around())).keys()
    json.dumps(page_data(), allow_nan=False)


@pytest.mark.parametrize("kind", [MeasuredPage, ConfigurationRow, ProfileDetails])
def test_the_page_in_the_docs_names_every_field(kind: Any) -> None:
    text = (Path(__file__).parents[4] / "docs/bench.md").read_text(encoding="utf-8")
    section = text.partition("## The JSON of bench")[2]
    assert [field.name for field in fields(kind) if f"`{field.name}`" not in section] == []


def test_a_row_has_its_speedup_its_spread_and_what_failed() -> None:
    eager, default, failed = page_data()["configurations"]
    assert (eager["speedup"], default["speedup"], failed["speedup"]) == (1.0, 3.0, None)
    assert (default["us"], default["clock"], default["spread"]) == (100.0, "wall", pytest.approx(0.01))
    assert failed["failure"] == "out of memory. Give it smaller inputs"
    assert failed["us"] is None
    assert failed["notes"] == ["measured separately: not enough memory to run alongside the others"]
    accuracy = default["accuracy"]
    assert accuracy["text"] == (
        "not as eager within a tolerance of 0.0001 (1 tensor against float64); first differs in torch.relu"
    )
    assert accuracy["place"] == {"uri": f"file://{FILE}", "path": "model.py", "line": 3, "text": "line 4"}


def test_the_first_operator_that_differs_is_named_once() -> None:
    why = "output differs; the first operator that differs is torch.relu at model.py:4"
    accuracy = wrong(first=(at(4),), first_operator="torch.relu", why=why)
    text = data(benchmark(row("default", accuracy=accuracy)), VIEW)["configurations"][0]["accuracy"]["text"]
    assert text.endswith(f": {why}")


@pytest.mark.parametrize(("us", "is_noted"), [(90.0, True), (150.0, False), (390.0, False), (41_000.0, True)])
def test_a_profile_of_calls_unlike_the_timed_ones_has_a_note(us: float, is_noted: bool) -> None:  # noqa: FBT001
    notes = data(benchmark(row("eager"), row("default", us, profile=SHOWN)), VIEW)["notes"]
    about = "with the profiler on, a call took 200 µs (default, "
    assert [note.startswith(about) for note in notes] == [True] * is_noted


def test_profiles_of_other_calls_share_one_note() -> None:
    rows = [row(name, 41.0, profile=SHOWN) for name in ("eager", "default")]
    (note,) = data(benchmark(*rows), VIEW)["notes"]
    assert "200 µs (eager, 41 µs without) and 200 µs (default, 41 µs without): lines, " in note


def test_a_benchmark_without_times_makes_no_claims() -> None:
    unfinished = {"finished": False}
    assert data(benchmark(row("eager", None), of=unfinished), VIEW)["notes"] == []
    (note,) = data(benchmark(row("eager"), of=unfinished), VIEW)["notes"]
    assert note.startswith("partial: still running")


def test_a_profile_adds_up_and_lists_what_is_not_joined() -> None:
    details = page_data()["profiles"]["default"]
    assert sum(part["us"] for part in details["where"]) == pytest.approx(details["wall_us"])
    assert sum(part["share"] for part in details["where"]) == pytest.approx(1)
    assert [part["kind"] for part in details["where"]] == ["kernel", "kernel_eager", "launch", "sync"]
    assert details["where"][-1]["place"]["line"] == 13
    assert [(line["place"]["line"], line["us"]) for line in details["lines"]] == [
        (8, 60.0), (2, 15.0), (3, 15.0), (11, 10.0),
    ]  # fmt: skip
    assert sum(line["share"] for line in details["lines"]) == pytest.approx(1)
    kernels = {kernel["name"]: kernel for kernel in details["kernels"]}
    assert (kernels["triton_1"]["isolated_us"], kernels["triton_1"]["phase"]) == (50.0, "inference")
    assert (kernels["eager_12"]["joined"], kernels["eager_12"]["kind"]) == (True, "eager")
    strange = benchmark(row("default", profile=profile([ran(7, 5.0)])))
    (kernel,) = data(strange, VIEW)["profiles"]["default"]["kernels"]
    assert (kernel["joined"], kernel["place"], kernel["of_limit"]) == (False, None, None)


def test_the_roofline_needs_the_limits_of_the_device() -> None:
    roofline = page_data()["profiles"]["default"]["roofline"]
    assert roofline["peaks"] == [{"dtype": "f32", "tflops": 67}]
    assert [point["name"] for point in roofline["points"]] == ["triton_1"]
    cpu = Device("cpu", "cpu", "cpu", "", 0)
    without = benchmark(row("default", profile=SHOWN, generated=(KERNELS,)), target_device=cpu)
    assert data(without, VIEW)["profiles"]["default"]["roofline"] is None


def test_kernels_of_other_backends_are_not_distinguished_from_eager_work() -> None:
    shown = profile(
        [replace(ran(None, 90.0), name="aten::mul")], [gap(GapKind.EAGER, 8.0), gap(GapKind.HOST, 2.0)]
    )
    configuration = row(
        "backend:aot_eager", 100.0, profile=replace(shown, joined_us=0.0), compiles=1, graph_breaks=2
    )
    details = data(benchmark(row("eager", 100.0), configuration), VIEW)["profiles"]["backend:aot_eager"]
    assert (details["lines"], details["no_lines"]) == ([], NO_LINES)
    assert [part["kind"] for part in details["where"]] == ["kernel_backend", "backend", "host"]
    assert not any(part["label"].startswith(("kernels that were", "calls that")) for part in details["where"])
    breaks = next(
        cause
        for cause in causes(benchmark(configuration), configuration, faster=True)
        if cause.cause is Cause.BREAKS
    )
    assert "eager there takes" not in breaks.text
    for other in (
        replace(configuration, cudagraphs=False),
        replace(configuration, name="eager"),
        replace(configuration, compiles=None),
    ):
        (details,) = data(benchmark(other), VIEW)["profiles"].values()
        assert details["no_lines"] == ""
        assert [part["kind"] for part in details["where"]] == ["kernel_eager", "eager", "host"]


def test_lines_are_shown_where_they_are_now() -> None:
    view = View(
        VIEW.uri_of,
        VIEW.read_line,
        VIEW.shown,
        lambda at: None if at.line == 9 else SourceLine(at.path, at.line + 1),
    )
    lines = data(FULL, view)["profiles"]["default"]["lines"]
    assert [line["place"]["line"] for line in lines] == [3, 4, 12], "a line that is gone has no time"


def test_notes_list_causes_of_unreliable_numbers() -> None:
    assert page_data(notes=("another run went on",))["notes"] == [
        "another run went on",
        "the device's L2 cache was cleared before each timed call",
        "unknown: the guards: torch does not say",
    ]
    unfinished = benchmark(row("eager"), of={"finished": False})
    assert "still running or stopped" in data(unfinished, VIEW)["notes"][0]


def test_a_run_without_measurements_says_what_failed() -> None:
    shown = data(report(failures=(FAILURE,)), VIEW)
    assert (shown["found"], shown["message"]) == (False, "out of memory. Give it smaller inputs")


def test_the_csv_has_every_table_and_every_row() -> None:
    rows = list(csv.DictReader(io.StringIO(as_csv(full()))))
    counts = {
        name: sum(row["table"] == name for row in rows)
        for name in ("configuration", "tensor", "line", "kernel", "where", "step", "comparison")
    }
    assert counts == {
        "configuration": 3, "tensor": 1, "line": 4, "kernel": 3, "where": 4, "step": 1, "comparison": 0,
    }  # fmt: skip
    assert tuple(rows[0]) == COLUMNS
    (line,) = [row for row in rows if row["table"] == "line" and row["line"] == "9"]
    assert (line["configuration"], line["path"], line["us"]) == ("default", "model.py", "60.0")
    eager, default, tensor, failed = rows[:4]
    assert failed["note"].startswith("out of memory")
    assert (default["accurate"], default["unsteady"], default["calls"]) == ("False", "False", "100")
    assert "first differs in torch.relu" in default["note"]
    assert (tensor["name"], tensor["cosine"], tensor["accurate"]) == ("output", "0.5", "False")
    assert (eager["target"], eager["file"], eager["accurate"]) == ("Net", "model.py", "")


def test_the_csv_has_the_machine_the_verdict_and_the_notes() -> None:
    rows = list(csv.DictReader(io.StringIO(as_csv(full(stale=True, notes=("another run went on",))))))
    about = {row["name"]: row["note"] for row in rows if row["table"] == "about"}
    assert (about["device"], about["when"], about["one call"]) == (
        "NVIDIA H200", "2026-01-31T12:00:00Z", "inference",
    )  # fmt: skip
    notes = [row["note"] for row in rows if row["table"] == "note"]
    assert notes[:2] == ["the code has changed since", "another run went on"]
    assert [row["note"] for row in rows if row["table"] == "verdict"] == [
        value["text"] for value in page_data()["verdict"]
    ]


def test_the_csv_has_changes_and_other_differences() -> None:
    place = PagePlace("file:///m.py", "m.py", 41, "y = f(x)")
    comparison = RunComparison(
        "1",
        "then",
        ("torch: 2.11.0 then, 2.13.0 now",),
        (ConfigurationChange("default", 100.0, 112.0, 0.12),),
        (LineChange(place, None, 5.0, None),),
    )
    text = as_csv(full(comparison=comparison))
    rows = [entry for entry in csv.DictReader(io.StringIO(text)) if entry["table"] == "comparison"]
    shown = [
        tuple(row[key] for key in ("configuration", "line", "before_us", "us", "change", "note"))
        for row in rows
    ]
    assert shown == [
        ("default", "", "100.0", "112.0", "0.12", ""),
        ("", "42", "", "5.0", "", "y = f(x)"),
        ("", "", "", "", "", "against then"),
        ("", "", "", "", "", "not the same for both: torch: 2.11.0 then, 2.13.0 now"),
    ]


@pytest.mark.parametrize("start", ["=", "+", "-", "@", "\t", "\r", "\n"])
def test_csv_cells_are_not_formulas(start: str) -> None:
    name = f'{start}HYPERLINK("a,b")'
    details = full().profiles["default"]
    kernel_row = replace(details.kernels[0], name=name)
    shown = replace(full(), profiles={"default": replace(details, kernels=(kernel_row,))})
    rows = csv.DictReader(io.StringIO(as_csv(shown), newline=""))
    assert f"'{name}" in {row["name"] for row in rows}


@pytest.fixture
def built(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "dist").mkdir()
    (tmp_path / "dist/bench.js").write_text('const tag = "</script><!--"; draw(tag);')
    (tmp_path / "dist/bench.css").write_text("body { color: red }")
    monkeypatch.setattr(document, "extension_folder", lambda: tmp_path)
    return tmp_path


@pytest.mark.usefixtures("built")
def test_the_html_allows_its_own_script_and_style_and_nothing_else() -> None:
    shown = replace(full(), title="<b>&\u2028</script>")
    html = as_html(shown)
    (policy,) = re.findall(r'Content-Security-Policy" content="([^"]*)"', html)
    (script,) = re.findall(r"<script>(.*?)</script>", html, re.DOTALL)
    (style,) = re.findall(r"<style>(.*?)</style>", html, re.DOTALL)
    (data,) = re.findall(r'<script type="application/json" id="page">(.*?)</script>', html, re.DOTALL)

    def hashed(text: str) -> str:
        return base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()

    assert policy == (
        f"default-src 'none'; script-src 'sha256-{hashed(script)}'; style-src 'sha256-{hashed(style)}'; img-src data:"
    )
    assert json.loads(data) == {**encode(shown), "title": r"<b>&\u2028</script>"}
    assert script == r'const tag = "<\/script><\!--"; draw(tag);'
    assert "<b>" not in html
    assert html.count("</script>") == 2
    assert "http" not in html.replace("http-equiv", "")


def test_html_without_a_built_page_says_how_to_build_it(built: Path) -> None:
    (built / "dist/bench.css").unlink()
    with pytest.raises(NotBuiltError, match="npm run build"):
        as_html(full())


def test_json_can_be_compared_with_again() -> None:
    run = run_of(FULL, ROOT, VIEW.read_line)
    text = as_json(full(), run)
    assert from_json(text) == run
    for wrong_ in ("[]", '{"page": {}}', '{"run": {"past": 1}}'):
        with pytest.raises((DecodeError, ValueError)):
            from_json(wrong_)


def test_a_run_is_found_by_its_target_and_file() -> None:
    runs = [
        run_of(replace(FULL, target=replace(FULL.target, path=path, name=name)), "/there", VIEW.read_line)
        for path, name in (
            ("/there/a/model.py", "Net"),
            ("/there/b/model.py", "Net"),
            ("/there/b/model.py", "f"),
        )
    ]
    text = json.dumps({"targets": [json.loads(as_json(full(), run)) for run in runs]})
    assert from_json(text, "Net", "/here/b/model.py") == runs[1]
    assert from_json(text, "Net", "/here/a/model.py") == runs[0]
    with pytest.raises(ValueError, match="no benchmark of g, but of Net, Net, f"):
        from_json(text, "g", "/here/a/model.py")


def test_files_are_named_by_target_and_day() -> None:
    assert file_name(full(), "html") == "Net-2026-01-31.html"
    assert file_name(replace(full(), title="Outer.step/../x", when=""), "csv") == "Outer.step_.._x.csv"


def test_results_that_were_not_compared_say_why() -> None:
    tensor = TensorError("output", 1.0, 0.0, 0.0, passed=True)
    right = benchmark(row("default", accuracy=wrong(passed=True, tensors=(tensor,))))
    unknown = benchmark(row("default", accuracy=wrong(passed=None, why="it returns nothing")))
    texts = [data(report, VIEW)["configurations"][0]["accuracy"]["text"] for report in (right, unknown)]
    assert texts == [
        "as eager within a tolerance of 0.0001 (1 tensor against float64)",
        "not compared: it returns nothing",
    ]


def test_tensors_have_their_estimate_reserved_memory_and_pieces_apart() -> None:
    shown = page(WITH_MEMORY, VIEW)
    cells = [configuration.memory for configuration in shown.configurations]
    assert [cell.text if cell is not None else "" for cell in cells] == [
        f"tensors 4 MB: the estimate is 1.0% lower; {RESERVED}",
        "tensors 2 MB",
        "estimated 5 MB of tensors",
        "",
    ]
    assert "The target has convolutions." in shown.notes
    assert "built on fake tensors" not in shown.notes
    rows = [row for row in csv.DictReader(io.StringIO(as_csv(shown))) if row["table"] == "configuration"]
    names = ("tensor_bytes", "estimated_bytes", "reserved_bytes", "between_bytes")
    assert [tuple(row[name] for name in names) for row in rows] == [
        ("4000000", "3960000", "6000000", "500000"),
        ("2000000", "", "", ""),
        ("", "5000000", "", ""),
        ("", "", "", ""),
    ]
