"""What a fix is said to change: a gain where there is one."""

from fuselight_server.explain.findings.common.counts import Counts
from fuselight_server.fixes.verification.attempts import effect


def test_the_effect_of_a_fix_is_the_first_count_that_falls() -> None:
    old = Counts(graphs=2, breaks=4, recompilations=1)
    assert effect(old, Counts(graphs=1, breaks=3, recompilations=0)) == "2 → 1 graphs"
    assert effect(old, Counts(graphs=2, breaks=3, recompilations=0)) == "1 → 0 recompilations"
    assert effect(old, Counts(graphs=3, breaks=3, recompilations=1)) == "4 → 3 breaks"
    assert effect(old, Counts(graphs=3, breaks=4, recompilations=1)) == "2 → 3 graphs"
    assert not effect(old, old)
