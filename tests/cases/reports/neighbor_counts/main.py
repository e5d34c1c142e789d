# isayevlab/aimnetcentral#109: bincount and item() in a model of molecules
import torch
from torch import nn


class Aggregate(nn.Module):
    def __init__(self, dim=8):
        super().__init__()
        self.embed = nn.Embedding(10, dim)
        self.out = nn.Linear(dim, 1)

    def forward(self, numbers, molecule):
        molecules = int(molecule.max().item()) + 1
        # warning: [FL201] "recompiled: molecule.size(0) was 8, now 10"
        # warning: [FL201] "recompiled: the value of `molecule.max().item()` on line 13 was 1, now 2"
        # warning: [GB0124] "graph break: `.item()` converts a tensor to a Python number"
        atoms = torch.bincount(molecule, minlength=molecules)
        # warning: [GB0036] "graph break: the shape of the result of `bincount` depends on the tensor's data"
        x = torch.nn.functional.silu(self.embed(numbers))
        energy = torch.zeros(molecules).index_add(0, molecule, self.out(x).squeeze(-1))
        # warning: [FL201] "recompiled: molecules was 2, now 3"
        return energy / atoms


if __name__ == "__main__":
    torch.manual_seed(0)
    model = torch.compile(Aggregate())
    with torch.no_grad():
        for sizes in ((3, 5), (2, 4, 4), (6, 1, 2, 3)):
            molecule = torch.repeat_interleave(torch.arange(len(sizes)), torch.tensor(sizes))
            print(model(torch.randint(1, 10, molecule.shape), molecule))
# run by: make corpora
