"""The words of a guard that failed: what had one value when the code was compiled, and has another now."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from fuselight.shared.report import GuardCause, GuardFailure, SizeChange


def changed(what: str, was: str, now: str, cause: GuardCause) -> GuardFailure:
    """`what` had one value when it was compiled and has another now."""
    cause = GuardCause.NONE if "None" in {was, now} else cause
    return difference(f"{what} was {was}, now {now}", was, now, cause)


def difference(
    text: str, was: str | None = None, now: str | None = None, cause: GuardCause = GuardCause.OTHER
) -> GuardFailure:
    """`text` is whole words; `was` and `now` are those of its first part. Which guard it is, the caller adds."""
    return GuardFailure("", "", "", text, was, now, cause=cause)


def joined(differences: Sequence[GuardFailure], sizes: tuple[SizeChange, ...] = ()) -> GuardFailure:
    """Several differences as one, with the values and the cause of the first."""
    text = "; ".join(difference.difference for difference in differences)
    return replace(differences[0], difference=text, sizes=sizes, count=len(differences))
