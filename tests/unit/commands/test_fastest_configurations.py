"""Autotuners that keep what was measured to be the fastest, and what is not written."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from fuselight.shared.report import OwnKernel, TunedSizes, data_key
from fuselight_server.commands.fastest_configurations import winners, write_fastest
from tests.support.own_kernels import own_report, tuned_kernel, written_fastest

HEAD = "import triton\n"
LISTED = '[triton.Config({"BLOCK": 128}), triton.Config({"BLOCK": 256},  # wide\n num_warps=4)]'


def program(configs: str, head: str = HEAD) -> str:
    return f'{head}@triton.autotune(configs={configs}, key=["n"])\n@triton.jit\ndef add(x, n, BLOCK):\n    pass\n'


def measured(text: str, *times: tuple[float | None, ...]) -> OwnKernel:
    """A kernel on the line that `text` has it on, measured for several sizes."""
    line = text.split("\n").index("def add(x, n, BLOCK):") + 1
    kernel = tuned_kernel(*(None for _ in times[0]))
    tuned = tuple(TunedSizes((str(1000 + at), "torch.float32"), row) for at, row in enumerate(times))
    return replace(kernel, location=replace(kernel.location, line=line), tuned=tuned)


@pytest.mark.parametrize(
    ("configs", "times", "expected"),
    [
        (LISTED, ((14.0, 10.0),), '[triton.Config({"BLOCK": 256},  # wide\n num_warps=4)]'),
        (LISTED, ((10.0, 14.0),), '[triton.Config({"BLOCK": 128})]'),
        ("CONFIGS", ((14.0, 10.0),), '[triton.Config({"BLOCK": 256}, num_warps=4, num_stages=3)]'),
        ("[make(128), make(256)]", ((14.0, 10.0),), "[make(256)]"),
        ("[make(b) for b in (128, 256)]", ((14.0, 10.0, 9.0), (1.0, 2.0, 3.0)), None),
    ],
)
def test_only_the_fastest_for_each_measured_size_stay(
    tmp_path: Path, configs: str, times: tuple[tuple[float, ...], ...], expected: str | None
) -> None:
    text = program(configs)
    new, _ = written_fastest(tmp_path, text, measured(text, *times))
    texts = [f'triton.Config({{"BLOCK": {size}}}, num_warps=4, num_stages=3)' for size in (128, 512)]
    assert new == program(expected or f"[{', '.join(texts)}]")


@pytest.mark.parametrize(
    "times",
    [
        pytest.param(((None, None),), id="not timed"),
        pytest.param(((10.0, None),), id="one time compares nothing"),
        pytest.param(((1.0, 2.0), (2.0, 1.0)), id="each wins somewhere"),
    ],
)
def test_what_was_not_measured_is_not_written(
    tmp_path: Path, times: tuple[tuple[float | None, ...], ...]
) -> None:
    text = program(LISTED)
    assert written_fastest(tmp_path, text, measured(text, *times)) == (text, "")


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (program("CONFIGS", "import triton as t\n").replace("@triton", "@t"), "does not import `triton`"),
        (program("CONFIGS").replace("@triton.autotune", "@tuned"), "has no `@triton.autotune`"),
        (program("CONFIGS") + "(\n", "does not parse"),
    ],
)
def test_what_cannot_be_written_says_why(tmp_path: Path, text: str, why: str) -> None:
    new, refusal = written_fastest(tmp_path, text, measured(text, (14.0, 10.0)))
    assert new == text
    assert why in refusal


def test_a_configuration_with_a_hook_is_kept_only_as_it_is_written(tmp_path: Path) -> None:
    listed, named = program(LISTED), program("CONFIGS")
    for text, is_written in ((listed, True), (named, False)):
        kernel = measured(text, (14.0, 10.0))
        hooked = tuple(replace(configuration, text="") for configuration in kernel.configurations)
        _, refusal = written_fastest(tmp_path, text, replace(kernel, configurations=hooked))
        assert (not refusal) is is_written


def test_the_words_have_times_and_sizes() -> None:
    text = program(LISTED)
    (winner,) = winners([measured(text, (14.0, 10.0))])
    assert (
        winner.title == "Keep the fastest of 2 configurations: BLOCK=256, 4 warps, 3 stages, 10 µs for n=1000"
    )


def test_a_file_is_written_unless_it_has_changed_since_the_run(tmp_path: Path) -> None:
    text = program(LISTED)
    file = tmp_path / "kernels.py"
    file.write_text(text, encoding="utf-8")
    file.chmod(0o640)
    kernel = measured(text, (14.0, 10.0))
    kernel = replace(kernel, location=replace(kernel.location, path=str(file)))
    report = replace(own_report(kernel), files={str(file): data_key(text.encode())})
    (kept,) = write_fastest([report])
    assert (kept.refusal, file.read_text(encoding="utf-8")) == (
        "",
        program('[triton.Config({"BLOCK": 256},  # wide\n num_warps=4)]'),
    )
    assert file.stat().st_mode & 0o777 == 0o640
    (again,) = write_fastest([report])
    assert again.refusal == "the file has changed since the run"
    file.unlink()
    assert "cannot be read" in write_fastest([report])[0].refusal
