"""What to do first about the graph breaks that people meet most, by GB id, in plain words.

Torch's own hints come after it: they name settings and internals. Invariant: a step names code that a user can write,
and keeps the meaning of the program; where only torch knows what helps there is none.
"""

from __future__ import annotations

_OUTSIDE = "outside of what is compiled"
_BRANCH = (
    f"Compute both sides and choose with torch.where (or torch.cond), or take the decision {_OUTSIDE}, "
    "on a Python value that you pass in"
)
_MASK = "Keep the shape fixed: use a mask or torch.where(condition, x, y) instead of picking out what matches"
_NUMBER = (
    "Keep the value a tensor (torch.where, torch.clamp and arithmetic take it as it is), and turn it into a "
    f"Python number {_OUTSIDE}"
)
_CALL = "Do without this call in what is compiled: move it before or after, or {}"
_IN_TORCH = "write it with torch operators"
_DISABLED = "Remove torch.compiler.disable if the function can be traced; else call it before or after what is compiled"
_NEW_TENSOR = "Make a new tensor of the shape that is wanted instead of changing this one"

_STEPS: dict[str, str] = {
    "GB0007": _CALL.format(_IN_TORCH),
    "GB0008": _CALL.format(_IN_TORCH),
    "GB0009": _CALL.format(_IN_TORCH),
    "GB0033": _NUMBER,
    "GB0034": f"Check it {_OUTSIDE}, or remove the assert",
    "GB0035": _BRANCH,
    "GB0036": _MASK,
    "GB0037": _MASK,
    "GB0038": "Slice with a Python int, or pick by an index tensor (torch.index_select, torch.gather)",
    "GB0056": f"Change the tensor in place instead (`x.copy_(y)` under torch.no_grad()), or do it {_OUTSIDE}",
    "GB0059": f"Move this call {_OUTSIDE}, or remove it",
    "GB0066": f"Move the line that breaks, or the whole `with` block, {_OUTSIDE}",
    "GB0090": "Say what shape and type the operator gives: @torch.library.register_fake on a function of its inputs",
    "GB0098": _DISABLED,
    "GB0099": _DISABLED,
    "GB0105": f"Work on the tensor with torch operators, and call .numpy() {_OUTSIDE}",
    "GB0107": "Use torch.randint, which can be traced",
    "GB0108": f"Call retain_grad() {_OUTSIDE}",
    "GB0123": f"Compile the forward pass and the loss, and call .backward() {_OUTSIDE}",
    "GB0124": _NUMBER,
    "GB0125": f"Call requires_grad_() {_OUTSIDE}",
    "GB0126": _NEW_TENSOR,
    "GB0127": _NEW_TENSOR,
    "GB0128": _NEW_TENSOR,
    "GB0142": f"Enter the context manager {_OUTSIDE}, around the call",
    "GB0147": _CALL.format(_IN_TORCH),
    "GB0170": _BRANCH,
    "GB0179": "Copy the object before the call; .clone() copies a tensor",
    "GB0206": f"Set requires_grad {_OUTSIDE}",
    "GB0225": f"Make the tensor {_OUTSIDE}, and pass it in",
    "GB0242": "Do without out=, and use the tensor that the call returns",
    "GB0247": "Do without out=, and use the tensor that the call returns",
    "GB0264": "Make the parameter in __init__",
    "GB0291": f"Log {_OUTSIDE}",
    "GB0294": "Use torch's function of the same meaning instead of NumPy's",
    "GB0569": f"Print or format the tensor {_OUTSIDE}",
    "GB4198": "Use .clone(), which can be traced",
    "GB7000": "Move the line that breaks out of the loop: a break inside it leaves the whole function to eager",
}


def first_step(gb_id: str | None) -> tuple[str, ...]:
    """The step for an id, alone in a tuple; none for an id that has none."""
    step = _STEPS.get(gb_id or "")
    return (step,) if step else ()
