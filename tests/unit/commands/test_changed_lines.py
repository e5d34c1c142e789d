"""Which lines a change has, by a real git, and which findings belong to it."""

from __future__ import annotations

import dataclasses
import subprocess
from pathlib import Path

import pytest

from fuselight_server.base.command_error import CommandError
from fuselight_server.base.finding import Finding, Related, Span
from fuselight_server.commands.changed_lines import ChangedLines, changed_since, read_patch
from fuselight_server.commands.outcome import CheckOutcome
from fuselight_server.explain.findings import findings
from tests.support.reports import at, broken, report

NAMES = ("plain.py", "with space.py", "é.py", 'quo"te.py', "tab\tname.py", "sub/deep.py", "-dash.py")


def git(folder: Path, *arguments: str) -> None:
    identity = ("-c", "user.name=t", "-c", "user.email=t@example.org", "-c", "commit.gpgsign=false")
    subprocess.run(("git", *identity, *arguments), cwd=folder, check=True, capture_output=True)


def numbered(count: int) -> str:
    return "".join(f"line {number}\n" for number in range(1, count + 1))


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """A branch `main` with files of ten lines, and a branch `topic` on it."""
    git(tmp_path, "init", "-q", "-b", "main")
    for name in NAMES:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(numbered(10))
    git(tmp_path, "add", "-A")
    git(tmp_path, "commit", "-q", "-m", "base")
    git(tmp_path, "checkout", "-q", "-b", "topic")
    return tmp_path


def changed(folder: Path, name: str, reference: str = "main") -> list[int]:
    lines = changed_since(reference, [folder]).lines.get(str(folder / name), [])
    return [number for part in lines for number in range(part.start, min(part.stop, 100))]


@pytest.mark.parametrize("name", NAMES)
def test_lines_of_any_file_name(repository: Path, name: str) -> None:
    text = numbered(10).replace("line 4\n", "other\nmore\n").replace("line 9\n", "last\n")
    (repository / name).write_text(text)
    assert changed(repository, name) == [4, 5, 10]


def test_committed_and_uncommitted_changes_count(repository: Path) -> None:
    (repository / "plain.py").write_text(numbered(10).replace("line 2\n", "two\n"))
    git(repository, "commit", "-q", "-a", "-m", "change")
    (repository / "plain.py").write_text(numbered(10).replace("line 2\n", "two\n") + "end\n")
    assert changed(repository, "plain.py") == [2, 11]


def test_what_the_other_branch_did_since_is_not_of_the_change(repository: Path) -> None:
    (repository / "plain.py").write_text(numbered(10).replace("line 2\n", "two\n"))
    git(repository, "commit", "-q", "-a", "-m", "change")
    git(repository, "checkout", "-q", "main")
    (repository / "plain.py").write_text(numbered(10).replace("line 7\n", "seven\n"))
    git(repository, "commit", "-q", "-a", "-m", "on main")
    git(repository, "checkout", "-q", "topic")
    assert changed(repository, "plain.py") == [2]


def test_new_files_are_changed_as_a_whole_tracked_or_not(repository: Path) -> None:
    (repository / "new.py").write_text(numbered(3))
    assert changed(repository, "new.py")[:3] == [1, 2, 3]
    git(repository, "add", "new.py")
    assert changed(repository, "new.py") == [1, 2, 3]


def test_a_deleted_line_and_a_deleted_file_change_no_line(repository: Path) -> None:
    (repository / "plain.py").write_text(numbered(10).replace("line 5\n", ""))
    (repository / "é.py").unlink()
    assert (changed(repository, "plain.py"), changed(repository, "é.py")) == ([], [])


def test_lines_that_look_like_headers_are_text(repository: Path) -> None:
    (repository / "plain.py").write_text("++ b.py\n@@ -1 +90 @@\n-- a.py\n" + numbered(10))
    assert changed(repository, "plain.py") == [1, 2, 3]


def test_a_missing_end_of_line_is_no_line() -> None:
    patch = (
        b"diff --git a.py a.py\n--- a.py\n+++ a.py\n@@ -2 +2,2 @@\n-old\n\\ No newline at end of file\n"
        b"+new\n+more\n\\ No newline at end of file\n"
    )
    assert list(read_patch(patch)) == [("a.py", [range(2, 4)])]


