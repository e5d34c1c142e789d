"""A diffusion scheduler looks up the index of a timestep in each step."""
import torch


class Scheduler:
    def __init__(self, steps=6):
        self.timesteps = torch.linspace(999, 0, steps).round()
        self.sigmas = torch.linspace(1, 0, steps + 1)
        self.step_index = None

    def index_for_timestep(self, timestep):
        indices = (self.timesteps == timestep).nonzero()
        # warning: [GB0036] "graph break: the shape of the result of `nonzero` depends on the tensor's data"
        return indices[0].item()  # warning: [GB0124] "graph break: `.item()` converts a tensor to a Python number"

    def step(self, noise, timestep, sample):
        if self.step_index is None:  # warning: [FL201] "recompiled: self.step_index was None, now 1"
            self.step_index = self.index_for_timestep(timestep)
        delta = self.sigmas[self.step_index + 1] - self.sigmas[self.step_index]
        self.step_index += 1
        return sample + delta * noise


if __name__ == "__main__":
    torch.manual_seed(0)
    scheduler = Scheduler()
    step = torch.compile(scheduler.step, backend="eager")
    sample = torch.randn(1, 4, 8, 8)
    for timestep in scheduler.timesteps:
        sample = step(torch.randn_like(sample), timestep, sample)
    print(sample.shape)
# run by: make corpora
