"""`fuselight-tuned.json`: the results of searches, for replay. Standard library only.

Invariant: a damaged file, or one of a newer format, is never overwritten and never half-read: reading it raises
`TunedFileError`, which says what is wrong and what to do. Writing is atomic, and processes that keep results at the
same time lose none: each waits for a lock on the folder, which leaves no file there. Where locks do not work, or
another process holds one for long, a file that has changed since it was read is read again.
"""

from __future__ import annotations

import errno
import json
import os
import re
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from fuselight.shared.codec import DecodeError, decode, encode
from fuselight.shared.folder_lock import locked_folder
from fuselight.shared.foreign_data import NestingError, parse_json
from fuselight.shared.foreign_files import check_folder, read_regular
from fuselight.shared.report.tuned import TunedResult
from fuselight.shared.tuned_rules import refused_values

NAME = "fuselight-tuned.json"
FORMAT = 1
"""Version of the format. Readers accept files whose number is not larger than theirs."""
_TUNE = "tune again: `fuselight tune PATH`"
_MAX_BYTES = 32 * 1024 * 1024
_ATTEMPTS = 5
_DEEP = "it is nested too deeply"
_HALF = re.compile(r"\\u[dD][89a-fA-F]")
"""What half of a surrogate pair looks like in JSON; two of them can be one character."""

ARTIFACT_BYTES = 2**30
"""The largest file of artifacts that is read."""


class TunedFileError(Exception):
    """The file cannot be used; the message says why and what to do."""


@dataclass(frozen=True)
class TunedFile:
    """The contents of a tuned file."""

    results: tuple[TunedResult, ...] = ()
    format: int = FORMAT

    def including(self, result: TunedResult) -> TunedFile:
        """Return the contents with `result` in place of an earlier result for the same key, else added."""
        others = tuple(
            tuned_result for tuned_result in self.results if key_of(tuned_result) != key_of(result)
        )
        return replace(self, results=(*others, result))


def key_of(result: TunedResult) -> tuple[object, ...]:
    """What a result holds for: two results with equal keys exclude each other."""
    graphs = tuple(sorted(graph.key for graph in result.graphs))
    return (
        result.file, result.target, result.work, result.numerics,
        result.device, result.capability, result.torch, result.triton, graphs,
    )  # fmt: skip


def artifacts_name(signature: str | None) -> str:
    """The name of the file with artifacts of this signature (`foreign_files.signature`); empty without one."""
    return f"fuselight-tuned-{signature}.artifacts" if signature else ""


