"""`fuselight ops` without a worker: its sets of operators, its formats, its exit code."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest

from fuselight.shared.report import (
    Culprit,
    Failure,
    Location,
    OperatorPath,
    Phase,
    Problem,
    Report,
    Stack,
)
from fuselight_server.base.command_error import CommandError
from fuselight_server.base.finding import SourceLine
from fuselight_server.base.terminal import Terminal
from fuselight_server.cli.formats.ops import as_json, print_operators
from fuselight_server.cli.ops import exit_code
from fuselight_server.commands.ops import read_operator_set
from fuselight_server.commands.outcome import CheckOutcome
from fuselight_server.explain.kernels.operators import counts, lacks
from tests.support.reports import report

ROOT = "/w"


def at(line: int) -> Stack:
    return (Location(f"{ROOT}/model.py", line),)


PATHS = (
    OperatorPath(
        "torch.nn.functional.linear", Phase.FORWARD, at(11), "0/0",
        aten=("aten.t.default", "aten.addmm.default"),
        core=("aten.permute.default", "aten.addmm.default"),
        prims=("prims.transpose.default", "aten.mm.default", "prims.mul.default", "prims.mul.default"),
        inductor=("aten.permute.default", "aten.addmm.default"),
        lacking=("aten.mm.default",), count=12,
    ),
    OperatorPath(
        "torch.nn.functional.linear", Phase.BACKWARD, at(11), "0/0",
        aten=("aten.mm.default",), core=("aten.mm.default",), prims=("aten.mm.default",),
        inductor=("aten.mm.default",), lacking=("aten.mm.default",), count=12,
    ),
    OperatorPath(
        "torch.linalg.qr", Phase.FORWARD, at(20), "0/0",
        aten=("aten.linalg_qr.default",), core=("aten.linalg_qr.default",), prims=("aten.linalg_qr.default",),
        inductor=("aten.linalg_qr.default",), fallback=("aten.linalg_qr.default",),
        lacking=("aten.linalg_qr.default",),
    ),
)  # fmt: skip


def operator_report(*paths: OperatorPath, problems: tuple[Problem, ...] = ()) -> Report:
    return report(roots=(ROOT,), operators=paths, problems=problems)


def text_of(given: Report, opset: str | None = None) -> str:
    out = io.StringIO()
    print_operators(CheckOutcome(reports=[given]), Terminal(out, width=60), opset)
    return out.getvalue()


def test_each_level_counts_as_often_as_calls_go_a_path() -> None:
    totals = counts(operator_report(*PATHS))
    assert totals["call"] == {"torch.nn.functional.linear": 12, "torch.linalg.qr": 1}
    assert totals["aten"]["aten.mm.default"] == 12
    assert totals["prims"]["prims.mul.default"] == 24
    assert totals["fallback"] == {"aten.linalg_qr.default": 1}


def test_missing_operators_are_listed_with_their_calls_and_lines() -> None:
    first, second = lacks(operator_report(*PATHS))
    assert (first.operator, first.count) == ("aten.mm.default", 24)
    assert list(first.places) == [SourceLine(f"{ROOT}/model.py", 11)]
    assert list(second.calls) == ["torch.linalg.qr"]


def test_text_lists_missing_operators_counts_and_paths() -> None:
    text = text_of(operator_report(*PATHS), "prims")
    assert "prims lacks 2 operators\n  aten.mm × 24 for torch.nn.functional.linear\n" in text
    assert "      /w/model.py:11\n" in text
    assert "torch calls: 13 of 2 kinds\n  torch.nn.functional.linear 12, torch.linalg.qr 1\n" in text
    assert "  torch.nn.functional.linear × 12  forward\n" in text
    assert "      prims: prims.transpose, aten.mm, prims.mul × 2\n" in text
    assert "      core ATen: the same\n" in text
    assert "      Inductor leaves to ATen: aten.linalg_qr\n" in text


def test_text_says_when_nothing_is_lacking_or_captured() -> None:
    whole = OperatorPath("torch.sin", Phase.INFERENCE, at(3), aten=("aten.sin.default",))
    assert "core-aten supports every operator\n" in text_of(operator_report(whole), "core-aten")
    assert "lacks" not in text_of(operator_report(whole))
    assert "no operators: nothing was captured\n" in text_of(operator_report())


def test_json_has_the_counts_the_paths_and_what_is_lacking() -> None:
    data = json.loads(as_json(CheckOutcome(reports=[operator_report(*PATHS)]), "prims"))
    (target,) = data["targets"]
    assert (data["schema"], data["opset"]) == (1, "prims")
    assert target["counts"]["aten"]["aten.mm.default"] == 12
    assert target["lacking"][0] == {
        "operator": "aten.mm.default",
        "count": 24,
        "calls": ["torch.nn.functional.linear"],
        "lines": [["/w/model.py", 11]],
    }
    assert [path["phase"] for path in target["paths"]] == ["forward", "backward", "forward"]
    assert target["paths"][0]["stack"] == [["/w/model.py", 11]]


def test_the_page_names_every_key_of_the_json() -> None:
    page = (Path(__file__).parents[3] / "docs" / "operators.md").read_text(encoding="utf-8")
    data = json.loads(as_json(CheckOutcome(reports=[operator_report(*PATHS)]), "prims"))
    target = data["targets"][0]
    keys = {*data, *target, *target["lacking"][0], *target["paths"][0], *target["counts"]}
    assert sorted(key for key in keys if f"`{key}`" not in page) == []


@pytest.mark.parametrize(
    ("given", "code"),
    [
        ([operator_report(PATHS[0])], 1),
        ([operator_report(OperatorPath("torch.sin", Phase.INFERENCE))], 0),
        ([], 2),
        ([report(failures=(Failure(Culprit.USER, "exception", "no"),))], 2),
        ([operator_report(PATHS[0], problems=(Problem("operators", "graph 0/1", "why"),))], 2),
        ([operator_report(problems=(Problem("operator_set", "aten.addmn", "no such operator"),))], 0),
    ],
)
def test_the_exit_code_reports_missing_operators(given: list[Report], code: int) -> None:
    assert exit_code(CheckOutcome(reports=given)) == code


def test_a_problem_of_the_command_is_not_a_success() -> None:
    assert (
        exit_code(CheckOutcome(reports=[operator_report()], problems=[Problem("source", "x.py", "gone")]))
        == 2
    )


def test_a_file_of_operators_has_one_per_line(tmp_path: Path) -> None:
    file = tmp_path / "mine.txt"
    file.write_text(
        "# mine\naten.add.Tensor\n\naten::mm  # fast\ntorch.ops.aten.addmm.default\nprims\naten.add.Tensor\n"
    )
    assert read_operator_set(str(file)) == ("aten.add.Tensor", "aten.mm", "aten.addmm.default", "prims")
    assert read_operator_set("core-aten") == ("core-aten",)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("aten.add\nadd two tensors\n", "line 2: `add two tensors` is not an operator"),
        ("# nothing\n", "has no operators"),
        (
            None,
            "is neither a set (core-aten, prims, inductor) nor a readable file of operators: No such file",
        ),
    ],
)
def test_a_file_that_cannot_be_used_says_why(tmp_path: Path, text: str | None, message: str) -> None:
    file = tmp_path / "mine.txt"
    if text is not None:
        file.write_text(text)
    with pytest.raises(CommandError) as error:
        read_operator_set(str(file))
    assert message in str(error.value)


def test_a_file_that_is_not_text_says_so(tmp_path: Path) -> None:
    file = tmp_path / "mine.bin"
    file.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(CommandError, match="it is not text"):
        read_operator_set(str(file))


def test_the_nearest_set_is_offered_for_a_name_that_is_none() -> None:
    with pytest.raises(CommandError, match="Did you mean `core-aten`"):
        read_operator_set("core_aten")
