"""A policy of your own: energy is for the slowest cluster.

cd examples && fedrt estimate quickstart --policies fedrt,own_policy:HurrySlowest
"""

import numpy as np

from fedrt.control import allocate
from fedrt.cost import price
from fedrt.policies import complete_plan, keep_all_links


class HurrySlowest:
    """The paper's bandwidths; full energy for the slowest cluster, four fifths for all others."""

    name = "hurry-slowest"
    energy_horizon = "exact"  # a budget is spread over the edge rounds that are really left

    def plan(self, seen, books):
        allowance_j = books.allowance_j(self.energy_horizon)  # per device; inf = no limit
        first = complete_plan(
            seen,
            books,
            allocate(seen, allowance_j),
            links=keep_all_links,
            allocation_is_optimal=True,
        )
        ends_s = books.elapsed_s + price(first, seen).edge_time_s  # per cluster
        hurry = seen.edge_of_device == np.argmax(ends_s)
        allocation = allocate(seen, np.where(hurry, allowance_j, 0.8 * allowance_j))
        how = {"links": keep_all_links, "allocation_is_optimal": False}
        return complete_plan(seen, books, allocation, **how)
