"""What identifies a finding by its content, so that it is known again in another run.

Invariant: the number of a line is no part of it: moving a line, or editing another one, changes no fingerprint.
"""

from __future__ import annotations

import hashlib


def fingerprint_of(path: str, code: str, target: str, line: str, subject: str) -> str:
    """32 hex digits. `line` is the text of the finding's line, `subject` what identifies it on the line."""
    parts = (path, code, target, " ".join(line.split()), subject)
    return hashlib.sha256("\0".join(parts).encode("utf-8", "surrogatepass")).hexdigest()[:32]
