"""The graphs of a target as a picture: Report -> boxes and arrows, with nothing of any client in it.

Invariant: a picture holds what the report holds and no more; what follows what is drawn where the report tells it.
"""

from fuselight_server.explain.graphs.folding import MAX, fold
from fuselight_server.explain.graphs.picture import Arrow, ArrowKind, Box, BoxKind, Member, Picture, picture

__all__ = ["MAX", "Arrow", "ArrowKind", "Box", "BoxKind", "Member", "Picture", "fold", "picture"]
