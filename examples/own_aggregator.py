"""An aggregator of your own: long updates are shortened before they are averaged.

cd examples && fedrt run --set learning.averaging=own_aggregator:ClippedMean
"""

import torch


class ClippedMean:
    """The mean of the updates, none of them longer than `factor` times the median."""

    def __init__(self, factor=1.0):
        self.factor = factor

    def weigh(self, samples):  # what each device counts; without it, its number of samples
        return [1.0] * len(samples)

    def aggregate(self, model, rows, share):  # one accepted model in each row
        updates = rows.double() - model.double()
        norms = updates.norm(dim=1)
        longest = self.factor * norms.median()
        shorten = (longest / norms.clamp(min=1e-30)).clamp(max=1.0)
        counts = torch.as_tensor(share, device=rows.device) * shorten  # shares add up to 1
        return model.double() + (counts[:, None] * updates).sum(0)
