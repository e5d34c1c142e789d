"""The logs of a job over the protocol: opened, shown on lines, moved by edits, compared, closed; and what cannot be."""

from __future__ import annotations

import gzip
import re
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from fuselight.shared.report import Tier
from fuselight_server.base.finding import Finding, Severity, Span
from fuselight_server.base.store import Store
from fuselight_server.commands.compile_tests import failed_test, keep_failed
from tests.support.trace_logs import compiled

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.support.lsp_client import Client, Json

RECORDINGS = Path(__file__).parents[1] / "recordings"
JOBS = RECORDINGS / "jobs" / "torch-2.13"
BREAK = 25
"""0-based line of the graph break in the recorded program."""
STEP = 144
"""0-based line of the function that two ranks compile."""


@pytest.fixture
def source(folder: Path, client: Client) -> Iterator[Path]:
    """The recorded program in the workspace; its jobs are closed when the test ends."""
    yield Path(shutil.copy(RECORDINGS / "jobs.py", folder / "jobs.py"))
    client.request("fuselight/closeJob", {"job": None})


def open_job(client: Client, *paths: Path, source: tuple[Path, ...] = ()) -> Json:
    params = {"paths": [path.as_uri() for path in paths], "source": [path.as_uri() for path in source]}
    answer: Json = client.request("fuselight/openJob", params)
    return answer


def page_of(client: Client, job: str, against: str | None = None) -> Json:
    page: Json = client.request("fuselight/job", {"job": job, "against": against})
    return page


def of_jobs(diagnostics: list[Json]) -> dict[int, tuple[str, str]]:
    """Source and message of a job's findings by 0-based line."""
    return {
        item["range"]["start"]["line"]: (item["source"].partition(",")[0], item["message"])
        for item in diagnostics
        if item["source"].startswith("Fuselight job ")
    }


def until_findings(client: Client, uri: str, expected: dict[int, Any]) -> None:
    client.until(lambda: of_jobs(client.diagnostics(uri)) == expected, f"{expected} of {uri}")


def test_a_trace_shows_its_findings_on_lines_until_it_is_closed(client: Client, source: Path) -> None:
    uri = client.open(source)
    title = "graph break: `print` cannot be traced"
    answer = open_job(client, JOBS / "graph_break")
    (entry,) = answer["jobs"]
    assert (entry["name"], entry["summary"], answer["message"]) == (
        "graph_break",
        "1 finding in 1 process",
        "",
    )
    until_findings(client, uri, {BREAK: ("Fuselight job graph_break", title)})
    at = {"textDocument": {"uri": uri}, "position": {"line": BREAK, "character": 10}}
    hover = client.request("textDocument/hover", at)["contents"]["value"]
    assert "job graph_break" in hover
    assert "GB0059" in hover
    assert "job graph_break: 2 compiles, 2 graphs, 1 break" in client.lenses(uri)

    client.edit(uri, (0, 0), (0, 0), "# a line above\n")
    until_findings(client, uri, {BREAK + 1: ("Fuselight job graph_break", title)})
    page = page_of(client, entry["id"])
    (row,) = page["findings"]
    assert (row["code"], row["at"]["place"]["line"]) == ("GB0059", BREAK + 1)
    client.edit(uri, (BREAK + 1, 8), (BREAK + 1, 8), "pass; ", version=3)
    until_findings(client, uri, {BREAK + 1: ("Fuselight job graph_break", f"before your edit: {title}")})

    client.request("fuselight/closeJob", {"job": entry["id"]})
    until_findings(client, uri, {})
    assert not [lens for lens in client.lenses(uri) if lens.startswith("job ")]
    closed = page_of(client, entry["id"])
    assert (closed["found"], closed["message"]) == (
        False,
        "This job is closed. Open its logs again to see it.",
    )


def test_a_changed_line_is_marked_as_of_the_jobs_source(client: Client, source: Path) -> None:
    text = source.read_text(encoding="utf-8")
    source.write_text(
        text.replace('print("hidden", tuple(x.shape))', 'print("shape", x.shape)'), encoding="utf-8"
    )
    open_job(client, JOBS / "graph_break")
    marked = "of the job's source: graph break: `print` cannot be traced"
    until_findings(client, source.as_uri(), {BREAK: ("Fuselight job graph_break", marked)})


