"""Which torch is tested, and what is reported about any other."""

from __future__ import annotations

from pathlib import Path

import pytest

from fuselight.shared import version as module
from fuselight.shared.version import untested_torch


@pytest.mark.parametrize(
    ("version", "order"),
    [
        ("2.11.0", None),
        ("2.13.0+cpu", None),
        ("2.14.1+cu130", None),
        ("2.14.0.post1", None),
        ("2.15.0+cu130", None),
        ("2.12.1", "not one of"),
        ("2.15.0.dev20260701+cpu", "not one of"),
        ("2.13.0a0+git5c48869", "not one of"),
        ("2.14.0rc3", "not one of"),
        ("2.9.1", "older than"),
        ("2.16.0", "newer than"),
        ("3.0.0.dev1", "newer than"),
        ("2.5.1", None),  # nothing works with it: its failure says so
        ("unknown", None),
        ("", None),
    ],
)
def test_any_other_torch_is_named_with_the_tested_ones(version: str, order: str | None) -> None:
    shown = version.partition("+")[0]
    assert untested_torch(version) == (
        order
        and f"torch {shown} is {order} the versions Fuselight was tested with (2.11, 2.13, 2.14 and 2.15). "
        "Graphs and kernels may be incomplete."
    )


@pytest.mark.parametrize("wheel", ["fuselight", "fuselight_runtime"])
def test_a_worker_in_another_python_knows_the_version_next_to_its_code(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, wheel: str
) -> None:
    package = tmp_path / "site-packages" / "fuselight"
    package.mkdir(parents=True)
    metadata = package.with_name(f"{wheel}-7.8.9.dist-info")
    metadata.mkdir()
    (metadata / "METADATA").write_text(
        f"Metadata-Version: 2.1\nName: {wheel.replace('_', '-')}\nVersion: 7.8.9\n"
    )
    monkeypatch.setattr(module, "PACKAGE", str(package))
    monkeypatch.setattr("sys.path", [])
    assert module.version.__wrapped__() == "7.8.9"


def test_code_without_metadata_has_no_known_version(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "PACKAGE", str(tmp_path / "fuselight"))
    monkeypatch.setattr("sys.path", [])
    assert module.version.__wrapped__() == "unknown"
