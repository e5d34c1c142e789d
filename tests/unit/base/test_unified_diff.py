"""Diffs as tools and people write them, applied to texts; those that do not fit say where."""

from __future__ import annotations

import difflib
import subprocess
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from fuselight_server.base.unified_diff import DiffError, apply_diff

OLD = "import torch\n\n\ndef f(x):\n    print(x)\n    return x\n\n\ndef g(x):\n    print(x)\n    return x\n"
HEAD = "--- a/m.py\n+++ b/m.py\n"


def applied(diff: str, old: str | None = OLD, path: str = "m.py") -> str:
    (text,) = apply_diff(diff, lambda asked: old if asked == path else None).values()
    return text


@pytest.mark.parametrize(
    "diff",
    [
        f"{HEAD}@@ -4,3 +4,2 @@ def f\n def f(x):\n-    print(x)\n     return x\n",
        f"{HEAD}@@ -40,9 +1,1 @@\n def f(x):\n-    print(x)\n     return x\n",  # miscounted
        f"{HEAD}@@\n def f(x):\n-    print(x)\n",
        f"{HEAD}@@ ... @@\n def f(x):\n-    print(x)\n",
        f"{HEAD}@@ -5 +5 @@\n-    print(x)\n",  # its line number says which print
        f"diff --git a/m.py b/m.py\nindex 12..34 100644\n{HEAD}@@\n def f(x):\n-    print(x)\n     return x\n\n\n",
        f"Here is the patch:\n\n{HEAD}@@\n def f(x):\n-    print(x)\n",
        "--- m.py\t2026-01-01\n+++ m.py\t2026-01-01\n@@\n def f(x):\n-    print(x)\n",
        f"{HEAD}@@\n def f(x):\n-    print(x)\n".replace("\n", "\r\n"),
        f"From 1234567\nSubject: Less\n---\n m.py | 1 -\n\n{HEAD}@@\n def f(x):\n-    print(x)\n-- \n2.43.0 (A)\n\n",
    ],
)
def test_a_hunk_fits_where_its_lines_stand(diff: str) -> None:
    assert applied(diff) == OLD.replace("    print(x)\n", "", 1)


@pytest.mark.parametrize(
    ("diff", "message"),
    [
        ("", "the diff is empty"),
        (HEAD, "has no hunk"),
        ("@@ -1 +1 @@\n-a\n+b\n", "before `--- PATH`"),
        (f"{HEAD}@@\n-    print(x)\n", "hunk 1 of `m.py` fits 2 places (lines 5, 10)"),
        (f"{HEAD}@@ -4 +4 @@\n def f(x):\n-    show(x)\n", "has `    show(x)`, but line 5 is `    print(x)`"),
        (f"{HEAD}@@\n def g(x):\n-    show(x)\n", "has `    show(x)`, but line 10 is `    print(x)`"),
        (f"{HEAD}@@\n     return x\n def end():\n-x\n", "does not fit"),
        (f"{HEAD}@@\n+import os\n", "only adds lines"),
        (f"{HEAD}@@\n?    print(x)\n", "starts with none of"),
        (f"{HEAD}@x@\n", "is in no hunk"),
        ("--- a/o.py\n+++ b/o.py\n@@ -1 +1 @@\n-a\n+b\n", "`o.py`, which cannot be read"),
        ("--- /dev/null\n+++ b/m.py\n@@ -0,0 +1 @@\n+a\n", "which exists"),
        ("--- a/m.py\n+++ /dev/null\n@@ -1 +0,0 @@\n-a\n", "deletes `a/m.py`"),
        ("rename from m.py\n", "only diffs that change or create"),
    ],
)
def test_a_diff_that_does_not_fit_says_where(diff: str, message: str) -> None:
    with pytest.raises(DiffError) as raised:
        applied(diff)
    assert message in str(raised.value)


def test_several_files_and_a_new_one() -> None:
    files = {"m.py": OLD, "pkg/n.py": "a\nb\n"}
    diff = (
        f"{HEAD}@@\n def f(x):\n-    print(x)\n@@\n def g(x):\n-    print(x)\n"
        "--- a/pkg/n.py\n+++ b/pkg/n.py\n@@ -1,0 +2 @@\n+between\n"
        "--- /dev/null\n+++ b/new.py\n@@ -0,0 +1,2 @@\n+x = 1\n+y = 2\n"
    )
    assert apply_diff(diff, files.get) == {
        "m.py": OLD.replace("    print(x)\n", ""),
        "pkg/n.py": "a\nbetween\nb\n",
        "new.py": "x = 1\ny = 2\n",
    }


