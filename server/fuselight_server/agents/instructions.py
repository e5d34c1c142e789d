"""The text for the model: when to ask which tool, and how far to trust an answer."""

from __future__ import annotations

INSTRUCTIONS = """\
Fuselight shows what `torch.compile` does to PyTorch code, on the line that causes it, and proves changes of the code.

Use it when you write, edit or review code that `torch.compile` compiles, or when someone asks why compiled code is
slow, recompiles, breaks the graph or gives other results. Do not guess about graph breaks: ask `check`.

1. `targets` lists what a file compiles and whether its inputs are known. It reads the source and runs nothing.
2. `check` compiles the targets of files and lists the findings: graph breaks, recompilations, failures, each on its
   line. Call it before a change and after it.
3. `explain` has everything known of a finding: the code around it, the cause, the cost, what to do.
4. `fix_candidates` tries known changes, and gives those that were compiled and compared, as a diff.
5. `verify_patch` compares your own change with the code on disk before you write it: it calls both on the same inputs,
   eager and compiled. Verify every change that you make to compiled code. It writes nothing; you apply the patch.
6. After you have applied a patch, `check` again: done means no findings, not that the code looks right.

`accuracy` compares the results of compiled calls with eager mode, and names the line, the stage and a setting that
cures. `repro` makes a small program and an issue of a fault of the compiler. `forecast` lists changes of inputs that
will compile again. `kernels` shows the GPU kernels of a line with estimated times; no GPU is needed. `memory`
estimates the peak of a call or a training step by line. `benchmark` measures eager against compiled on this machine;
`tune` searches for the fastest configuration and writes `fuselight-tuned.json`. `open_trace` reads logs of a job
(`TORCH_TRACE`), `compare` compares two jobs or two files, `explain_cache_miss` shows why compiles were not read from
the cache.

Trust: times with `~` are estimates, times with `±` were measured here. `check` times nothing. A verdict holds for the
inputs that it lists, and for nothing else. A missing fact is unknown, not fine.

A target needs example inputs: a program in the workspace that calls it, or a comment above it, as in
`# fuselight: Net()(f32[8, 128])`.

Long work answers with `state: "running"` and a handle: call `result` with it until the state is `done`. If a tool says
that user code may not run, tell the user what it says: do not work around it.
"""
