"""`fuselight-tuned.json`: what is written is read back, and what is damaged is refused and kept."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from fuselight.shared import folder_lock, tuned_file
from fuselight.shared.codec import encode
from fuselight.shared.report import Numerics, Preparation, TunedGraph, TunedResult, Work
from fuselight.shared.tuned_file import (
    FORMAT,
    TunedFile,
    TunedFileError,
    keep,
    parse,
    read,
    render,
)

RESULT = TunedResult(
    file="models/net.py",
    target="Net",
    work=Work.INFERENCE,
    numerics=Numerics.EXACT,
    device="NVIDIA H100 80GB HBM3",
    capability="9.0",
    torch="2.11.0",
    triton="3.6.0",
    graphs=(TunedGraph("a1", ("f32[8, 3, 224, 224]",), 120),),
    configuration="default+triton.cudagraphs=True+channels_last",
    options={"triton.cudagraphs": True, "max_fusion_size": 8},
    preparation=Preparation(channels_last=True),
    kernels={"triton": {"b2": {"XBLOCK": 128, "num_warps": 4}}},
    us=80.0,
    default_us=120.0,
    gain=1.5,
)
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(Path(tuned_file.__file__).parents[2])}
HUGE = render(TunedFile((replace(RESULT, us=1.0),))).replace('"us": 1.0', f'"us": 1{"0" * 400}')


def test_what_is_kept_is_read_back(tmp_path: Path) -> None:
    path = tmp_path / "fuselight-tuned.json"
    keep(path, [RESULT])
    assert read(path) == TunedFile((RESULT,))
    assert json.loads(path.read_text())["format"] == FORMAT


def test_results_of_several_devices_live_in_one_file(tmp_path: Path) -> None:
    path = tmp_path / "fuselight-tuned.json"
    other = replace(RESULT, device="NVIDIA H200")
    keep(path, [RESULT])
    keep(path, [other])
    again = replace(RESULT, gain=1.6)
    assert keep(path, [again]).results == (other, again)


@pytest.mark.slow
def test_processes_that_keep_results_at_once_lose_none(tmp_path: Path) -> None:
    (tmp_path / "result.json").write_text(json.dumps(encode(RESULT)))
    program = textwrap.dedent("""
        import json, sys
        from dataclasses import replace
        from fuselight.shared import tuned_file
        from fuselight.shared.codec import decode
        from fuselight.shared.report import TunedResult
        result = decode(TunedResult, json.load(open("result.json")))
        for number in range(40):
            one = replace(result, target=f"{sys.argv[1]}{number}")
            tuned_file.keep("fuselight-tuned.json", [one])
    """)
    started = [
        subprocess.Popen([sys.executable, "-c", program, name], cwd=tmp_path, env=ENVIRONMENT)
        for name in "ab"
    ]
    assert [process.wait(60) for process in started] == [0, 0]
    file = read(tmp_path / "fuselight-tuned.json")
    assert file is not None
    assert len({tuned_result.target for tuned_result in file.results}) == 80
    assert {path.name for path in tmp_path.iterdir()} == {"fuselight-tuned.json", "result.json"}


@pytest.mark.skipif(os.name != "posix", reason="locks a folder")
def test_a_process_that_hangs_is_not_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(folder_lock, "LOCK_SECONDS", 0.1)
    with folder_lock.locked_folder(str(tmp_path)):
        keep(tmp_path / "fuselight-tuned.json", [RESULT])
    assert read(tmp_path / "fuselight-tuned.json") == TunedFile((RESULT,))


def test_a_file_that_changes_between_reading_and_replacing_is_read_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "fuselight-tuned.json"
    keep(path, [RESULT])
    other = replace(RESULT, target="Other")
    real = tuned_file._bytes

    def interrupted(*given: Any) -> bytes:
        monkeypatch.setattr(tuned_file, "_bytes", real)
        keep(path, [other])
        return real(*given)

    monkeypatch.setattr(folder_lock, "LOCK_SECONDS", 0.0)
    monkeypatch.setattr(tuned_file, "_bytes", interrupted)
    keep(path, [replace(RESULT, target="New")])
    file = read(path)
    assert file is not None
    assert [tuned_result.target for tuned_result in file.results] == ["Net", "Other", "New"]
    assert list(tmp_path.iterdir()) == [path]


def test_there_may_be_no_file(tmp_path: Path) -> None:
    assert read(tmp_path / "fuselight-tuned.json") is None


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("{", ["damaged", "fuselight tune"]),
        ("[]", ["no `format`"]),
        ('{"format": 99}', ["newer version", "99"]),
        ('{"format": 1, "results": [{"file": 3}]}', ["damaged", "results[0]"]),
        ("[" * 100_000, ["damaged", "nested too deeply"]),
        ('{"format": 1, "results": ' + "[" * 5_000 + "]" * 5_000 + "}", ["damaged"]),
        (HUGE, ["damaged", "results[0].us", "below 1.8e308, not 1000"]),
        ('{"format": 1, "a": "\\ud800"}', ["damaged", "surrogate pair"]),
    ],
)
def test_a_damaged_file_is_refused_and_stays(tmp_path: Path, text: str, words: list[str]) -> None:
    path = tmp_path / "fuselight-tuned.json"
    path.write_text(text)
    with pytest.raises(TunedFileError) as raised:
        keep(path, [RESULT])
    assert all(word in str(raised.value) for word in [*words, str(path)])
    assert path.read_text() == text
    assert list(tmp_path.iterdir()) == [path]


def test_a_newer_minor_field_is_skipped() -> None:
    data = json.loads(render(TunedFile((RESULT,))))
    data["results"][0]["invented_later"] = 1
    assert parse(json.dumps(data)).results == (RESULT,)


def test_a_name_beyond_the_first_plane_is_kept() -> None:
    text = json.dumps(json.loads(render(TunedFile((replace(RESULT, target="\U0001d4dd"),)))))
    assert "\\ud835" in text
    assert parse(text).results[0].target == "\U0001d4dd"


@pytest.mark.parametrize(
    ("result", "words"),
    [
        (
            replace(RESULT, file="a\udcff/net.py"),
            ["a name in it is not UTF-8", "a\\udcff/net.py", "Rename it"],
        ),
        (replace(RESULT, fuselight=b""), ["not JSON serializable"]),  # type: ignore[arg-type]
        (replace(RESULT, options={"post_grad_custom_post_pass": print}), ["`post_grad_custom_post_pass`"]),
    ],
)
def test_what_a_file_cannot_hold_leaves_it_as_it_is(
    tmp_path: Path, result: TunedResult, words: list[str]
) -> None:
    path = tmp_path / "fuselight-tuned.json"
    keep(path, [RESULT])
    with pytest.raises(TunedFileError) as raised:
        keep(path, [replace(result, target="New")])
    assert all(word in str(raised.value) for word in words)
    assert str(raised.value).isascii()
    assert "\n" not in str(raised.value)
    assert read(path) == TunedFile((RESULT,))
    assert list(tmp_path.iterdir()) == [path]
