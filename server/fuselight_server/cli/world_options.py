"""The options of a check of many ranks, and what they say to a use case."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from fuselight_server.base.command_error import CommandError
from fuselight_server.cli.options import at_least

if TYPE_CHECKING:
    from fuselight.shared.report import WorldPlan
    from fuselight_server.explain.ranks.link import RankLink


def add_world_options(parser: argparse.ArgumentParser) -> None:
    """Declare them."""
    parser.add_argument(
        "--ranks",
        metavar="N",
        type=int,
        help="run each target as a rank of N, without a network or a GPU (docs/ranks.md)",
    )
    parser.add_argument("--mesh", metavar="NAME=N,...", help="mesh that the ranks form, as data=4,model=2")
    parser.add_argument(
        "--most-ranks",
        metavar="N",
        type=at_least(1),
        default=8,
        help="ranks to run at most: the first, the second and the last of each dimension of the mesh"
        " (default: %(default)s)",
    )
    parser.add_argument(
        "--link",
        metavar="RATE",
        default="400GB/s",
        help="bandwidth of the link between two ranks, for estimated times, with its latency after a comma:"
        " 400GB/s,10us (default: %(default)s)",
    )


def world_option(options: argparse.Namespace) -> WorldPlan | None:
    """The world that the options ask for. Raises CommandError."""
    from fuselight.shared.world_plan import WorldError, world_plan  # noqa: PLC0415 - not for --help

    link_option(options)
    try:
        return world_plan(options.ranks, options.mesh, options.most_ranks)
    except WorldError as error:
        raise CommandError(str(error)) from None


def link_option(options: argparse.Namespace) -> RankLink:
    """The link between two ranks. Raises CommandError."""
    from fuselight_server.explain.ranks.link import LinkError, parse_link  # noqa: PLC0415 - not for --help

    try:
        return parse_link(options.link)
    except LinkError as error:
        raise CommandError(str(error)) from None
