"""Fuselight's version, which package.json states, a hash of the source that is running, and the tested torch releases.

Invariant: no second file states any of them. A checkout and the extension read package.json; an installed wheel reads
its metadata.
"""

from __future__ import annotations

import functools
import hashlib
import json
import re
import sys
from pathlib import Path

from fuselight import PACKAGE

OLDEST_TORCH = (2, 6)
"""The oldest release of torch that works at all."""
TESTED_TORCH = ((2, 11), (2, 13), (2, 14), (2, 15))
"""The releases of torch that the tests run on."""
_STABLE = re.compile(r"[\d.]+(?:\.post\d+)?(?:\+.*)?")


def release(version: str) -> tuple[int, ...]:
    """`2.13.0+cpu` as (2, 13); empty if it is no version."""
    match = re.match(r"(\d+)\.(\d+)", version)
    return (int(match[1]), int(match[2])) if match else ()


def list_tested_torch() -> str:
    """`2.11, 2.13, 2.14 and 2.15`."""
    *first, last = (".".join(map(str, pair)) for pair in TESTED_TORCH)
    return f"{', '.join(first)} and {last}"


def untested_torch(version: str) -> str | None:
    """Say that the tests do not run on this torch; None if they do, or if nothing works with it."""
    number = release(version)
    if number < OLDEST_TORCH or (number in TESTED_TORCH and _STABLE.fullmatch(version)):
        return None
    order = "not one of"
    if not min(TESTED_TORCH) <= number <= max(TESTED_TORCH):
        order = "newer than" if number > max(TESTED_TORCH) else "older than"
    return (
        f"torch {version.partition('+')[0]} is {order} the versions Fuselight was tested with ({list_tested_torch()}). "
        "Graphs and kernels may be incomplete."
    )


@functools.cache
def version() -> str:
    """The version, as `0.1.0`; `unknown` where neither the file nor the metadata came along."""
    manifest = Path(PACKAGE).resolve().parents[1] / "package.json"
    try:
        data = json.loads(manifest.read_text(encoding="utf-8"))
        if data.get("name") == "fuselight":
            return str(data["version"])
    except (OSError, ValueError, KeyError, AttributeError):
        pass
    import importlib.metadata  # noqa: PLC0415 - with all of `email`, for a wheel alone

    # Next to the code first: a worker in another Python has the folder of this package, and not that Python's path.
    path = [str(Path(PACKAGE).resolve().parent), *sys.path]
    wheels = (
        wheel
        for name in ("fuselight", "fuselight-runtime")
        for wheel in importlib.metadata.distributions(name=name, path=path)
    )
    return next((wheel.version for wheel in wheels), "unknown")


@functools.cache
def code_key() -> str:
    """A hash of all source code and tables that make reports, as they were at the first call.

    Different source may compute different numbers, even if its version is the same.
    """
    folder = Path(PACKAGE).resolve()
    whole = hashlib.sha256()
    for path in sorted(path for path in folder.rglob("*") if path.suffix in {".py", ".json"}):
        data = path.read_bytes()
        whole.update(f"{path.relative_to(folder).as_posix()}\0{len(data)}\0".encode() + data)
    return whole.hexdigest()[:32]
