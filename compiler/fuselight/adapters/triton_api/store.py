"""Caches assembled kernels in memory, and on disk if a folder is given.

Invariant: an entry is either complete or absent. Folder and memory are bounded; the least recently used entries are
removed first. A folder that cannot be read or written adds a warning and never loses the result.
"""

from __future__ import annotations

import contextlib
import json
import os
import zlib
from collections import OrderedDict
from pathlib import Path

from fuselight.shared.codec import DecodeError, decode, encode
from fuselight.shared.foreign_files import read_regular, write_whole
from fuselight.shared.report import Assembled

BYTES_ON_DISK = 64 << 20
ENTRIES_IN_MEMORY = 64
_SUFFIX = ".kernel"
_LARGEST = 64 << 20
"""Bytes of one entry, unpacked."""

_memory: OrderedDict[str, Assembled] = OrderedDict()


def find(key: str, folder: str | None) -> tuple[Assembled | None, str | None]:
    """What lies under `key`, and a sentence where the folder's entry is damaged."""
    if key in _memory:
        with contextlib.suppress(KeyError):  # another thread may have dropped it
            _memory.move_to_end(key)
            return _memory[key], None
    if folder is None:
        return None, None
    path = Path(folder, f"{key}{_SUFFIX}")
    try:
        packed = read_regular(path, _LARGEST, follow_link=False)
    except FileNotFoundError:
        return None, None
    except OSError as error:
        return None, f"the cache in {folder} cannot be read ({error.strerror}): kernels are compiled again"
    try:
        unpacked = zlib.decompressobj().decompress(packed, _LARGEST)
        assembled_kernel = decode(Assembled, json.loads(unpacked))
    except (zlib.error, ValueError, DecodeError, RecursionError):
        with contextlib.suppress(OSError):
            path.unlink()
        return None, f"an entry of the cache in {folder} was damaged: the kernel was compiled again"
    with contextlib.suppress(OSError):
        os.utime(path)
    _remember(key, assembled_kernel)
    return assembled_kernel, None


def keep(key: str, assembled: Assembled, folder: str | None) -> str | None:
    """Put `assembled` under `key`; a sentence where the folder does not take it."""
    _remember(key, assembled)
    if folder is None:
        return None
    data = zlib.compress(json.dumps(encode(assembled)).encode("utf-8", "surrogatepass"), 6)
    path = Path(folder, f"{key}{_SUFFIX}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_whole(path, data)
        _bound(path.parent)
    except OSError as error:
        return f"the cache in {folder} cannot be written ({error.strerror}): kernels are kept until this run ends"
    return None


def _remember(key: str, assembled: Assembled) -> None:
    _memory[key] = assembled
    _memory.move_to_end(key)
    while len(_memory) > ENTRIES_IN_MEMORY:
        _memory.popitem(last=False)


def _bound(folder: Path) -> None:
    entries = []
    for path in folder.glob(f"*{_SUFFIX}"):
        with contextlib.suppress(OSError):  # another process may have dropped it
            facts = path.stat()
            entries.append((facts.st_mtime_ns, facts.st_size, path))
    total = sum(size for _, size, _ in entries)
    for _, size, path in sorted(entries):
        if total <= BYTES_ON_DISK:
            return
        with contextlib.suppress(OSError):
            path.unlink()
        total -= size
