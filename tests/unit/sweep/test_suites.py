"""Reading suites: every form, and every way in which one can be wrong."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

from fuselight_server.sweep.suites import SuiteError, built_in_suite, is_built_in, read_suite
from fuselight_server.sweep.tasks import SweepOptions, plan_sweep


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
    assert [Path(target.path).name for target in suite.targets] == ["b.py", "a.py"]


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


@pytest.mark.parametrize("name", ["list.jsonl", "list.toml", "list.py"])
@pytest.mark.parametrize("depth", [300, 100_000])
def test_a_list_that_is_nested_deeply_is_a_plain_error(tmp_path: Path, name: str, depth: int) -> None:
    nested = f"{'[' * depth}1{']' * depth}"
    text = {".jsonl": nested, ".toml": f"targets = {nested}", ".py": f"TARGETS = {nested}"}[Path(name).suffix]
    path = wrote(tmp_path, name, text)
    with pytest.raises(SuiteError, match=re.escape(name)):
        read_suite(path)


def test_a_suite_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(SuiteError, match="there is no suite"):
        read_suite(str(tmp_path / "nothing"))
    (tmp_path / "empty").mkdir()
    with pytest.raises(SuiteError, match="has no Python file"):
        read_suite(str(tmp_path / "empty"))
    (tmp_path / "bytes.jsonl").write_bytes(b"\xff\xfe\xfa")
    with pytest.raises(SuiteError, match="UTF-8"):
        read_suite(str(tmp_path / "bytes.jsonl"))


def test_a_built_in_suite_is_written_and_has_a_row_for_each_model(tmp_path: Path) -> None:
    assert is_built_in("pytorch-163")
    assert not is_built_in("model.py")
    suite = built_in_suite("pytorch-163", tmp_path / "models", size="tiny", training=True)
    assert len(suite.targets) == 163
    there = [target for target in suite.targets if not target.absent]
    assert all(Path(target.path).is_file() and target.root == str(tmp_path / "models") for target in there)
    assert all(not target.path for target in suite.targets if target.absent)
    assert {target.variant for target in suite.targets} == {"tiny train"}
    plan = plan_sweep(suite, SweepOptions(), has_gpu=False)
    assert len(plan.tasks) == len(there)
    assert len(plan.tasks) + len(plan.rows) == 163
    assert {task.request.roots for task in plan.tasks} == {(str(tmp_path / "models"),)}
    bert = next(task for task in plan.tasks if task.row.name == "BertForMaskedLM")
    assert bert.id == "huggingface/BertForMaskedLM tiny train check"


def test_a_built_in_suite_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "models").touch()
    with pytest.raises(SuiteError, match="cannot be written"):
        built_in_suite("pytorch-163", tmp_path / "models", size="tiny", training=False)
