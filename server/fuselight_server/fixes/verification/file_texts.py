"""The texts of files that fixes change, and how they are written back.

Invariant: the encoding, the byte order mark, the line ends and the mode of a file stay. A file is replaced as a whole,
and only while it has the bytes that were read. A link out of its project is not followed.
"""

from __future__ import annotations

import io
import os
import stat
import tempfile
import tokenize
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from fuselight.shared.foreign_files import leaves_project, read_regular
from fuselight_server.base.diff_text import TextChange
from fuselight_server.base.files import within


@dataclass(frozen=True)
class FileText:
    """A file as it was read."""

    path: str
    data: bytes
    encoding: str
    text: str

    @classmethod
    def read(cls, path: str) -> FileText:
        """Read a file with the encoding that it declares. Raises OSError, SyntaxError, ValueError, LookupError."""
        data = read_regular(path)
        encoding, _ = tokenize.detect_encoding(io.BytesIO(data).readline)
        return cls(path, data, encoding, data.decode(encoding))

    def encoded(self, text: str) -> bytes:
        """The content of the file with a text. Raises UnicodeEncodeError."""
        return text.encode(self.encoding)

    def changes(self, text: str) -> Iterator[TextChange]:
        """What a new text changes, in the parts that a diff shows."""
        yield TextChange(self.path, self.text, text, self.encoding)

    def obstacle(self, text: str) -> str:
        """Why `text` cannot be written into the file now; empty if it can."""
        try:
            if read_regular(self.path) != self.data:
                return "the file has changed since it was read"
            self.encoded(text)
            mode = Path(self.path).stat().st_mode
        except UnicodeEncodeError:
            return f"the fix needs characters that the file's encoding, {self.encoding}, does not have"
        except OSError as error:
            return f"{type(error).__name__}: {error}"
        folder = Path(self.path).resolve().parent
        if leaves_project(self.path) or self._leaves_working_folder():
            return (
                f"the file is a link to {Path(self.path).resolve()}, outside of its project: name that file"
            )
        if not mode & stat.S_IWUSR or not os.access(self.path, os.W_OK):
            return "the file is read-only"
        return "" if os.access(folder, os.W_OK) else f"the folder {folder} is read-only"

    def _leaves_working_folder(self) -> bool:
        """Whether a link leads out of the working folder, which need not be in a project."""
        working = os.getcwd()  # noqa: PTH109 - as a path that is not resolved
        is_in = within(os.path.abspath(self.path), working)  # noqa: PTH100 - the same
        return is_in and not within(os.path.realpath(self.path), os.path.realpath(working))

    def write(self, text: str) -> None:
        """Replace the file. Raises OSError; the file is then as it was."""
        target = Path(self.path).resolve()
        handle, name = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}", suffix=".new")
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(self.encoded(text))
            Path(name).chmod(stat.S_IMODE(target.stat().st_mode))
            Path(name).replace(target)
        except BaseException:
            Path(name).unlink(missing_ok=True)
            raise
