"""Which local file and line is which of a job, and that no path of a log leads out of the source folders."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from fuselight.shared.report import Location
from fuselight_server.jobs.reports.mapping import (
    JobFiles,
    LineState,
    LocalSources,
    files_in_place,
    is_of_job,
    map_files,
)
from fuselight_server.jobs.reports.moved_lines import SourceEvidence

NET = "import torch\n\n\ndef forward(x):\n    return x.relu()\n"


def written(folder: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return folder


def mapped(folder: Path, logged: dict[str, dict[int, str]], chosen: dict[str, str] | None = None) -> JobFiles:
    evidence = {path: SourceEvidence(dict(quotes)) for path, quotes in logged.items()}
    return map_files(evidence, LocalSources((folder,)), chosen or {})


@pytest.mark.parametrize(
    ("logged", "quotes", "files", "local"),
    [
        pytest.param(
            "/job/src/net.py", {}, {"src/net.py": NET, "old/net.py": NET}, "src/net.py", id="longest end"
        ),
        pytest.param("C:\\job\\src\\net.py", {}, {"src/net.py": NET}, "src/net.py", id="a job on Windows"),
        pytest.param(
            "/job/net.py", {5: "return x.relu()"}, {"a/net.py": NET}, "a/net.py", id="only the name"
        ),
        pytest.param(
            "/job/net.py", {5: "return x.cos()"}, {"a/net.py": NET}, None, id="only the name, other text"
        ),
        pytest.param(
            "net.py", {5: "return x.cos()"}, {"net.py": NET}, "net.py", id="a relative path, changed"
        ),
        pytest.param(
            "/job/net.py",
            {5: "return x.relu()"},
            {"a/net.py": NET, "b/net.py": NET.replace("relu", "cos")},
            "a/net.py",
            id="the quoted line decides",
        ),
        pytest.param(
            "/usr/lib/python3.11/site-packages/net.py",
            {5: "return x.relu()"},
            {"src/net.py": NET},
            "src/net.py",
            id="an installed module",
        ),
        pytest.param("/usr/lib/python3.11/net.py", {}, {"net.py": NET}, None, id="Python's own"),
        pytest.param(
            "/venv/site-packages/lib/net.py", {}, {"net.py": NET}, None, id="another package's module"
        ),
        pytest.param(
            "/venv/site-packages/lib/net.py", {}, {"src/lib/net.py": NET}, "src/lib/net.py", id="a package"
        ),
        pytest.param("/opt/pytorch/torch/nn/utils/net.py", {}, {"utils/net.py": NET}, None, id="torch's own"),
        pytest.param(
            "/job/../../../etc/net.py", {}, {"src/other.py": NET}, None, id="a path that climbs out"
        ),
        pytest.param("", {}, {"net.py": NET}, None, id="no path"),
        pytest.param("/", {}, {"net.py": NET}, None, id="the root"),
        pytest.param("<string>", {}, {"net.py": NET}, None, id="no file"),
    ],
)
def test_a_file_of_the_job_is_found_by_the_end_of_its_path_and_its_lines(
    tmp_path: Path, logged: str, quotes: dict[int, str], files: dict[str, str], local: str | None
) -> None:
    of_job = mapped(written(tmp_path, files), {logged: quotes})
    assert of_job.local.get(logged) == (None if local is None else str(tmp_path / local))
    assert not of_job.ambiguous


def test_a_file_outside_of_the_source_folders_is_never_read(tmp_path: Path) -> None:
    folder = written(tmp_path / "here", {"net.py": NET})
    written(tmp_path / "there", {"secret.py": "token = 1\n"})
    (folder / "link.py").symlink_to(tmp_path / "there" / "secret.py")
    logged = [str(tmp_path / "there" / "secret.py"), f"{folder}/../there/secret.py", "/job/link.py"]
    files = mapped(folder, {path: {} for path in logged})
    assert files.local == {}
    for path in logged:
        assert files.line(files.path(path), 1) is None
        assert files.state(files.path(path), 1) is LineState.ABSENT


def test_other_files_of_the_same_folder_decide_between_equal_names(tmp_path: Path) -> None:
    folder = written(tmp_path, {"new/model/net.py": NET, "new/utils.py": NET, "old/utils.py": NET})
    files = mapped(folder, {"/job/model/net.py": {}, "/job/utils.py": {5: "return x.relu()"}})
    assert files.local["/job/utils.py"] == str(tmp_path / "new/utils.py")
    assert not files.ambiguous


def test_what_nothing_decides_is_ambiguous_until_it_is_answered(tmp_path: Path) -> None:
    folder = written(tmp_path, {"a/net.py": NET, "b/net.py": NET})
    logged = {"/job/net.py": {5: "return x.relu()"}}
    (file,) = mapped(folder, logged).ambiguous
    assert (file.path, sorted(file.candidates)) == (
        "/job/net.py",
        [str(folder / "a/net.py"), str(folder / "b/net.py")],
    )
    answered = mapped(folder, logged, {"/job/net.py": str(folder / "b/net.py")})
    assert (answered.local["/job/net.py"], answered.ambiguous) == (str(folder / "b/net.py"), ())
    assert mapped(folder, logged, {"/job/net.py": ""}).local == {}
    assert mapped(folder, logged, {"/job/net.py": os.devnull}).local == {}, "an answer outside of the folder"


def test_a_line_is_compared_with_its_quote(tmp_path: Path) -> None:
    text = "a = f(\n    1,\n    2,\n)\nb = 1\nc = 2\n"
    quotes = {1: "a = f(1, 2,)", 5: "b = 1", 6: "c = 3"}
    files = mapped(
        written(tmp_path, {"net.py": text}), {"/job/net.py": quotes} | {"/job/gone.py": {3: "d = 4"}}
    )
    here, gone = files.path("/job/net.py"), files.path("/job/gone.py")
    states = [files.state(here, line) for line in (1, 2, 5, 6, 99)]
    assert states == [
        LineState.CURRENT,
        LineState.UNKNOWN,
        LineState.CURRENT,
        LineState.CHANGED,
        LineState.UNKNOWN,
    ]
    assert (files.state(gone, 3), files.line(gone, 3), files.line(gone, 4)) == (
        LineState.ABSENT,
        "d = 4",
        None,
    )
    assert files.quote(here, 6) == "c = 3"


def test_locations_and_roots_are_local_where_the_file_is(tmp_path: Path) -> None:
    files = mapped(
        written(tmp_path, {"net.py": NET}), {"/job/net.py": {5: "return x.relu()"}, "/job/x/gone.py": {}}
    )
    assert files.location(Location("/job/net.py", 5, function="f")) == Location(
        str(tmp_path / "net.py"), 5, function="f"
    )
    assert files.location(Location("/job/x/gone.py", 5)) == Location("/job/x/gone.py", 5)
    assert files.roots() == (os.path.realpath(tmp_path), "/job/x")


def test_a_job_that_ran_here_names_its_script_by_a_relative_path(tmp_path: Path) -> None:
    folder = written(tmp_path, {"net.py": NET, "old/net.py": NET, "sub/loss.py": NET, "old/sub/loss.py": NET})
    evidence = {
        "net.py": SourceEvidence({5: "return x.relu()"}),
        "sub/loss.py": SourceEvidence(),
        str(folder / "old" / "sub" / "loss.py"): SourceEvidence(),
        "/elsewhere/net.py": SourceEvidence(),
        "<string>": SourceEvidence(),
    }
    files = files_in_place(evidence, LocalSources((folder,)), 0.0)
    assert files.local == {
        "net.py": str(folder / "net.py"),
        "sub/loss.py": str(folder / "old" / "sub" / "loss.py"),
        str(folder / "old" / "sub" / "loss.py"): str(folder / "old" / "sub" / "loss.py"),
    }


@pytest.mark.parametrize(
    ("path", "is_own"),
    [
        ("/job/train.py", True),
        ("/data/torch/train.py", True),
        ("/venv/lib/python3.11/site-packages/lib/net.py", False),
        ("/usr/lib/python3.11/runpy.py", False),
        ("/opt/pytorch/torch/nn/modules/module.py", False),
        ("/opt/torch/_dynamo/eval_frame.py", False),
        ("<frozen runpy>", False),
    ],
)
def test_the_code_of_the_job_is_told_from_that_of_others(path: str, *, is_own: bool) -> None:
    assert is_of_job(path) is is_own


def test_source_in_a_folder_whose_name_begins_with_a_dot_is_here_and_that_of_tools_is_not(
    tmp_path: Path,
) -> None:
    names = (
        ".exp/net.py",
        ".exp/.deep/net.py",
        ".git/net.py",
        ".mypy_cache/net.py",
        ".venv/net.py",
        "src/net.py",
    )
    for name in names:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("")
    listed = {
        Path(path).relative_to(tmp_path).as_posix() for path in LocalSources([tmp_path]).named("net.py")
    }
    assert listed == {".exp/net.py", ".exp/.deep/net.py", "src/net.py"}


_TWO = """\
class A:
    def forward(self, x):
        y = self.act(x)
        print(y)
        y = self.act(y)
        return y


