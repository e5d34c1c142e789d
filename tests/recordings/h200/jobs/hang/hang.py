import os, datetime
import torch, torch.distributed as dist
import torch.distributed._functional_collectives as collectives

@torch.compile
def step(x):
    x = torch.relu(x)
    if dist.get_rank() == 0:
        x = collectives.all_reduce(x, "sum", dist.group.WORLD)
    return x * 2

def main():
    dist.init_process_group("nccl", timeout=datetime.timedelta(seconds=15))
    torch.cuda.set_device(dist.get_rank())
    dist.all_reduce(torch.ones(4, device="cuda")); torch.cuda.synchronize()
    step(torch.ones(64, device="cuda"))
    torch.cuda.synchronize()
    dist.barrier()

if __name__ == "__main__":
    main()
