"""What identifies things by their content, so that they are known again in another run.

Invariant: the number of a line is no part of a finding's fingerprint: moving a line, or editing another one, changes
none.
"""

from __future__ import annotations

import hashlib


def fingerprint_of(path: str, code: str, target: str, line: str, subject: str) -> str:
    """32 hex digits. `line` is the text of the finding's line, `subject` what identifies it on the line."""
    parts = (path, code, target, " ".join(line.split()), subject)
    return hashlib.sha256("\0".join(parts).encode("utf-8", "surrogatepass")).hexdigest()[:32]


def key_of(*parts: str) -> str:
    """24 hex digits for texts that may contain anything: where one ends and the next starts counts, too."""
    whole = hashlib.sha256()
    for part in parts:
        data = part.encode("utf-8", "surrogatepass")
        whole.update(f"{len(data)}:".encode() + data)
    return whole.hexdigest()[:24]
