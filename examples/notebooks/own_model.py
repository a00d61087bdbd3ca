"""A model, data and a policy of your own.

From training to a file for other tools, in 50 lines. Nothing needs to be in a module.
"""

import torch
from sklearn.datasets import load_digits
from torch import Tensor, nn

import fedrt
from fedrt.control import allocate
from fedrt.policies import complete_plan, keep_all_links

x, y = load_digits(return_X_y=True)
x = x.astype("float32").reshape(-1, 8, 8, 1) / 16  # images: height, width, channels
data = (x[:1400], y[:1400], x[1400:], y[1400:])


# %%
class Net(nn.Module):
    def __init__(self, shape: tuple[int, ...], classes: int) -> None:
        super().__init__()
        self.conv = nn.Conv2d(shape[0], 16, 3, padding=1)
        self.norm = nn.LayerNorm([16, *shape[1:]])
        self.head = nn.Linear(4 * shape[1] * shape[2], classes)

    def forward(self, x: Tensor) -> Tensor:
        x = torch.relu(self.norm(self.conv(x)))
        return self.head(nn.functional.max_pool2d(x, 2).flatten(1))


class Frugal:
    name, energy_horizon = "frugal", "exact"

    def plan(self, seen: fedrt.Observation, books: fedrt.Books) -> fedrt.Plan:
        allocation = allocate(seen, 0.8 * books.allowance_j("exact"))  # a fifth is left unspent
        return complete_plan(
            seen, books, allocation, links=keep_all_links, allocation_is_optimal=False
        )


# %%
scenario = fedrt.scenario("quickstart", learning={"model": Net, "model_bits": "measured"})
study = fedrt.compare(scenario, policies=["fedrt", Frugal], data=data, rounds=10, keep_models=True)
study.plot("accuracy", against="time").savefig("accuracy.png")
study

# %%
run = study.run("frugal")
saved = torch.load(fedrt.export(run, "frugal.pt"), weights_only=True)
net = Net(saved["shape"], saved["num_classes"])
net.load_state_dict(saved["state_dict"])
accuracy = (net.eval()(run.inputs(data[2])).argmax(1).numpy() == data[3]).mean()
print(f"{accuracy:.4f} of the test samples, {run.outcome['final_accuracy']:.4f} recorded")
