"""The remedies of a finding as advice."""

from __future__ import annotations

import pytest

from fuselight_server.base.remedies import FindingRemedy, RemedyState, advised

REFUSED = FindingRemedy("Pass `n` as a tensor", RemedyState.REFUSED, why="the results differ")
PENDING = FindingRemedy("Pass `n` as a tensor", RemedyState.NOT_TRIED)
STEP, OTHER = FindingRemedy("Call it outside"), FindingRemedy("Or expect one compile")


@pytest.mark.parametrize(
    ("remedies", "expected"),
    [
        ((OTHER,), ["Expect one compile"]),
        ((REFUSED, OTHER), ["Expect one compile"]),
        ((PENDING, OTHER), ["Expect one compile", "1 possible change is not tried yet"]),
        ((STEP, OTHER), ["Call it outside", "Or expect one compile"]),
        ((REFUSED, STEP, OTHER), ["Call it outside", "Or expect one compile"]),
        ((STEP, FindingRemedy("Or pad `x`", about="`x`")), ["Call it outside", "For `x`: Pad `x`"]),
    ],
)
def test_an_alternative_is_named_as_one_only_after_what_it_is_an_alternative_to(
    remedies: tuple[FindingRemedy, ...], expected: list[str]
) -> None:
    assert list(advised(remedies)) == expected
