"""What is uploaded for a version: names, addresses, and what the stores would refuse."""

from __future__ import annotations

import io
import struct
import zipfile
from pathlib import Path

import pytest
from node_tools import ROOT, Unavailable
from packaged_pages import with_addresses
from release import Release
from store_checks import problems_of

RELEASE = Release.of("https://github.com/OWNER/fuselight.git", "0.2.0")
MANIFEST = """<PackageManifest xmlns="http://schemas.microsoft.com/developer/vsx-schema/2011">
<Metadata><Identity Id="fuselight" Version="{version}" TargetPlatform="{target}"/><Properties>
<Property Id="Microsoft.VisualStudio.Services.Links.Source" Value="https://x/y.git"/>
<Property Id="Microsoft.VisualStudio.Services.Links.Support" Value="https://x/y/issues"/>
<Property Id="Microsoft.VisualStudio.Services.Links.Learn" Value="https://x/y"/>{more}</Properties></Metadata>
<Assets><Asset Type="Microsoft.VisualStudio.Services.Content.Details" Path="extension/readme.md"/>
<Asset Type="Microsoft.VisualStudio.Services.Content.Changelog" Path="extension/changelog.md"/>
<Asset Type="Microsoft.VisualStudio.Services.Content.License" Path="extension/LICENSE.txt"/>
<Asset Type="Microsoft.VisualStudio.Services.Icons.Default" Path="extension/icon.png"/></Assets></PackageManifest>"""
PREVIEW = '<Property Id="Microsoft.VisualStudio.Code.PreRelease" Value="true"/>'
NATIVE = "extension/bundled/libs/native.so"


def elf(machine: int) -> bytes:
    return b"\x7fELF" + bytes(14) + struct.pack("<H", machine) + bytes(40)


def mach_o(*machines: int) -> bytes:
    entries = b"".join(struct.pack(">IIIII", machine, 0, 0, 0, 0) for machine in machines)
    return b"\xca\xfe\xba\xbe" + struct.pack(">I", len(machines)) + entries


def portable(machine: int) -> bytes:
    return b"MZ" + bytes(58) + struct.pack("<I", 64) + b"PE\0\0" + struct.pack("<H", machine)


def icon(size: int) -> bytes:
    return b"\x89PNG\r\n\x1a\n" + bytes(8) + struct.pack(">II", size, size)


def manifest(version: str = "0.2.0", target: str = "linux-x64", more: str = "") -> bytes:
    return MANIFEST.format(version=version, target=target, more=more).encode()


def problems(
    folder: Path, changed: dict[str, bytes | None], target: str = "linux-x64", *, is_preview: bool = False
) -> str:
    """What is wrong with a package of which some files differ; None: without the file."""
    files: dict[str, bytes | None] = {
        "manifest": manifest(),
        "readme": b"# Fuselight\n\n![a](https://x/a.png) [b](https://x/b) [c](#part)\n",
        "changelog": b"# Changelog\n",
        "license": b"Apache",
        "icon": icon(256),
        "native": elf(0x3E),
        **changed,
    }
    paths = {
        "manifest": "extension.vsixmanifest", "readme": "extension/readme.md", "changelog": "extension/changelog.md",
        "license": "extension/LICENSE.txt", "icon": "extension/icon.png", "native": NATIVE,
    }  # fmt: skip
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w") as packed:
        for name, text in files.items():
            if text is not None:
                packed.writestr(paths[name], text)
    path = folder / "a.vsix"
    path.write_bytes(data.getvalue())
    return "\n".join(problems_of(path, target, "0.2.0", is_preview=is_preview))


def test_a_whole_package_has_no_problem(tmp_path: Path) -> None:
    assert problems(tmp_path, {}) == ""
    assert problems(tmp_path, {"manifest": manifest(more=PREVIEW)}, is_preview=True) == ""


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"manifest": manifest("0.1.0")}, "its version is 0.1.0"),
        ({"manifest": manifest(target="win32-x64")}, "it is for win32-x64"),
        ({"manifest": manifest(more=PREVIEW)}, "says the other"),
        ({"manifest": manifest().replace(b"https://x/y.git", b"")}, "no link `Source`"),
        ({"changelog": None}, "no changelog"),
        ({"license": None}, "no license"),
        ({"icon": icon(64)}, "smaller than 128"),
        ({"icon": b"GIF89a"}, "smaller than 128"),
        ({"readme": b"![a](docs/a.png)"}, "shows `docs/a.png`"),
        ({"readme": b'<img alt="" src="http://x/a.png">'}, "shows `http://x/a.png`"),
        ({"readme": b"![a](https://x/a.svg)"}, "the store shows no SVG"),
        ({"readme": b"[a](docs/a.md)"}, "links to `docs/a.md`"),
        ({"native": elf(0xB7)}, f"{NATIVE} is for (('ELF', 183),), not for linux-x64"),
        ({"native": mach_o(0x0100000C)}, "not for linux-x64"),
        ({"native": b"text"}, "no platform that is known"),
        ({"native": None}, "the libraries of the server are missing"),
    ],
)  # fmt: skip
def test_what_a_store_would_refuse(tmp_path: Path, changed: dict[str, bytes | None], words: str) -> None:
    assert words in problems(tmp_path, changed)


@pytest.mark.parametrize(
    ("target", "native"),
    [
        ("linux-arm64", elf(0xB7)),
        ("alpine-x64", elf(0x3E)),
        ("darwin-x64", mach_o(0x01000007, 0x0100000C)),
        ("darwin-arm64", b"\xcf\xfa\xed\xfe" + struct.pack("<I", 0x0100000C)),
        ("win32-x64", portable(0x8664)),
    ],
)
def test_native_code_of_each_platform(tmp_path: Path, target: str, native: bytes) -> None:
    assert problems(tmp_path, {"manifest": manifest(target=target), "native": native}, target) == ""


