"""Packages for the registries: one for each platform that the server's libraries have wheels for."""

from __future__ import annotations

import re
from pathlib import Path

import bundle
import pytest
from node_tools import Unavailable

DOCS = Path(__file__).parents[3] / "docs"


@pytest.mark.parametrize("page", ["editors.md", "publishing.md"])
def test_the_pages_name_every_target(page: str) -> None:
    named = re.findall(
        r"\b(?:linux|alpine|darwin|win32)-(?:x64|arm64)\b", (DOCS / page).read_text(encoding="utf-8")
    )
    assert set(named) == set(bundle.TARGETS)


@pytest.mark.parametrize("target", [None, *bundle.TARGETS])
def test_a_package_is_built_for_the_platform_that_it_names(
    target: str | None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    ran: list[list[str]] = []
    platforms: list[bundle.Target | None] = []

    class Node:
        def run(self, arguments: list[str], **_options: object) -> None:
            ran.append([str(argument) for argument in arguments])

    monkeypatch.setattr(bundle, "ROOT", tmp_path)
    monkeypatch.setattr(bundle, "CACHE", tmp_path)
    monkeypatch.setattr(bundle, "npm_ci", lambda _folder: Node())
    monkeypatch.setattr(bundle, "bundle_libraries", platforms.append)
    monkeypatch.setattr(bundle, "stage_files", lambda _stage: None)
    monkeypatch.setattr(bundle, "_without_repository", lambda _stage: None)
    path = bundle.package(target)
    arguments = ran[-1]
    assert platforms == [bundle.TARGETS.get(target or "")]
    assert arguments[arguments.index("--out") + 1] == str(path)
    if target is None:
        assert (path.name, "--target" in arguments) == ("fuselight.vsix", False)
    else:
        assert path.name == f"fuselight-{target}.vsix"
        assert arguments[arguments.index("--target") + 1] == target


def test_what_differs_from_the_lock_is_installed_in_its_place(tmp_path: Path) -> None:
    files = {
        target: [
            (platform, path.read_text(encoding="utf-8"))
            for platform, path in bundle._requirements(bundle.TARGETS[target], tmp_path)
        ]
        for target in ("linux-x64", "alpine-x64", "darwin-x64")
    }
    lock = bundle.LOCK.read_text(encoding="utf-8")
    assert [text.split() for _, text in files["linux-x64"]] == [lock.split()]
    (_, musl), (platform, glibc) = files["alpine-x64"]
    assert "py-spy" not in musl
    assert (platform, glibc.partition("==")[0]) == ("x86_64-unknown-linux-gnu", "py-spy")
    assert "libcst==1.8.6" in files["darwin-x64"][0][1]


def test_a_release_that_left_the_lock_is_not_replaced_silently(tmp_path: Path) -> None:
    with pytest.raises(Unavailable, match=r"the lock has no gone==1\.0"):
        bundle._requirements(bundle.Target("x", replaced=(("gone==1.0", "gone==0.9"),)), tmp_path)
