"""Worlds in the user's notation, and which of their ranks run."""

from __future__ import annotations

import pytest

from fuselight.shared.inputs.grammar import (
    DirectiveError,
    parse_directive,
    split_options,
    world_of_directives,
)
from fuselight.shared.world_plan import WorldError, dimension_of, parse_mesh, ranks_to_run, world_plan


@pytest.mark.parametrize(
    ("ranks", "mesh", "words"),
    [
        (0, None, "`0` ranks: a world has from 1 to 16,384 ranks"),
        (-3, None, "`-3` ranks"),
        (20_000, None, "`20000` ranks"),
        (3, "data=1", "the mesh `data=1` has 1 rank, not `3`"),
        (6, "data=4,model=2", "the mesh `data=4,model=2` has 4 * 2 = 8 ranks, not `6`"),
        (None, "data", "`data` is not NAME=N, such as data=4"),
        (None, "data=0", "`data=0` is not NAME=N"),
        (None, "", "`` is not NAME=N"),
        (None, "a=2,a=4", "two dimensions of one name"),
    ],
)
def test_worlds_that_cannot_be(ranks: int | None, mesh: str | None, words: str) -> None:
    with pytest.raises(WorldError) as error:
        world_plan(ranks, mesh)
    assert words in str(error.value)


def test_a_mesh_has_as_many_ranks_as_its_product() -> None:
    plan = world_plan(None, "data=4, model=2")
    assert plan is not None
    assert plan.size == 8
    assert world_plan(None) is None


@pytest.mark.parametrize(
    ("ranks", "mesh", "most", "expected"),
    [
        (3, None, 8, (0, 1, 2)),
        (64, None, 8, (0, 1, 63)),
        (64, "data=8,model=8", 4, (0, 7, 56, 63)),
        (16, "data=4,model=4", 9, (0, 1, 3, 4, 5, 7, 12, 13, 15)),
        (12, None, 1, (0,)),
        (12, None, 2, (0, 11)),
    ],
)
def test_the_ranks_that_run(ranks: int, mesh: str | None, most: int, expected: tuple[int, ...]) -> None:
    plan = world_plan(ranks, mesh, most)
    assert plan is not None
    assert ranks_to_run(plan) == expected


@pytest.mark.parametrize(
    ("group", "name"),
    [
        ((0, 1), "model"),
        ((2, 3), "model"),
        ((0, 2, 4, 6), "data"),
        ((1, 2), ""),
        ((0, 1, 2, 3), ""),
        ((), ""),
    ],
)
def test_the_dimension_of_a_process_group(group: tuple[int, ...], name: str) -> None:
    assert dimension_of(group, parse_mesh("data=4,model=2")) == name


def test_a_directive_asks_for_ranks() -> None:
    plan = world_of_directives(["Net()(f32[4], train=True)", 'Net()(f32[4], ranks=8, mesh="data=4,model=2")'])
    assert plan is not None
    assert (plan.size, [dimension.name for dimension in plan.mesh]) == (8, ["data", "model"])
    assert world_of_directives(["Net()(f32[4])", "Net()(f32[4], ranks=x)"]) is None


@pytest.mark.parametrize(
    ("text", "at", "words"),
    [
        ("f(f32[4], ranks=0)", "0", "`0` ranks"),
        ("f(f32[4], ranks=True)", "True", "takes a whole number"),
        ('f(f32[4], ranks=4, mesh="a=3")', '"a=3"', "the mesh `a=3` has 3 ranks, not `4`"),
        ("f(f32[4], mesh=2)", "2", "takes a string"),
    ],
)
def test_a_directive_with_a_wrong_world(text: str, at: str, words: str) -> None:
    with pytest.raises(DirectiveError) as error:
        split_options(parse_directive(text))
    assert words in error.value.message
    assert text[error.value.start : error.value.end] == at
