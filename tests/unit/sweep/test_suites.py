"""Reading suites: every form, and every way in which one can be wrong."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from fuselight_server.sweep.suites import SuiteError, read_suite


def wrote(folder: Path, name: str, text: str) -> str:
    (folder / name).write_text(text, encoding="utf-8")
    return str(folder / name)


def test_a_folder_gives_its_python_files(tmp_path: Path) -> None:
    (tmp_path / "models").mkdir()
    (tmp_path / ".venv").mkdir()
    wrote(tmp_path, "b.py", "")
    wrote(tmp_path, "notes.txt", "")
    wrote(tmp_path / "models", "a.py", "")
    wrote(tmp_path / ".venv", "hidden.py", "")
    suite = read_suite(str(tmp_path))
    assert suite.name == tmp_path.name
    assert [Path(one.path).name for one in suite.targets] == ["b.py", "a.py"]


LISTS = {
    "list.jsonl": '{"file": "net.py", "target": "Net", "name": "net", "group": "vision"}\n\n'
    '{"name": "gone", "absent": "no package ships it"}\n',
    "list.toml": '[[targets]]\nfile = "net.py"\ntarget = "Net"\nname = "net"\ngroup = "vision"\n\n'
    '[[targets]]\nname = "gone"\nabsent = "no package ships it"\n',
    "list.py": 'raise SystemExit("not run")\nTARGETS = [\n    {"file": "net.py", "target": "Net", "name": "net", '
    '"group": "vision"},\n    {"name": "gone", "absent": "no package ships it"},\n]\n',
}


@pytest.mark.parametrize("name", LISTS)
def test_each_form_of_a_list_gives_the_same_targets(tmp_path: Path, name: str) -> None:
    path = wrote(tmp_path, name, LISTS[name])
    if name.endswith(".toml") and sys.version_info < (3, 11):
        with pytest.raises(SuiteError, match=r"Python 3\.11"):
            read_suite(path)
        return
    net, gone = read_suite(path).targets
    assert (net.path, net.target, net.name, net.group) == (str(tmp_path / "net.py"), "Net", "net", "vision")
    assert (gone.name, gone.absent, gone.path) == ("gone", "no package ships it", "")


def test_a_python_list_may_name_file_and_target(tmp_path: Path) -> None:
    path = wrote(tmp_path, "list.py", 'TARGETS: list = ["models/net.py:Net"]\n')
    (only,) = read_suite(path).targets
    assert (only.path, only.target) == (str(tmp_path / "models" / "net.py"), "Net")


def test_a_python_file_without_a_list_is_its_own_suite(tmp_path: Path) -> None:
    path = wrote(tmp_path, "net.py", "import torch\n")
    (only,) = read_suite(path).targets
    assert only.path == path


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("list.jsonl", "{", r"list\.jsonl:1 is not JSON"),
        ("list.jsonl", "[1]", "should be `file.py:Target` or an object"),
        ("list.jsonl", '{"fil": "net.py"}', "`fil` is unknown; did you mean `file`"),
        ("list.jsonl", '{"file": 3}', "`file` should be a string, not 3"),
        ("list.jsonl", '{"target": "Net"}', "has no `file`"),
        ("list.jsonl", '{"absent": "no"}', "has no `name`"),
        ("list.jsonl", '{"file": "a.py"}\n{"file": "a.py"}', "lists `a.py:` twice"),
        ("list.jsonl", "\n", "lists no target"),
        ("list.py", "TARGETS = [name for name in ()]", "must be a literal"),
        ("list.py", "TARGETS = 3", "must be a list"),
        ("list.py", "TARGETS = [", "is not Python"),
        ("list.yaml", "", "is no suite"),
    ],
)
def test_what_is_wrong_is_named(tmp_path: Path, name: str, text: str, message: str) -> None:
    with pytest.raises(SuiteError, match=message):
        read_suite(wrote(tmp_path, name, text))


def test_a_suite_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(SuiteError, match="there is no suite"):
        read_suite(str(tmp_path / "nothing"))
    (tmp_path / "empty").mkdir()
    with pytest.raises(SuiteError, match="has no Python file"):
        read_suite(str(tmp_path / "empty"))
    (tmp_path / "bytes.jsonl").write_bytes(b"\xff\xfe\xfa")
    with pytest.raises(SuiteError, match="UTF-8"):
        read_suite(str(tmp_path / "bytes.jsonl"))
