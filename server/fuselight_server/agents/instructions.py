"""The text for the model: when to ask which tool, and how far to trust an answer."""

from __future__ import annotations

INSTRUCTIONS = """\
Fuselight shows what `torch.compile` does to PyTorch code, on the line that causes it.

Use it when you write, edit or review code that `torch.compile` compiles, or when someone asks why compiled code is
slow, recompiles or breaks the graph. Do not guess about graph breaks: ask `check`.

1. `targets` lists what a file compiles and whether its inputs are known. It reads the source and runs nothing.
2. `check` compiles the targets of files and lists the findings: graph breaks, recompilations, failures, each on its
   line. Call it before a change and after it: done means no findings, not that the code looks right.

Trust: `check` times nothing. A finding holds for the inputs that are listed. A missing fact is unknown, not fine.

A target needs example inputs: a program in the workspace that calls it, or a comment above it, as in
`# fuselight: Net()(f32[8, 128])`.

Long work answers with `state: "running"` and a handle: call `result` with it until the state is `done`. If a tool says
that user code may not run, tell the user what it says: do not work around it.
"""
