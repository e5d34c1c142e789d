"""The 30 causes that edits insert or remove, from CURES.md and tests/cases, and edits that cause nothing.

Invariant: `{t}` stands for a tensor of floating-point numbers; each text is valid at any place of a function.
"""

from __future__ import annotations

CAUSES: dict[str, str] = {
    "branch on a sum": "if {t}.sum() > 0:\n    {t} = {t} * 1.5",
    "check for NaN": 'if torch.isnan({t}).any():\n    raise ValueError("not a number")',
    "while on a tensor": "while {t}.abs().max() > 1e30:\n    {t} = {t} / 2",
    "conditional expression": "factor = 1.0 if {t}.mean() > 0 else 2.0",
    ".item()": "scale = {t}.abs().max().item()\n{t} = {t} / (scale + 1.0)",
    "float(tensor)": "{t} = {t} * float({t}.mean())",
    "int(tensor)": "best = int({t}.flatten().argmax())",
    ".tolist()": "values = {t}.flatten()[:4].tolist()",
    "arange of a tensor": "steps = torch.arange({t}.flatten().argmax() % 4 + 1)",
    "slice up to an item": "last = {t}.flatten().argmax().item() % 2 + 1\nhead = {t}[:last]",
    "slice up to a tensor": "head = {t}.flatten()[: {t}.flatten().argmax()]",
    "nonzero": "index = ({t} > 0).nonzero()",
    "where with one argument": "index = torch.where({t} > 0)",
    "select by a mask": "kept = {t}[{t} > 0]",
    "mean of a selection": "average = {t}[{t} > 0].mean()",
    "unique": "levels = torch.unique({t})",
    "assign a selection": "{t} = {t}.clone()\n{t}[{t} > 0] = {t}[{t} > 0] * 2",
    "repeat_interleave": "parts = torch.repeat_interleave({t}.flatten()[:2], torch.tensor([1, 2], device={t}.device))",
    "random.random": "if random.random() < 2:\n    {t} = {t} + 1",
    "NumPy random number": "{t} = {t} + np.random.rand() * 0",
    "print": 'print("shape", {t}.shape)',
    "warnings.warn": 'warnings.warn("here")',
    "logger": 'live_logger.info("here")',
    "clock": "start = time.time()",
    "manual_seed": "torch.manual_seed(0)",
    "disabled helper": "{t} = live_disabled({t})",
    "NumPy function without an equivalent": "other = torch.as_tensor(np.unwrap({t}.detach().numpy()))",
    "nn.Parameter": "bias = nn.Parameter(torch.zeros(1, device={t}.device))",
    "deepcopy": "saved = copy.deepcopy({t})",
    "counter on the module": 'self.live_calls = getattr(self, "live_calls", 0) + 1\n{t} = {t} + self.live_calls',
}
"""By name. Lines of the text are indented as the place requires."""
IN_METHODS = frozenset({"counter on the module"})
"""Those that need `self`."""
CLEAN: dict[str, str] = {
    "where with three arguments": "{t} = torch.where({t} > 0, {t}, {t} * 0.5)",
    "branch on a shape": "if {t}.shape[0] > 1:\n    {t} = {t} * 1.0",
    "int of a size": "rows = int({t}.shape[0])",
    "text of a shape": 'note = f"{{{t}.shape}}"',
    "fill by a mask": "{t} = {t}.clone()\n{t}[{t} > 1e30] = 0",
    "branch never taken": 'if {t}.dim() > 20:\n    print("deep", {t}.sum().item())',
    "arithmetic": "{t} = {t} * 2.0 - {t}",
    "assert on a tensor": "assert {t}.isfinite().any()",
}
"""Edits that resemble the causes and cause nothing."""
