"""The wrapper of a graph as a script that runs by itself: it checks what the kernels give, and times them.

Invariant: the script needs torch and the device, and nothing of the user's or of Fuselight. It checks against the
captured graph, run operator by operator with the same random inputs. Where torch wrote a wrapper that lends its inputs
to nobody, the script times the kernels as torch would, and its head says that nothing is checked.
"""

from __future__ import annotations

import re

_MAIN = re.compile(r'\n+if __name__ == "__main__":\n.*\Z', re.DOTALL)
_NEEDS = ("\ndef get_args(", "\ndef benchmark_compiled_module(args")
_CHECK = '''

def check(args):
    """Compare the kernels with the captured graph, run operator by operator. Returns whether they agree."""

    def copies():
        return [one.clone() if isinstance(one, torch.Tensor) else one for one in args]

    agree = True
    with torch.no_grad():
        expected = captured_graph(None, *copies())
        given = call(copies())
    for index, (mine, theirs) in enumerate(zip(given, expected)):
        if not isinstance(mine, torch.Tensor) or not isinstance(theirs, torch.Tensor) or mine.numel() == 0:
            continue
        wide = torch.complex128 if mine.is_complex() else torch.float64
        difference = (mine.to(wide) - theirs.to(wide)).abs().max().item()
        scale = theirs.to(wide).abs().max().item()
        tolerance = 1e-3 if mine.dtype in (torch.float32, torch.float64) else 2e-2
        close = difference <= tolerance * scale + 1e-5  # false for NaN as well
        agree = agree and close
        words = "agrees" if close else "DIFFERS"
        print(f"output {index}: {words}, by {difference:.3g} at most, of values up to {scale:.3g}")
    return agree


if __name__ == "__main__":
    arguments = get_args()
    agreed = check(arguments)
    benchmark_compiled_module(arguments)  # prints seconds for one call
    raise SystemExit(0 if agreed else "the kernels do not give what the captured graph gives")
'''


def checks(wrapper: str, aten: str | None) -> bool:
    """Whether the script of a wrapper can check its kernels."""
    return aten is not None and all(need in wrapper for need in _NEEDS)


def standalone(wrapper: str, aten: str | None) -> str:
    """Make the script of a wrapper's text and of the graph that it is of."""
    if aten is None or not checks(wrapper, aten):
        return wrapper
    graph = aten.strip().replace("def forward(", "def captured_graph(", 1)
    return f"{_MAIN.sub('', wrapper)}\n\n\n{graph}\n{_CHECK}"