def test_the_findings_of_a_job_follow_what_another_program_writes(client: Client, source: Path) -> None:
    source.write_text(f"# written after the job ran\n{source.read_text(encoding='utf-8')}", encoding="utf-8")
    (entry,) = open_job(client, JOBS / "graph_break")["jobs"]
    title = "graph break: `print` cannot be traced"
    until_findings(client, source.as_uri(), {BREAK + 1: ("Fuselight job graph_break", title)})
    source.write_text(f"\n\n{source.read_text(encoding='utf-8')}", encoding="utf-8")
    client.notify("workspace/didChangeWatchedFiles", {"changes": [{"uri": source.as_uri(), "type": 2}]})
    until_findings(client, source.as_uri(), {BREAK + 3: ("Fuselight job graph_break", title)})
    uri = client.open(source)
    assert page_of(client, entry["id"])["findings"][0]["at"]["place"]["line"] == BREAK + 3
    client.edit(uri, (0, 0), (1, 0), "")
    until_findings(client, uri, {BREAK + 2: ("Fuselight job graph_break", title)})


def test_two_jobs_are_open_together_and_each_names_itself(client: Client, source: Path) -> None:
    uri = client.open(source)
    (first,) = open_job(client, JOBS / "graph_break")["jobs"]
    (second,) = open_job(client, JOBS / "ranks_shape")["jobs"]
    client.until(
        lambda: (
            {source for source, _ in of_jobs(client.diagnostics(uri)).values()}
            == {"Fuselight job graph_break", "Fuselight job ranks_shape"}
        ),
        "findings of both",
    )
    page = page_of(client, second["id"], first["id"])
    assert [other["id"] for other in page["others"]] == [first["id"]]
    assert page["against"] == first["id"]
    lens = "job ranks_shape: 1 to 2 compiles, 1 to 2 graphs, 0 to 1 recompilation in each of 2 processes"
    assert lens in client.lenses(uri)
    assert {line["at"]["place"]["line"] for line in page["start"]["lines"]} == {STEP}
    # Opened again, a job replaces itself.
    assert open_job(client, JOBS / "ranks_shape")["jobs"] == [second]
    client.request("fuselight/closeJob", {"job": first["id"]})
    client.until(
        lambda: (
            {source for source, _ in of_jobs(client.diagnostics(uri)).values()}
            == {"Fuselight job ranks_shape"}
        ),
        "findings of the second",
    )


def sources_of(client: Client, uri: str, line: int) -> list[str]:
    """The sources of the entries on a 0-based line, without times."""
    return [
        re.sub(r", \d{4}-\d\d-\d\d \d\d:\d\d", "", item["source"])
        for item in client.diagnostics(uri)
        if item["range"]["start"]["line"] == line
    ]


def until_sources(client: Client, uri: str, *expected: str, line: int = BREAK) -> None:
    def happened() -> bool:
        client.request("fuselight/reportTree", {"uri": uri})  # a round trip
        return sources_of(client, uri, line) == list(expected)

    client.until(happened, f"{expected} on line {line}")


def test_jobs_with_the_same_finding_share_an_entry_that_goes_with_the_last_of_them(
    client: Client, source: Path, tmp_path: Path
) -> None:
    uri = client.open(source)
    jobs = []
    for name in ("monday", "tuesday"):
        logs = shutil.copytree(JOBS / "graph_break", tmp_path / name)
        jobs += open_job(client, logs)["jobs"]
    until_sources(client, uri, "Fuselight job monday, job tuesday")
    client.request("fuselight/closeJob", {"job": jobs[0]["id"]})
    until_sources(client, uri, "Fuselight job tuesday")
    client.request("fuselight/closeJob", {"job": jobs[1]["id"]})
    until_sources(client, uri)


@pytest.mark.torch
def test_a_finding_of_a_run_of_a_job_and_of_a_failed_test_is_one_entry(
    client: Client, source: Path, folder: Path
) -> None:
    uri = client.open(source)
    (entry,) = open_job(client, JOBS / "graph_break")["jobs"]
    until_sources(client, uri, "Fuselight job graph_break")
    directive, above, line = "# fuselight: Talking()(f32[3, 8])\n", "class Talking", BREAK + 1
    text = source.read_text(encoding="utf-8")
    at = text[: text.index(above)].count("\n")
    source.write_text(text.replace(above, f"{directive}{above}"), encoding="utf-8")
    client.edit(uri, (at, 0), (at, 0), directive)
    client.save(uri)
    until_sources(client, uri, "fuselight, job graph_break", line=line)

    broken = Finding(
        "GB0059",
        Severity.WARNING,
        "graph break: `print` cannot be traced",
        "Why.",
        Span(str(source), line + 1),
        Tier.CAPTURE,
        "step",
        "",
        "",
    )
    keep_failed(Store.at(folder), {"test_jobs.py::test_x"}, [failed_test("test_jobs.py::test_x", [broken])])
    tests = {"uri": (folder / ".fuselight" / "tests.json").as_uri(), "type": 2}
    client.notify("workspace/didChangeWatchedFiles", {"changes": [tests]})
    until_sources(client, uri, "fuselight, test_jobs.py::test_x, job graph_break", line=line)
    hover = client.request(
        "textDocument/hover",
        {"textDocument": {"uri": uri}, "position": {"line": line, "character": 10}},
    )["contents"]["value"]
    assert hover.count("too.") == 2
    assert hover.count("What to do") <= 1
    fixes = [action["title"] for action in client.actions(uri, line)]
    assert len(fixes) == len(set(fixes)), fixes

    client.request("fuselight/closeJob", {"job": entry["id"]})
    until_sources(client, uri, "fuselight, test_jobs.py::test_x", line=line)
    keep_failed(Store.at(folder), {"test_jobs.py::test_x"}, [])
    client.notify("workspace/didChangeWatchedFiles", {"changes": [tests]})
    until_sources(client, uri, "fuselight", line=line)