@pytest.mark.parametrize(
    ("repository", "version", "words"),
    [
        ("", "0.2.0", "REPOSITORY is ``"),
        ("git@github.com:OWNER/fuselight.git", "0.2.0", "name it as https://github.com/OWNER/NAME"),
        ("http://github.com/OWNER/fuselight", "0.2.0", "name it as https://"),
        ("https://github.com/OWNER", "0.2.0", "name it as https://"),
        ("https://example.com/a/b", "0.2.0", "name it as https://"),
        ("https://github.com/OWNER/fuselight", "", "VERSION is ``"),
        ("https://github.com/OWNER/fuselight", "v0.2.0", "three numbers"),
        ("https://github.com/OWNER/fuselight", "0.2.0-rc1", "three numbers"),
    ],
)
def test_what_cannot_be_a_release_is_refused(repository: str, version: str, words: str) -> None:
    with pytest.raises(Unavailable, match=words):
        Release.of(repository, version)


@pytest.mark.parametrize(
    ("version", "kind"), [("0.2.0", ""), ("0.3.1", "preview"), ("1.0.0", ""), ("1.11.2", "preview")]
)
def test_an_odd_second_number_is_a_pre_release(version: str, kind: str) -> None:
    assert Release.of("https://github.com/OWNER/fuselight", version).is_preview == bool(kind)


@pytest.mark.parametrize(
    ("repository", "pages", "files"),
    [
        (
            "https://github.com/A/b",
            "https://github.com/A/b/blob/v0.2.0/",
            "https://raw.githubusercontent.com/A/b/v0.2.0/",
        ),
        (
            "https://gitlab.com/a/g/b/",
            "https://gitlab.com/a/g/b/-/blob/v0.2.0/",
            "https://gitlab.com/a/g/b/-/raw/v0.2.0/",
        ),
    ],
)
def test_links_lead_to_the_tag(repository: str, pages: str, files: str) -> None:
    release = Release.of(repository, "0.2.0")
    text = "![p](images/a.png) [l](../README.md#part) [w](https://x/y) [h](#here) [c](command:x)\n"
    text += "```\n[no](link.md)\n```\n"
    assert release.page("docs/page.md", text) == (
        f"![p]({files}docs/images/a.png) [l]({pages}README.md#part) [w](https://x/y) [h](#here) [c](command:x)\n"
        "```\n[no](link.md)\n```\n"
    )
    assert with_addresses("a.md", "", pages, files) == ""


def test_a_published_page_says_how_to_install_what_is_published() -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    assert "`make package`" in text
    page = RELEASE.page("README.md", text)
    assert "make package" not in page
    assert "pip install ." not in page
    assert "code --install-extension fuselight.fuselight`" in page
    assert "(https://github.com/OWNER/fuselight/blob/v0.2.0/docs/replay.md)" in page
    assert [line for line in page.split("\n") if line.startswith("## ")] == [
        line for line in text.split("\n") if line.startswith("## ")
    ]
    other = "## Install\n\n`pip install fuselight`\n\n## Build\n\n`make package`\n"
    assert RELEASE.page("docs/page.md", other) == other


def test_the_notes_are_the_part_of_the_version() -> None:
    changelog = "# Changelog\n\n## Unreleased\n\n- c\n\n## 0.2.0 (2026)\n\n- b\n\n## 0.2.01\n\n- a\n"
    assert RELEASE.notes(changelog) == "- b\n"
    for text in (
        "",
        "# Changelog\n\n## Unreleased\n\n- a\n",  # which `changelog` renames
        "## 0.2.0\n\n## 0.1.0\n- a\n",
        "## 0.2.01\n- a\n",
    ):
        with pytest.raises(Unavailable, match=r"CHANGELOG\.md has nothing under `## 0\.2\.0`"):
            RELEASE.notes(text)


def test_what_is_unreleased_is_of_the_version_unless_it_has_an_entry() -> None:
    unreleased = "# Changelog\n\n## Unreleased\n\n- c\n\n## 0.1.0\n\n- a\n"
    assert RELEASE.notes(RELEASE.changelog(unreleased)) == "- c\n"
    assert "## 0.2.0\n\n- c\n" in RELEASE.page("CHANGELOG.md", unreleased)
    both = unreleased.replace("## 0.1.0", "## 0.2.0 (2026)")
    assert RELEASE.changelog(both) == both
    other = "Rename `## Unreleased`:\n\n## Unreleased changes\n"
    assert RELEASE.changelog(other) == other


def test_the_manifest_and_the_entry_name_the_repository() -> None:
    data = RELEASE.manifest({"name": "fuselight", "version": "0.1.0"})
    assert (data["name"], data["version"]) == ("fuselight", "0.2.0")
    assert data["repository"]["url"] == "https://github.com/OWNER/fuselight.git"
    assert data["bugs"]["url"] == "https://github.com/OWNER/fuselight/issues"
    assert "badges" not in Release.of("https://gitlab.com/a/b", "0.2.0").manifest({})
    entry = RELEASE.server("d" * 200)
    assert (entry["name"], len(entry["description"])) == ("io.github.OWNER/fuselight", 100)
    assert {package["version"] for package in entry["packages"]} == {"0.2.0"}
    listed = RELEASE.server("Shows it on the line: " + "graph breaks, " * 6 + "guards.")["description"]
    assert listed == "Shows it on the line: " + ", ".join(["graph breaks"] * 5)
