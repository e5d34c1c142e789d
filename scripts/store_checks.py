"""What the Marketplace and Open VSX ask of a package, and what they cannot see: native code for another platform."""

from __future__ import annotations

import re
import struct
import zipfile
from typing import TYPE_CHECKING
from xml.etree import ElementTree as ET

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

MAX_BYTES = 100_000_000
"""Of a package: far below the limits of both stores, and far above ours."""
_BADGES = ("https://github.com/", "https://img.shields.io/")
"""Hosts from which the Marketplace shows SVG."""
_ICON = 128
_NAMESPACE = {"m": "http://schemas.microsoft.com/developer/vsx-schema/2011"}
_PICTURE = re.compile(r"!\[[^\]]*\]\(<?([^)>\s]*)|<img[^>]*\ssrc=[\"']([^\"']*)")
_LINK = re.compile(r"(?<!!)\[[^\]]*\]\(<?([^)>\s]*)")
_FENCE = re.compile(r"^\s*(`{3,}|~{3,}).*?^\s*\1", re.MULTILINE | re.DOTALL)
_MACHINES = {
    "linux-x64": ("ELF", 0x3E),
    "linux-arm64": ("ELF", 0xB7),
    "alpine-x64": ("ELF", 0x3E),
    "darwin-x64": ("Mach-O", 0x01000007),
    "darwin-arm64": ("Mach-O", 0x0100000C),
    "win32-x64": ("PE", 0x8664),
}
"""Format and processor of native code, as its header names them."""


def problems_of(path: Path, target: str, version: str, *, is_preview: bool) -> list[str]:
    """What is wrong with a package, one line each."""
    with zipfile.ZipFile(path) as packed:
        return [
            *_size_problems(path),
            *_manifest_problems(packed, target, version, is_preview=is_preview),
            *_page_problems(packed),
            *_native_problems(packed, target),
        ]


def _size_problems(path: Path) -> Iterator[str]:
    size = path.stat().st_size
    if size > MAX_BYTES:
        yield f"it has {size:,} bytes: see what was packed with it"


def _manifest_problems(
    packed: zipfile.ZipFile, target: str, version: str, *, is_preview: bool
) -> Iterator[str]:
    root = ET.fromstring(packed.read("extension.vsixmanifest"))  # noqa: S314 - vsce has just written it
    identity = root.find(".//m:Identity", _NAMESPACE)
    facts = dict(identity.attrib) if identity is not None else {}
    properties = {
        entry.get("Id", ""): entry.get("Value", "") for entry in root.iterfind(".//m:Property", _NAMESPACE)
    }
    if facts.get("Version") != version:
        yield f"its version is {facts.get('Version')}, not {version}"
    if facts.get("TargetPlatform") != target:
        yield f"it is for {facts.get('TargetPlatform')}, not for {target}"
    if (properties.get("Microsoft.VisualStudio.Code.PreRelease") == "true") != is_preview:
        yield "its second number says whether it is a pre-release, and its manifest says the other"
    for name in ("Source", "Support", "Learn"):
        if not properties.get(f"Microsoft.VisualStudio.Services.Links.{name}", "").startswith("https://"):
            yield f"the store's page has no link `{name}`"
    assets = {
        entry.get("Type", ""): entry.get("Path", "") for entry in root.iterfind(".//m:Asset", _NAMESPACE)
    }
    for name in ("Content.Details", "Content.Changelog", "Content.License", "Icons.Default"):
        if assets.get(f"Microsoft.VisualStudio.Services.{name}") not in packed.namelist():
            yield f"the store's page has no {name.partition('.')[2].lower()}"
    icon = assets.get("Microsoft.VisualStudio.Services.Icons.Default", "")
    if icon in packed.namelist() and min(_png_size(packed.read(icon))) < _ICON:
        yield f"its icon is smaller than {_ICON} pixels, or no PNG"


def _png_size(data: bytes) -> tuple[int, int]:
    return struct.unpack(">II", data[16:24]) if data.startswith(b"\x89PNG") else (0, 0)


def _page_problems(packed: zipfile.ZipFile) -> Iterator[str]:
    """Pages of the stores show pictures by https alone, no SVG but badges, and no relative links."""
    for name in packed.namelist():
        if name.lower() in {"extension/readme.md", "extension/changelog.md"}:
            page = name.rpartition("/")[2]
            text = _FENCE.sub("", packed.read(name).decode())
            for match in _PICTURE.finditer(text):
                address = match[1] or match[2]
                if not address.startswith("https://"):
                    yield f"{page} shows `{address}`, which is no https address"
                elif ".svg" in address and not address.startswith(_BADGES):
                    yield f"{page} shows `{address}`: the store shows no SVG"
            for match in _LINK.finditer(text):
                if not match[1].startswith(("https://", "http://", "mailto:", "#", "command:")):
                    yield f"{page} links to `{match[1]}`, which only a checkout has"


def _native_problems(packed: zipfile.ZipFile, target: str) -> Iterator[str]:
    """The libraries of the package are for its platform, and none is missing."""
    wanted = _MACHINES[target]
    modules = 0
    for name in packed.namelist():
        if name.endswith((".so", ".pyd", ".dylib", ".exe", "/bin/py-spy")):
            modules += 1
            with packed.open(name) as file:
                machines = _machines(file.read(4096))
            if wanted not in machines:
                yield f"{name} is for {machines or 'no platform that is known'}, not for {target}"
    if modules == 0:
        yield "it has no native code: the libraries of the server are missing"


def _machines(head: bytes) -> tuple[tuple[str, int], ...]:
    """Format and processors of a native file, by its first bytes."""
    if head.startswith(b"\x7fELF"):
        return (("ELF", struct.unpack_from("<H", head, 18)[0]),)
    if head.startswith(b"\xcf\xfa\xed\xfe"):
        return (("Mach-O", struct.unpack_from("<I", head, 4)[0]),)
    if head.startswith(b"\xca\xfe\xba\xbe"):  # several processors in one file
        count = struct.unpack_from(">I", head, 4)[0]
        return tuple(("Mach-O", struct.unpack_from(">I", head, 8 + 20 * index)[0]) for index in range(count))
    if head.startswith(b"MZ"):
        start = struct.unpack_from("<I", head, 0x3C)[0]
        return (("PE", struct.unpack_from("<H", head, start + 4)[0]),)
    return ()