def test_settings_of_the_repository_change_nothing(repository: Path) -> None:
    for name, value in (
        ("diff.mnemonicPrefix", "true"),
        ("diff.interHunkContext", "5"),
        ("diff.external", "/bin/false"),
        ("color.ui", "always"),
        ("core.fsmonitor", "/bin/false"),
    ):
        git(repository, "config", name, value)
    (repository / "plain.py").write_text(numbered(10).replace("line 2\n", "a\n").replace("line 4\n", "b\n"))
    assert changed(repository, "plain.py") == [2, 4]


def test_programs_that_the_repository_names_do_not_run(repository: Path) -> None:
    trace = repository / ".git" / "ran"
    for kind in ("clean", "smudge"):
        git(repository, "config", f"filter.a.b.{kind}", f"touch '{trace}'; cat")
    git(repository, "config", "filter.a.b.required", "true")
    (repository / ".git" / "info" / "attributes").write_text("*.py filter=a.b\n")
    (repository / "plain.py").write_text(numbered(10).replace("line 2\n", "a\n"))
    assert changed(repository, "plain.py") == [2]
    assert not trace.exists()
    git(repository, "diff", "main")
    assert trace.exists()  # of a git that runs them


def test_a_filter_that_cannot_be_turned_off_is_refused(repository: Path) -> None:
    git(repository, "config", "filter.a=b.process", "cat")
    with pytest.raises(CommandError, match="a filter in its settings"):
        changed(repository, "plain.py")


@pytest.mark.parametrize("reference", ["origin/main", "nothing", "--output=x", "main~7"])
def test_an_unknown_commit_is_named_with_the_next_step(repository: Path, reference: str) -> None:
    with pytest.raises(CommandError, match="not a name" if reference.startswith("-") else "fetch-depth: 0"):
        changed_since(reference, [repository])
    assert not (repository / "x").exists()


def test_branches_without_a_common_commit(repository: Path) -> None:
    git(repository, "checkout", "-q", "--orphan", "alone")
    git(repository, "commit", "-q", "-m", "alone")
    with pytest.raises(CommandError, match="no common commit"):
        changed_since("main", [repository])


def test_a_folder_without_a_repository(tmp_path: Path) -> None:
    with pytest.raises(CommandError, match="needs a git repository"):
        changed_since("main", [tmp_path])


def test_git_that_is_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(CommandError, match="not installed"):
        changed_since("main", [tmp_path])


def finding(path: str, line: int, **changes: object) -> Finding:
    (example,) = findings(report(breaks=(broken(at(2, (4, 10))),)))
    return dataclasses.replace(example, span=Span(path, line), related=(), **changes)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("place", "expected"),
    [
        (finding("/p/a.py", 5), True),
        (finding("/p/a.py", 4), False),
        (finding("/p/b.py", 5), False),
        (dataclasses.replace(finding("/p/a.py", 4), span=Span("/p/a.py", 4, 0, 6, 1)), True),
        (dataclasses.replace(finding("/p/b.py", 1), related=(Related(Span("/p/a.py", 5), "called"),)), True),
        (finding("/p/b.py", 1, also_at=(finding("/p/a.py", 5),)), True),
        (finding("/p/b.py", 1, also_at=(finding("/p/a.py", 6),)), False),
    ],
)
def test_a_finding_belongs_by_its_places_and_what_explains_it(place: Finding, *, expected: bool) -> None:
    change = ChangedLines("main", {"/p/a.py": [range(5, 6)]})
    assert change.has(place) is expected


def test_what_could_not_be_analyzed_is_shown_wherever_it_is() -> None:
    outcome = CheckOutcome(findings=[finding("/p/b.py", 1), finding("/p/b.py", 1, code="FL504")])
    outcome.show_only(ChangedLines("main", {}))
    assert [place.code for place in outcome.findings] == ["FL504"]
    assert (outcome.elsewhere, outcome.exit_code) == (1, 2)
