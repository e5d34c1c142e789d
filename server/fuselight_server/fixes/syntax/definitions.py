"""Definitions at top level of the finding's file, in whichever chunk they are.

Invariant: a name that is defined twice has no definition here.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

import libcst as cst

from fuselight_server.base.finding import Span
from fuselight_server.fixes.syntax.site import Site


def definition_of(site: Site, name: str) -> tuple[Site, cst.FunctionDef | cst.ClassDef] | None:
    """The one function or class of the file with a name at top level, in its chunk."""
    lines = [
        chunk.line + definition.def_row
        for chunk in site.chunks
        for definition in chunk.facts.definitions
        if definition.name == name and definition.scope == ()
    ]
    there = _at_line(site, lines[0]) if len(lines) == 1 else None
    for node in there.module.body if there is not None else ():
        if isinstance(node, (cst.FunctionDef, cst.ClassDef)) and node.name.value == name:
            return (there, node) if there is not None else None
    return None


def class_of(site: Site, name: str) -> tuple[Site, cst.ClassDef] | None:
    """The one class of the file with a name at top level, in its chunk."""
    known = definition_of(site, name)
    return (known[0], known[1]) if known is not None and isinstance(known[1], cst.ClassDef) else None


def method_of(owner: cst.ClassDef, name: str) -> cst.FunctionDef | None:
    """A method that a class itself defines."""
    methods = (node for node in owner.body.body if isinstance(node, cst.FunctionDef))
    return next((method for method in methods if method.name.value == name), None)


def sites_naming(site: Site, name: str) -> Iterator[Site]:
    """Yield each chunk of the file whose text has a name."""
    for chunk in site.chunks:
        there = _at_line(site, chunk.line) if name.encode() in chunk.data else None
        if there is not None:
            yield there


def _at_line(site: Site, line: int) -> Site | None:
    """The chunk of a line, with the same report."""
    span = Span(site.finding.span.path, line)
    return Site.of(dataclasses.replace(site.finding, span=span), site.report, site.text)