def test_a_job_is_compared_with_another_one_regressions_first(client: Client, folder: Path) -> None:
    shutil.copy(RECORDINGS / "editor" / "train.py", folder / "train.py")
    jobs = [open_job(client, RECORDINGS / "editor" / name)["jobs"][0] for name in ("tuesday", "monday")]
    page = page_of(client, jobs[0]["id"], jobs[1]["id"])
    changes = page["comparison"]["changes"]
    regressions = [change["is_regression"] for change in changes]
    assert page["comparison"]["name"] == "monday"
    assert (regressions[0], regressions) == (True, sorted(regressions, reverse=True))
    assert ("new finding", "GB0059: graph break: `print` cannot be traced") in {
        (change["kind"], change["text"]) for change in changes
    }
    assert page["caches"]["compared_with"] == "monday"
    assert page["differences"][0]["at"]["place"]["text"] == 'print("hidden", tuple(h.shape))'
    assert [group["label"] for group in page["ranks"]["groups"]] == ["ranks 1 and 2", "rank 0", "rank 3"]
    assert page_of(client, jobs[0]["id"])["comparison"] is None
    alone = page_of(client, jobs[0]["id"], jobs[0]["id"])["comparison"]
    assert (alone["changes"], "in both jobs" in alone["statements"][0]) == ([], True)
    client.request("fuselight/closeJob", {"job": None})


def test_logs_that_cannot_be_opened_are_answered_with_what_to_do(
    client: Client, folder: Path, tmp_path: Path
) -> None:
    rubbish = tmp_path / "rubbish.log"
    rubbish.write_bytes(bytes(range(256)) * 40)
    for path, words in ((folder, "TORCH_TRACE"), (rubbish, "rubbish.log"), (folder / "gone", "gone")):
        answer = open_job(client, path)
        assert (answer["jobs"], words in answer["message"]) == ([], True), answer
    assert open_job(client)["message"] == "Name a log or a folder with logs on this machine."


def test_a_job_whose_source_is_elsewhere_asks_for_its_folder(
    client: Client, folder: Path, tmp_path: Path
) -> None:
    logs = tmp_path / "run7"
    logs.mkdir()
    (logs / "dedicated_log_torch_trace_x.log").write_bytes(compiled())
    answer = open_job(client, logs)
    assert answer["needsSource"]
    assert "`/job/a.py`" in answer["message"]
    (entry,) = answer["jobs"]
    assert page_of(client, entry["id"])["start"]["lines"][0]["at"] == {"place": None, "shown": "/job/a.py:3"}
    sources = tmp_path / "sources"
    sources.mkdir()
    (sources / "a.py").write_text("\n\ndef f(x):\n    return x\n", encoding="utf-8")
    again = open_job(client, logs, source=(sources,))
    assert (again["needsSource"], again["message"]) == (False, "")
    place = page_of(client, entry["id"])["start"]["lines"][0]["at"]["place"]
    assert place["uri"] == (sources / "a.py").as_uri()
    client.request("fuselight/closeJob", {"job": None})
    assert not folder.joinpath(".fuselight").exists()


def test_the_reading_of_logs_shows_progress_and_ends_with_a_cancel(
    client: Client, source: Path, tmp_path: Path
) -> None:
    logs = tmp_path / "long"
    logs.mkdir()
    with (logs / "dedicated_log_torch_trace_long.log").open("wb") as file:
        for number in range(40_000):
            file.write(compiled(f"{number}/0/0"))
    request = client.ask("fuselight/openJob", {"paths": [logs.as_uri()], "source": [source.parent.as_uri()]})
    begun = client.notified("$/progress", lambda params: params["value"].get("title") == "Opening a job")
    client.notify("window/workDoneProgress/cancel", {"token": begun["token"]})
    answer = client.answer(request)["result"]
    assert (answer["jobs"], answer["canceled"]) == ([], True)
    client.notified(
        "$/progress",
        lambda params: params["token"] == begun["token"] and params["value"]["kind"] == "end",
    )