def parse(text: str, name: str = NAME) -> TunedFile:
    """Read the text of a tuned file; `name` is for messages. Raises TunedFileError."""
    try:
        data = parse_json(text)
        if _HALF.search(text):
            json.dumps(data, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        raise _damaged(name, "it has half of a surrogate pair, which is no character") from None
    except NestingError:
        raise _damaged(name, _DEEP) from None
    except ValueError as error:
        raise _damaged(name, error) from None
    version = data.get("format") if isinstance(data, dict) else None
    if not isinstance(version, int):
        raise TunedFileError(f"`{name}` is not a tuned file: it has no `format`. Remove it and {_TUNE}")
    if version > FORMAT:
        raise TunedFileError(
            f"`{name}` was written by a newer version of Fuselight (format {version}). Update Fuselight, or "
            f"remove it and {_TUNE}"
        )
    try:
        file: TunedFile = decode(TunedFile, data)
    except DecodeError as error:
        raise _damaged(name, error) from None
    except RecursionError:
        raise _damaged(name, _DEEP) from None
    _check_values(file, name)
    return file


def _check_values(file: TunedFile, name: str) -> None:
    """Raise TunedFileError where a result has what no search writes: who wrote it may have other intentions."""
    refused = next((text for result in file.results for text in refused_values(result)), None)
    if refused is not None:
        raise TunedFileError(
            f"`{name}` has {refused}, so nothing in it is used. Remove the result that has it, or the file, and {_TUNE}"
        )


def _damaged(name: str, why: object) -> TunedFileError:
    return TunedFileError(f"`{name}` is damaged: {why}. Restore it, or remove it and {_TUNE}")


def read(path: str | os.PathLike[str], *, is_named: bool = False) -> TunedFile | None:
    """Read a tuned file; None if there is none. Raises TunedFileError.

    `is_named`: the user has named this file, so that it may be a link, and another user's.
    """
    text = read_text(path, is_named=is_named)
    return None if text is None else parse(text, os.fspath(path))


def read_text(path: str | os.PathLike[str], *, is_named: bool = False) -> str | None:
    """Read the text of a tuned file; see `read`. Raises TunedFileError."""
    try:
        data = read_regular(path, _MAX_BYTES, follow_link=is_named, is_own=not is_named)
        if not is_named:
            check_folder(os.path.dirname(os.path.abspath(path)))
        return data.decode()
    except FileNotFoundError:
        return None
    except IsADirectoryError:
        raise TunedFileError(
            f"`{os.fspath(path)}` is a folder, and must be a file. Name another one"
        ) from None
    except UnicodeDecodeError:
        raise TunedFileError(
            f"`{os.fspath(path)}` cannot be read: it is not UTF-8. Remove it and {_TUNE}"
        ) from None
    except OSError as error:
        raise TunedFileError(
            f"`{os.fspath(path)}` cannot be read: {error.strerror or error}. {_remedy(error)}"
        ) from None


def _remedy(error: OSError) -> str:
    """What to do about a file that cannot be read."""
    if error.errno == errno.EPERM:
        return "If you trust it, name it: the option `file` of the backend, or the variable FUSELIGHT_TUNED"
    return (
        f"Remove it and {_TUNE}"
        if error.errno in {errno.ELOOP, errno.EINVAL, errno.EFBIG}
        else "Make it readable"
    )


def render(file: TunedFile) -> str:
    """The text of a tuned file."""
    data: dict[str, Any] = {"format": file.format, **encode(file)}
    return json.dumps(data, indent=2, ensure_ascii=False) + "\n"


def keep(path: str | os.PathLike[str], results: Sequence[TunedResult]) -> TunedFile:
    """Add results to the file at `path`, which need not exist.

    Raises TunedFileError if the file there cannot be read or cannot hold the results, and OSError if it cannot be
    written.
    """
    folder = os.path.dirname(os.path.abspath(path))
    file = TunedFile()
    if (refused := next((text for result in results for text in refused_values(result)), None)) is not None:
        raise TunedFileError(f"`{os.fspath(path)}` cannot hold the result: it has {refused}")
    with locked_folder(folder):
        for attempt in range(_ATTEMPTS):
            state = _state(path)
            file = read(path) or TunedFile()
            for result in results:
                file = file.including(result)
            is_last = attempt == _ATTEMPTS - 1
            if _replace(path, folder, _bytes(path, file), None if is_last else state):
                break
    return file


def _replace(path: str | os.PathLike[str], folder: str, data: bytes, state: tuple[int, ...] | None) -> bool:
    """Put a file with `data` in place of the one at `path`; whether it was done: not if that has not this state."""
    handle, temporary = tempfile.mkstemp(prefix=f".{NAME}-", dir=folder)
    try:
        with os.fdopen(handle, "wb") as out:
            out.write(data)
        os.chmod(temporary, 0o644)
        if state is None or state == _state(path):
            os.replace(temporary, path)
            return True
    except BaseException:
        os.unlink(temporary)
        raise
    os.unlink(temporary)
    return False


def _state(path: str | os.PathLike[str]) -> tuple[int, ...]:
    """What differs if another process has replaced a file; empty if there is none."""
    try:
        stat = os.stat(path)
    except OSError:
        return ()
    return (stat.st_ino, stat.st_mtime_ns, stat.st_size)


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
