"""`fuselight-tuned.json`: the results of searches, for replay. Standard library only.

Invariant: a damaged file, or one of a newer format, is never overwritten and never half-read: reading it raises
`TunedFileError`, which says what is wrong and what to do. Writing is atomic.
"""

from __future__ import annotations

import json
import os
import re
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from fuselight.codec import DecodeError, decode, encode
from fuselight.report.tuned import TunedResult

NAME = "fuselight-tuned.json"
FORMAT = 1
"""Version of the format. Readers accept files whose number is not larger than theirs."""
_TUNE = "tune again: `fuselight tune PATH`"
_DEEP = "it is nested too deeply"
_HALF = re.compile(r"\\u[dD][89a-fA-F]")
"""What half of a surrogate pair looks like in JSON; two of them can be one character."""


class TunedFileError(Exception):
    """The file cannot be used; the message says why and what to do."""


@dataclass(frozen=True)
class TunedFile:
    """The contents of a tuned file."""

    results: tuple[TunedResult, ...] = ()
    format: int = FORMAT

    def including(self, result: TunedResult) -> TunedFile:
        """Return the contents with `result` in place of an earlier result for the same key, else added."""
        others = tuple(one for one in self.results if key_of(one) != key_of(result))
        return replace(self, results=(*others, result))


def key_of(result: TunedResult) -> tuple[object, ...]:
    """What a result holds for: two results with equal keys exclude each other."""
    graphs = tuple(sorted(graph.key for graph in result.graphs))
    return (
        result.file, result.target, result.work, result.numerics,
        result.device, result.capability, result.torch, result.triton, graphs,
    )  # fmt: skip


def parse(text: str, name: str = NAME) -> TunedFile:
    """Read the text of a tuned file; `name` is for messages. Raises TunedFileError."""
    try:
        data = json.loads(text)
        if _HALF.search(text):
            json.dumps(data, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        raise _damaged(name, "it has half of a surrogate pair, which is no character") from None
    except ValueError as error:
        raise _damaged(name, error) from None
    except RecursionError:
        raise _damaged(name, _DEEP) from None
    version = data.get("format") if isinstance(data, dict) else None
    if not isinstance(version, int):
        raise TunedFileError(f"`{name}` is not a tuned file: it has no `format`. Remove it and {_TUNE}")
    if version > FORMAT:
        raise TunedFileError(
            f"`{name}` was written by a newer version of Fuselight (format {version}). Update Fuselight, or "
            f"remove it and {_TUNE}"
        )
    try:
        return decode(TunedFile, data)
    except DecodeError as error:
        raise _damaged(name, error) from None
    except RecursionError:
        raise _damaged(name, _DEEP) from None


def _damaged(name: str, why: object) -> TunedFileError:
    return TunedFileError(f"`{name}` is damaged: {why}. Restore it, or remove it and {_TUNE}")


def read(path: str | os.PathLike[str]) -> TunedFile | None:
    """Read a tuned file; None if there is none. Raises TunedFileError."""
    try:
        with open(path, encoding="utf-8") as file:
            text = file.read()
    except FileNotFoundError:
        return None
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
        raise TunedFileError(f"`{os.fspath(path)}` cannot be read: {reason}. Remove it and {_TUNE}") from None
    return parse(text, os.fspath(path))


def render(file: TunedFile) -> str:
    """The text of a tuned file."""
    data: dict[str, Any] = {"format": file.format, **encode(file)}
    return json.dumps(data, indent=2, ensure_ascii=False) + "\n"


def keep(path: str | os.PathLike[str], results: Sequence[TunedResult]) -> TunedFile:
    """Add results to the file at `path`, which need not exist.

    Raises TunedFileError if the file there cannot be read or cannot hold the results, and OSError if it cannot be
    written.
    """
    file = read(path) or TunedFile()
    for result in results:
        file = file.including(result)
    data = _bytes(path, file)
    folder = os.path.dirname(os.path.abspath(path))
    handle, temporary = tempfile.mkstemp(prefix=f".{NAME}-", dir=folder)
    try:
        with os.fdopen(handle, "wb") as out:
            out.write(data)
        os.chmod(temporary, 0o644)
        os.replace(temporary, path)
    except BaseException:
        os.unlink(temporary)
        raise
    return file


def _bytes(path: str | os.PathLike[str], file: TunedFile) -> bytes:
    """The contents as they are written. Raises TunedFileError for what a file cannot hold."""
    try:
        return render(file).encode()
    except UnicodeEncodeError as error:
        line = (
            error.object[: error.start].rpartition("\n")[2] + error.object[error.start :].partition("\n")[0]
        )
        shown = ascii(line.strip())[1:-1]
        why = f"a name in it is not UTF-8: `{shown}`. Rename it and tune again"
    except (RecursionError, TypeError, ValueError) as error:
        why = f"{_DEEP if isinstance(error, RecursionError) else error}. Tune again"
    raise TunedFileError(f"`{os.fspath(path)}` cannot hold the result: {why}")