def labels_of(node: Json) -> Iterator[str]:
    yield node["label"]
    for child in node["children"]:
        yield from labels_of(child)


def test_the_report_of_a_file_has_the_job_with_its_kernels_and_graphs(client: Client, source: Path) -> None:
    uri = client.open(source)
    (entry,) = open_job(client, JOBS / "graph_break")["jobs"]
    name = f"job graph_break, {entry['when']}"
    (node,) = client.request("fuselight/reportTree", {"uri": uri})["nodes"]
    assert (node["label"], node["contextValue"], node["target"]) == (
        name,
        "job",
        {"uri": uri, "target": name},
    )
    labels = list(labels_of(node))
    assert "Not available" in {label.partition(" (")[0] for label in labels}
    assert any("`print` cannot be traced" in label for label in labels)

    kernels = client.request("fuselight/kernelsAt", {"uri": uri})["kernels"]
    kernel = next(item for item in kernels if item["form"] == "source")
    assert kernel["target"] == name
    assert kernel["description"].endswith(name)
    asked = {key: kernel[key] for key in ("uri", "target", "kernel", "form", "name")}
    document = client.request("fuselight/kernelDocument", asked)
    assert document["found"]
    assert kernel["label"] in document["text"]
    assert {form["form"] for form in document["forms"]} >= {"source", "wrapper"}
    lines = {line for link in document["links"] for line in link["lines"] if link["uri"] == uri}
    client.edit(uri, (0, 0), (0, 0), "# a line above\n")
    moved = client.request("fuselight/kernelDocument", asked)
    assert {line for link in moved["links"] for line in link["lines"] if link["uri"] == uri} == {
        line + 1 for line in lines
    }

    graphs = client.request("fuselight/graphs", {"uri": uri, "target": name})
    assert (graphs["found"], graphs["title"]) == (True, name)
    assert [target["label"] for target in graphs["targets"]] == [name]
    places = {box["place"] for box in graphs["boxes"] if box["place"]}
    assert places

    client.request("fuselight/closeJob", {"job": entry["id"]})
    assert client.request("fuselight/reportTree", {"uri": uri})["nodes"] == []
    gone = client.request("fuselight/kernelDocument", asked)
    assert not gone["found"]
    assert f"Open the trace of {name} to see its kernels again." in gone["text"]


def test_a_job_of_ranks_is_shown_by_its_first_rank(client: Client, folder: Path) -> None:
    recordings = RECORDINGS / "editor"
    program = Path(shutil.copy(recordings / "train.py", folder / "train.py"))
    (entry,) = open_job(client, recordings / "tuesday")["jobs"]
    (node,) = client.request("fuselight/reportTree", {"uri": program.as_uri()})["nodes"]
    assert node["label"] == f"job tuesday, {entry['when']}, rank 0"
    assert "3 further processes: see the page of the job" in node["tooltip"]
    client.request("fuselight/closeJob", {"job": None})


def test_a_job_that_grows_is_followed_until_it_is_stopped(client: Client, source: Path, folder: Path) -> None:
    uri, logs = client.open(source), folder / "growing"
    logs.mkdir()
    (recorded,) = (JOBS / "graph_break").glob("dedicated_log_torch_trace*")
    whole = gzip.decompress(recorded.read_bytes()) if recorded.suffix == ".gz" else recorded.read_bytes()
    log = logs / "dedicated_log_torch_trace_1.log"
    log.write_bytes(whole[: whole.index(b"\n") + 1])
    params = {"paths": [logs.as_uri()], "source": [], "follow": True}
    since = client.mark()
    log.unlink()
    asked = client.ask("fuselight/openJob", params)
    client.notified(
        "$/progress", lambda params: params["value"].get("title") == "Following a job", since=since
    )

    def followed(words: str) -> None:
        client.notified(
            "fuselight/jobsChanged",
            lambda params: any(words in job["words"] for job in params["followed"]),
            since=since,
        )

    followed("waiting for the first log")
    log.write_bytes(whole[: whole.index(b"\n") + 1])
    with log.open("ab") as stream:
        stream.write(whole[whole.index(b"\n") + 1 :])
    title = "graph break: `print` cannot be traced"
    until_findings(client, uri, {BREAK: ("Fuselight job growing", title)})
    followed("1 finding in 1 process")
    client.command("fuselight.server.stopFollowing", {})
    client.notified("fuselight/jobsChanged", lambda params: params["followed"] == [], since=since)
    (entry,) = client.answer(asked)["result"]["jobs"]
    assert (entry["name"], entry["partial"], entry["summary"]) == ("growing", False, "1 finding in 1 process")
