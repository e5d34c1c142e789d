"""The wrapper of a graph as a script that runs by itself: it checks what the kernels give, and times them.

Invariant: the script needs torch and the device, nothing of the user's program and nothing of Fuselight; `--help` needs
neither. It checks against the captured graph, run operator by operator with the same random inputs. The user's own
Triton kernels come from the wrapper, as the graph does not hold them. Where torch's wrapper does not give its inputs to
a caller, the script only times the kernels, and its header says that nothing is checked.
"""

from __future__ import annotations

import re

from fuselight.shared.codec import read_table

_MAIN = re.compile(r'\n+if __name__ == "__main__":\n.*\Z', re.DOTALL)
_NEEDS = ("\ndef get_args(", "\ndef benchmark_compiled_module(args")
_OWN = re.compile(r"torch\.ops\.higher_order\.triton_kernel_wrapper_(mutation|functional)\(")
_ONE_GRID = re.compile(r"grid = \[\([^()]*\)\], tma_descriptor_metadata = \{\},")
"""How a launch is written of a kernel of the user's that has one configuration."""
_HELD = re.compile(r"\bself\.(\w+)")
"""A tensor that the graph holds: the wrapper makes one, too, under the same name."""
_PARTS = {name: "\n".join(lines) for name, lines in read_table(dict[str, tuple[str, ...]], __file__).items()}
"""What is added to a wrapper: `check`, and `own_kernel` where the graph launches kernels of the user's."""
_HELP = '''\
import sys

if __name__ == "__main__" and {{"-h", "--help"}} & set(sys.argv[1:]):
    print("""usage: python {name}

{does}.
Needs torch{device}.""")
    raise SystemExit(0)
'''
"""Before all imports: where torch or the device is missing, the script still says what it needs."""
_ON_GPU = re.compile(r"\bcuda\b")
_DRAWS = re.compile(r"\b(inductor_rand\w*|rand\w*|bernoulli\w*|\w*dropout|multinomial|normal\w*)\.\w+\(")


def checks(wrapper: str, aten: str | None) -> bool:
    """Whether the script of a wrapper can check its kernels."""
    if aten is None or not all(need in wrapper for need in _NEEDS):
        return False
    held = {match[1] for match in _HELD.finditer(aten)}
    if any(re.search(rf"^{name} = |^ +global {name}$", wrapper, re.MULTILINE) is None for name in held):
        return False
    own = list(_OWN.finditer(aten))
    return all(match[1] == "mutation" for match in own) and len(own) == len(_ONE_GRID.findall(aten))


def standalone(wrapper: str, aten: str | None, name: str = "script.py") -> str:
    """Make the script `name` of a wrapper's text and of the graph that it is of."""
    checked = checks(wrapper, aten)
    does = "Checks the kernels against the captured graph, and times them" if checked else "Times the kernels"
    device = " and a GPU with its CUDA or ROCm build" if _ON_GPU.search(wrapper) else ""
    help_ = _HELP.format(name=name, does=does, device=device)
    if aten is None or not checked:
        return f"{help_}\n{wrapper}"
    graph = aten.strip().replace("def forward(", "def captured_graph(", 1)
    body = _MAIN.sub("", wrapper)
    if _OWN.search(graph):
        graph, body = _OWN.sub("own_kernel(", graph), f"{body}\n{_PARTS['own_kernel']}"
    random = f"RANDOM = {_DRAWS.search(graph) is not None}  # whether the graph draws random numbers"
    return f"{help_}\n{body}\n\n\n{random}\n\n\n{graph}\n{_PARTS['check']}"