class B:
    def forward(self, x):
        y = x.cos()
        return y


def helper(x):
    return x + 1
"""
_FUNCTIONS = {
    2: "forward",
    3: "forward",
    4: "forward",
    5: "forward",
    6: "forward",
    10: "forward",
    11: "forward",
    12: "forward",
    16: "helper",
}


def _moved(folder: Path, text: str, only: int | None = None) -> JobFiles:
    evidence = SourceEvidence()
    if only is None:
        evidence.functions |= {(15, "helper"), (2, "forward"), (10, "forward")}
    for number in _FUNCTIONS if only is None else (only,):
        evidence.add_quote(number, _TWO.splitlines()[number - 1], _FUNCTIONS[number])
    return map_files({"/job/net.py": evidence}, LocalSources((written(folder, {"job/net.py": text}),)), {})


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param(_TWO, {4: 4, 5: 5, 12: 12, 16: 16}, id="the same text"),
        pytest.param(
            "import os\n" + _TWO,
            {3: 4, 4: 5, 5: 6, 6: 7, 7: 8, 11: 12, 12: 13, 15: 16, 16: 17},
            id="a line above",
        ),
        pytest.param(
            _TWO.replace("        print(y)\n", "        z = 1\n        print(y)\n"),
            {3: 3, 4: 5, 5: 6, 6: 7, 11: 12, 15: 16, 16: 17},
            id="a line within",
        ),
        pytest.param(
            "\n".join([*_TWO.splitlines()[14:], "", "", *_TWO.splitlines()[:14]]) + "\n",
            {15: 1, 16: 2, 4: 8, 11: 15},
            id="a function moved",
        ),
    ],
)
def test_a_line_of_the_job_is_where_its_text_is_in_the_same_function(
    tmp_path: Path, text: str, expected: dict[int, int]
) -> None:
    files = _moved(tmp_path, text)
    here = {line: files.location(Location("/job/net.py", line)).line for line in expected}
    assert here == expected
    path = files.path("/job/net.py")
    for line in expected.keys() & _FUNCTIONS.keys():
        assert files.quote(path, here[line]) == _TWO.splitlines()[line - 1].strip()
        assert files.state(path, here[line]) is LineState.CURRENT


def test_a_changed_line_moves_with_the_lines_around_it_and_says_that_it_changed(tmp_path: Path) -> None:
    files = _moved(tmp_path, "import os\n" + _TWO.replace("print(y)", "print(x)"))
    here = files.location(Location("/job/net.py", 4))
    assert here.line == 5
    assert files.state(here.path, here.line) is LineState.CHANGED
    assert files.quote(here.path, here.line) == "print(y)"


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(
            "import os\n" + _TWO.replace("print(y)", "print(y)\n        x = 1\n        print(y)"),
            id="the text repeats",
        ),
        pytest.param(
            _TWO.replace("print(y)", "pass") + "\n\ndef other(y):\n    print(y)\n",
            id="another function has it",
        ),
    ],
)
def test_a_line_whose_text_does_not_decide_stays_and_says_so(tmp_path: Path, text: str) -> None:
    files = _moved(tmp_path, text, 4)
    here = files.location(Location("/job/net.py", 4))
    assert (here.line, files.state(here.path, here.line)) == (4, LineState.CHANGED)


def test_a_file_known_by_its_name_alone_is_found_after_a_line_was_inserted(tmp_path: Path) -> None:
    written(tmp_path, {"a/net.py": "import os\n" + NET})
    evidence = SourceEvidence()
    evidence.add_quote(5, "return x.relu()", "forward")
    sources = LocalSources((tmp_path,))
    assert map_files({"/job/net.py": evidence}, sources, {}).local == {
        "/job/net.py": str(tmp_path / "a/net.py")
    }
