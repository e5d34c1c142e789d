"""What an agent does with the README's example: it cures `examples/gpt2_breaks.py` through the tools alone.

Invariant: nothing is written that `verify_patch` has not passed, except the program's own batches, which no target
computes with.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, TypeAlias

from fuselight_server.base.unified_diff import apply_diff

Call: TypeAlias = Callable[[str, dict[str, Any]], Awaitable[dict[str, Any]]]
"""Calls a tool by its name and arguments, and returns the structured answer."""
CHANGE = """\
--- a/gpt2_breaks.py
+++ b/gpt2_breaks.py
@@
         self.norm = nn.LayerNorm(width)
-        self.calls = 0
+        self.register_buffer("calls", torch.zeros(()))
@@
     def forward(self, ids):
-        self.calls += 1
-        warm_up = min(1.0, self.calls / 10)
+        self.calls.add_(1)
+        warm_up = torch.clamp(self.calls / 10, max=1.0)
         positions = torch.arange(ids.shape[1], device=ids.device)
         x = (self.tokens(ids) + self.positions(positions)) * warm_up
-        print("embedded", tuple(x.shape))

         for block in self.blocks:
             x = block(x)

-        largest = x.abs().max().item()
-        if largest > 1000:
-            x = x / largest
+        largest = x.abs().max()
+        x = torch.where(largest > 1000, x / largest, x)
         return self.norm(x) @ self.tokens.weight.T
"""
"""The change that the hints of the findings ask for, as a model writes a diff: without line numbers."""
BATCHES = """\
def batches():
    \"\"\"Batches whose length is dynamic from the first call on.\"\"\"
    for length in (32, 48, 64):
        ids = torch.randint(256, (2, length))
        torch._dynamo.mark_dynamic(ids, 1)
        yield ids


if __name__ == "__main__":
    model = torch.compile(GPT2())
    for ids in batches():
        logits = model(ids)
        print(tuple(logits.shape))
"""


async def finished(call: Call, tool: str, arguments: dict[str, Any]) -> dict[str, Any]:
    """The answer of a tool, polled as an agent polls it."""
    answer = await call(tool, arguments)
    while answer["state"] in {"queued", "running"}:
        answer = await call("result", {"handle": answer["handle"], "wait_seconds": 20})
    return answer


async def cure(call: Call, folder: Path) -> list[list[str]]:
    """Cure the example in a folder; returns the codes of the findings before, after the change, and at the end."""
    path = folder / "gpt2_breaks.py"
    codes = []

    async def check() -> list[dict[str, Any]]:
        answer = await finished(call, "check", {"paths": [path.name]})
        assert answer["problems"] == [], answer
        findings: list[dict[str, Any]] = answer["findings"]
        codes.append([finding["code"] for finding in findings])
        return findings

    first = await check()
    line = next(finding["line"] for finding in first if finding["code"] == "GB0124")
    explained = await finished(call, "explain", {"path": path.name, "line": line})
    assert any("torch.where" in hint for finding in explained["findings"] for hint in finding["hints"])

    change = {"diff": CHANGE, "allow": ["printed_text"], "case_seconds": 0}
    verdict = await finished(call, "verify_patch", change)
    assert verdict["passed"], verdict
    texts = apply_diff(CHANGE, lambda name: path.read_text() if name == path.name else None)
    path.write_text(texts[path.name])

    (left,) = await check()
    explained = await finished(call, "explain", {"path": path.name, "line": left["line"]})
    assert any("mark_dynamic" in hint for hint in explained["findings"][0]["hints"])
    text = re.sub(r"^# fuselight: .*\n", "", path.read_text(), flags=re.MULTILINE)
    path.write_text(text[: text.index('if __name__ == "__main__":')] + BATCHES)
    await check()
    return codes