@pytest.mark.parametrize(
    ("head", "path"),
    [
        ("diff --git a/pkg/__init__.py b/pkg/__init__.py", "pkg/__init__.py"),
        ("diff --git a/my b/x.py b/my b/x.py", "my b/x.py"),
        (r'diff --git "a/caf\303\251.py" "b/caf\303\251.py"', "café.py"),
    ],
)
@pytest.mark.parametrize(
    "more", ["", "diff --git a/m.py b/m.py\n--- a/m.py\n+++ b/m.py\n@@ -1 +1 @@\n-a\n+b\n"]
)
def test_a_file_without_text_is_created(head: str, path: str, more: str) -> None:
    diff = f"{head}\nnew file mode 100644\nindex 0000000..e69de29\n{more}"
    texts = apply_diff(diff, {"m.py": "a\n"}.get)
    assert texts == {path: "", **({"m.py": "b\n"} if more else {})}


def test_a_head_without_hunks_is_no_file_without_text() -> None:
    with pytest.raises(DiffError, match="has no hunk"):
        apply_diff("--- /dev/null\n+++ b/new.py\n", lambda _path: None)


def test_a_removed_line_may_look_like_a_head() -> None:
    assert applied(f"{HEAD}@@\n a\n--- x\n+b\n", "a\n-- x\nc\n") == "a\nb\nc\n"


def test_changed_lines_may_look_like_the_head_of_a_file() -> None:
    old, new = "x\n-- a\ny\n", "x\n++ b\ny\n"
    for head in ("@@ -1,3 +1,3 @@", "@@"):
        assert applied(f"{HEAD}{head}\n x\n--- a\n+++ b\n y\n", old) == new
    last = f"{HEAD}@@ -1,2 +1,2 @@\n x\n--- a\n+++ b\n"
    assert applied(last, old) == new
    assert applied(f"{last}--- a/n.py\n+++ b/n.py\n", old) == new
    two = f"{HEAD}@@ -2 +2 @@\n--- a\n+++ b\n@@ -3 +3 @@\n-y\n+z\n"
    assert applied(two, old) == "x\n++ b\nz\n"
    signature = f"{HEAD}@@ -1,2 +1 @@\n x\n-- \n-- \n2.43.0\n"
    assert applied(signature, "x\n- \n") == "x\n"


def test_what_git_writes_of_one_commit_is_read_and_several_commits_are_refused(tmp_path: Path) -> None:
    def git(*arguments: str) -> str:
        settings = ["user.name=A", "user.email=a@b.c", "commit.gpgsign=false", "core.autocrlf=false"]
        command = ["git", *(part for setting in settings for part in ("-c", setting)), *arguments]
        return subprocess.run(command, cwd=tmp_path, check=True, capture_output=True, encoding="utf-8").stdout

    def commit(message: str, **texts: str) -> None:
        for name, text in texts.items():
            (tmp_path / f"{name}.py").write_text(text, encoding="utf-8")
        git("add", ".")
        git("commit", "-q", "-m", message)

    git("init", "-q")
    first = {"m": OLD, "n": "".join(f"line {number}\n" for number in range(20))}
    commit("Start", **first)
    last = {
        "m": OLD.replace("print(x)", "++ x", 1),
        "n": first["n"].replace("line 9", "-- 9"),
        "café": "x = 2\n",
    }
    commit("Change it\n\n@ is no hunk\nrename nothing", **last)
    expected = {f"{name}.py": text for name, text in last.items()}
    read = {f"{name}.py": text for name, text in first.items()}.get
    for diff in (
        git("diff", "HEAD~1"),
        git("show"),
        git("format-patch", "--stdout", "-1"),
        git("log", "-p", "-1"),
    ):
        assert apply_diff(diff, read) == expected
    commit("Again", m=OLD)
    for several in (git("log", "-p", "-2"), git("format-patch", "--stdout", "-2")):
        with pytest.raises(DiffError, match="several commits: give one diff of all, as `git diff BASE`"):
            apply_diff(several, read)


def test_a_folder_may_be_called_a() -> None:
    diff = "--- a/m.py\n+++ a/m.py\n@@\n-x\n+y\n"
    assert apply_diff(diff, {"a/m.py": "x\n"}.get) == {"a/m.py": "y\n"}


def test_line_ends_stay() -> None:
    old = OLD.replace("\n", "\r\n")
    diff = f"{HEAD}@@\n def f(x):\n-    print(x)\n+    y = x\n     return x\n"
    assert applied(diff, old) == old.replace("print(x)", "y = x", 1)


@example("a", "a\n")
@example("a\nb", "b\n")
@example("-- a\n", "++ a\n")
@given(st.text("ab\n-+ ", max_size=30), st.text("ab\n-+ ", max_size=30))
def test_what_difflib_writes_gives_the_new_text(old: str, new: str) -> None:
    if old == new:
        return
    before, after = (text.splitlines(keepends=True) for text in (old, new))
    lines = [
        line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n"
        for line in difflib.unified_diff(before, after, "a/m.py", "b/m.py")
    ]
    assert applied("".join(lines), old) == new
