"""The wrapper of a graph as a script that runs by itself: it checks what the kernels give, and times them.

Invariant: the script needs torch and the device, nothing of the user's program and nothing of Fuselight; `--help` needs
neither. It checks against the captured graph, run operator by operator with the same random inputs. The user's own
Triton kernels come from the wrapper, as the graph does not hold them. Where torch's wrapper does not give its inputs to
a caller, the script only times the kernels, and its header says that nothing is checked.
"""

from __future__ import annotations

import re

_MAIN = re.compile(r'\n+if __name__ == "__main__":\n.*\Z', re.DOTALL)
_NEEDS = ("\ndef get_args(", "\ndef benchmark_compiled_module(args")
_OWN = re.compile(r"torch\.ops\.higher_order\.triton_kernel_wrapper_(mutation|functional)\(")
_ONE_GRID = re.compile(r"grid = \[\([^()]*\)\], tma_descriptor_metadata = \{\},")
"""How a launch is written of a kernel of the user's that has one configuration."""
_HELD = re.compile(r"\bself\.(\w+)")
"""A tensor that the graph holds: the wrapper makes one, too, under the same name."""
_OWN_KERNEL = '''

def own_kernel(*, kernel_idx, constant_args_idx, grid, tma_descriptor_metadata, kwargs):
    """Launch the user's Triton kernel as the wrapper does; the graph knows only its number."""
    for kernel in list(globals().values()):
        if getattr(kernel, "custom_kernel", False):
            signature, constants = kernel.triton_meta["signature"], kernel.triton_meta["constants"]
            given = {name: kwargs[name] for name in constants if name in kwargs}
            if set(signature) == set(kwargs) and given == {name: constants[name] for name in given}:
                names = [name for name, kind in signature.items() if kind != "constexpr"]
                stream = torch._C._cuda_getCurrentRawStream(0)
                return kernel.run(*(kwargs[name] for name in names), *grid[0], stream=stream)
    raise RuntimeError(f"no kernel takes {', '.join(kwargs)}")
'''
_CHECK = '''

def check(args):
    """Compare the kernels with the captured graph, run operator by operator. Returns whether they agree."""

    def run(function, seed=0):
        """The results of a function, followed by its inputs, which it may have changed."""
        copies = [one.clone() if isinstance(one, torch.Tensor) else one for one in args]
        torch.manual_seed(seed)
        with torch.no_grad():
            return [*function(list(copies)), *copies]

    expected = run(lambda inputs: captured_graph(sys.modules[__name__], *inputs))
    given = run(call)
    names = [f"output {index}" for index in range(len(given) - len(args))]
    names += [f"input {index}, written in place" for index in range(len(args))]
    before = [None] * (len(given) - len(args)) + list(args)
    others = None
    agree = True
    for index, (name, mine, theirs) in enumerate(zip(names, given, expected)):
        if not isinstance(mine, torch.Tensor) or not isinstance(theirs, torch.Tensor) or mine.numel() == 0:
            continue
        if before[index] is not None and torch.equal(theirs, before[index]):
            continue  # the graph does not change it; kernels may reuse the memory of an input that is dead
        close, words = compared(mine, theirs)
        if not close and RANDOM:
            others = run(call, seed=1) if others is None else others
            if not compared(mine, others[index])[0]:
                print(f"{name}: not compared: it is random, and the kernels draw other numbers")
                continue
        agree = agree and close
        print(f"{name}: {'agrees' if close else 'DIFFERS'}, {words}")
    return agree


def compared(mine, theirs):
    """Whether two tensors agree, and by how much in words. Infinities and NaN must be in the same positions."""
    if mine.shape != theirs.shape:
        return False, f"of shape {tuple(mine.shape)} and not {tuple(theirs.shape)}"
    wide = torch.complex128 if mine.is_complex() else torch.float64
    tolerance = 1e-3 if mine.dtype in (torch.float32, torch.float64) else 2e-2
    mine, theirs = mine.to(wide), theirs.to(wide)
    finite = mine.isfinite() & theirs.isfinite()
    same = bool((finite | (mine == theirs) | (mine.isnan() & theirs.isnan())).all())
    count = int(finite.sum())
    difference = (mine - theirs)[finite].abs().max().item() if count else 0.0
    scale = theirs[finite].abs().max().item() if count else 0.0
    words = f"by {difference:.3g} at most, of values up to {scale:.3g}"
    if count < mine.numel():
        words += f"; {mine.numel() - count} of {mine.numel()} are not finite"
    return same and difference <= tolerance * scale + 1e-5, words


if __name__ == "__main__":
    arguments = get_args()
    agreed = check(arguments)
    benchmark_compiled_module(arguments)  # prints seconds for one call
    raise SystemExit(0 if agreed else "the kernels and the captured graph give different results")
'''
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
        graph, body = _OWN.sub("own_kernel(", graph), f"{body}\n{_OWN_KERNEL}"
    random = f"RANDOM = {_DRAWS.search(graph) is not None}  # whether the graph draws random numbers"
    return f"{help_}\n{body}\n\n\n{random}\n\n\n{graph}\n{_CHECK}"
