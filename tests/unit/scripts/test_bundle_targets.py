"""Packages for the registries: one for each platform that the server's libraries have wheels for."""

from __future__ import annotations

import re
from pathlib import Path

import bundle
import pytest

PAGE = Path(__file__).parents[3] / "docs" / "editors.md"


def test_the_page_names_every_target() -> None:
    named = re.findall(r"\b(?:linux|darwin|win32)-(?:x64|arm64)\b", PAGE.read_text(encoding="utf-8"))
    assert set(named) == set(bundle.TARGETS)


@pytest.mark.parametrize("target", [None, *bundle.TARGETS])
def test_a_package_is_built_for_the_platform_that_it_names(
    target: str | None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    ran: list[list[str]] = []
    platforms: list[str | None] = []

    class Node:
        def run(self, arguments: list[str], **_options: object) -> None:
            ran.append([str(argument) for argument in arguments])

    monkeypatch.setattr(bundle, "ROOT", tmp_path)
    monkeypatch.setattr(bundle, "CACHE", tmp_path)
    monkeypatch.setattr(bundle, "npm_ci", lambda _folder: Node())
    monkeypatch.setattr(bundle, "bundle_libraries", platforms.append)
    monkeypatch.setattr(bundle, "_stage", lambda _stage: None)
    path = bundle.package(target=target)
    arguments = ran[-1]
    assert platforms == [bundle.TARGETS.get(target or "")]
    assert arguments[arguments.index("--out") + 1] == str(path)
    if target is None:
        assert (path.name, "--target" in arguments) == ("fuselight.vsix", False)
    else:
        assert path.name == f"fuselight-{target}.vsix"
        assert arguments[arguments.index("--target") + 1] == target
