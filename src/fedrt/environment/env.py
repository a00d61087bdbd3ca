"""The Gymnasium environment: one step is an edge round of a run without training."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
from numpy.typing import NDArray

from fedrt.environment.actions import actions_of
from fedrt.environment.views import MOST, size_of, view_of
from fedrt.errors import InputError
from fedrt.graph import links_of
from fedrt.plan import Plan
from fedrt.policies import Policy
from fedrt.rounds import Outcome
from fedrt.runs.episode import Episode
from fedrt.runs.loop import make_world
from fedrt.scenario import load_scenario
from fedrt.scenario.load import Source
from fedrt.validation import shown

KINDS = ("full", "small")
View = NDArray[np.float32]


class HFELEnv(gymnasium.Env[View, NDArray[np.float32]]):
    """Hierarchical federated edge learning under budgets of energy, for agents that learn.

    The reward of a step is minus the seconds by which the slowest cluster's end moves, less
    `overspend_price` for every joule that devices spend beyond their budgets. An episode is a whole
    run; `reset(seed=...)` draws another world of the scenario, without a seed the next one. `info`
    has the seconds, the joules spent and overspent so far.
    """

    metadata = {"render_modes": []}  # noqa: RUF012 - as Gymnasium has it

    def __init__(
        self,
        scenario: Source = "quickstart",
        settings: tuple[str, ...] = (),
        actions: str = "full",
        overspend_price: float = 1.0,
    ) -> None:
        if actions not in KINDS:
            raise InputError(f"actions = {shown(actions)}: must be one of {', '.join(KINDS)}")
        self.scenario, self.kind = load_scenario(scenario, list(settings)), actions
        self.overspend_price = overspend_price
        self._world_seed = -1
        self.episode = self._start(0)
        world = self.episode.world
        links = len(links_of(world.base_graph)[0])
        size = size_of(world.fleet.num_devices, world.fleet.num_edges, links, actions)
        self.observation_space = gymnasium.spaces.Box(-MOST, MOST, (size,), np.float32)
        self.action_space = gymnasium.spaces.Box(-1.0, 1.0, (self._actions.size,), np.float32)

    def _start(self, seed: int) -> Episode:
        world = make_world(self.scenario, seed)
        self.scenario = world.scenario  # measured once
        self._world_seed, self._actions = seed, actions_of(world, self.kind)
        self._over_j = 0.0
        return Episode(world)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[View, dict[str, Any]]:
        """Begin a run in the world of a seed."""
        super().reset(seed=seed)
        self.episode = self._start(self._world_seed + 1 if seed is None else seed)
        return view_of(self.episode, self.kind), self._info()

    def step(self, action: NDArray[np.float32]) -> tuple[View, float, bool, bool, dict[str, Any]]:
        """Carry out the plan of an action."""
        given = np.clip(np.nan_to_num(np.asarray(action, dtype=np.float64)), -1.0, 1.0)
        return self.carry_out(self._actions.plan(self.episode.seen, self.episode.books, given))

    def carry_out(self, plan: Plan) -> tuple[View, float, bool, bool, dict[str, Any]]:
        """A step with a plan of any kind, such as a policy's, in the place of an action."""
        episode = self.episode
        before_s, over_j = episode.time_s, self._over_j
        outcome = episode.step(plan)
        reward = before_s - episode.time_s
        self._over_j = episode.overspent_j
        reward -= self.overspend_price * (self._over_j - over_j)
        view = view_of(episode, self.kind)
        return view, float(reward), episode.ended, False, self._info(outcome)

    def plan_of(self, policy: Policy) -> Plan:
        """What a policy plans for the observed edge round; ask it in every round from the first."""
        return self.episode.plan_of(policy)

    def _info(self, outcome: Outcome | None = None) -> dict[str, Any]:
        ledger = self.episode.ledger
        info = {
            "time_s": self.episode.time_s,
            "energy_j": float(ledger.spent_j.sum()),
            "overspent_j": self._over_j,
            "world_seed": self._world_seed,
        }
        return info if outcome is None else {**info, "edge_time_s": outcome.cost.edge_time_s}
