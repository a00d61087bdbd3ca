"""`fedrt bound`: the hindsight bound of a world, and the policies' times beside it.

The bound is over all plans that keep the scenario's local steps, whose links are connected and keep
the consensus limit of the round's distances and the contraction limit rho in every global round,
with no more gossip steps than the scenario has and any symmetric mixing weights, and in which no
device spends more than its energy limit over the whole run. That limit is its budget; a device on
which `fedrt` spends more than its budget (best-effort) may spend as much as it does there.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from functools import partial
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from fedrt.bound.least_contraction import contraction_bounds
from fedrt.bound.link_choices import MOST_SERVERS
from fedrt.bound.whole_run import hindsight_bound
from fedrt.control.coding.menu import menu_of
from fedrt.control.mixing.weights import best_constant_weights, contraction, metropolis_weights
from fedrt.control.topology.consensus import meets_limit
from fedrt.graph import same_parts
from fedrt.ledger import overspend_j
from fedrt.plan import gossip_bits, upload_bits
from fedrt.policies import make_policy
from fedrt.policies.base import MENU, needs_of
from fedrt.records.history import round_row
from fedrt.runs.executor import Recorded
from fedrt.runs.loop import simulate_rounds
from fedrt.runs.reference import LEAST_RHO
from fedrt.runs.rounds import EdgeRound, GlobalRound
from fedrt.scenario import Scenario
from fedrt.studies.estimates import over_seeds
from fedrt.studies.study import Points, digest
from fedrt.world.simulated import SimulatedWorld

FloatArray = NDArray[np.float64]
T = TypeVar("T")

REFERENCE = "fedrt"
"""The policy whose contraction and overspending set the limits by default."""
ROUNDING = 1e-9


@dataclass(frozen=True)
class PolicyRun:
    """The time and energy of a policy's run, and how far it is outside the bound's limits."""

    policy: str
    time_s: float
    spent_j: FloatArray
    contraction: FloatArray
    """zeta^psi of every global round."""
    unlinked_rounds: int
    """Global rounds over the consensus limit."""
    own_steps: bool
    """Whether it changes the local steps or leaves devices out, which the bound's plans do not."""
    own_name: str | None = None
    """The name that the policy gives itself."""
    coded: bool = False
    """Whether the policy chooses codecs: the bound for it is the one over codecs."""
    distorted_rounds: int = 0
    """Edge rounds whose mean distortion is over the limit."""
    work: dict[str, int] = field(default_factory=dict)
    """How often it did less work than the scenario's (`WorkDone`)."""


@dataclass
class WorkDone:
    """How often the plans of a run did other work than the scenario's: all 0 for the same work."""

    left_out: int = 0
    """Devices that were there and did not train, over all edge rounds."""
    other_steps: int = 0
    """Devices that trained another number of local steps, over all edge rounds."""
    fewer_bits: int = 0
    """Uploads and gossips with fewer bits than the scenario's messages have."""
    unconnected: int = 0
    """Global rounds whose links left servers apart that the base graph connects."""

    def add(self, done: GlobalRound, steps: int) -> None:
        """Count what a global round was planned to do; `steps` are the scenario's local steps."""
        for turn in done.edge_rounds:
            trained = turn.plan.trained
            self.left_out += int((~trained).sum())
            self.other_steps += int((turn.plan.local_steps != steps)[trained].sum())
            fewer = upload_bits(turn.plan, turn.seen) < turn.seen.upload_bits
            self.fewer_bits += int(fewer[trained].sum())
        gossip, last = done.last.gossip, done.last
        self.fewer_bits += int(gossip_bits(gossip, last.seen) < last.seen.gossip_bits)
        self.unconnected += int(not same_parts(gossip.links, last.backhaul.base_graph))


@dataclass(frozen=True)
class Bound:
    """The hindsight bound of one world."""

    time_s: float
    rho: FloatArray | None
    """The contraction limit of every global round; None for no limit."""
    rho_asked: FloatArray | None
    """Less than rho where no weights on the base graph reach it."""
    limit_j: FloatArray
    raised_devices: int
    """Devices whose energy limit is what `fedrt` spends."""
    open_rounds: int
    """Global rounds whose least choice of links is not proven to be allowed."""


def run_policy(
    world: SimulatedWorld,
    name: str,
    distances: Sequence[FloatArray],
    progress: Callable[[GlobalRound], None] | None = None,
) -> PolicyRun:
    """A whole run of a policy without training, at the given distances."""
    contractions, unlinked, distorted, work = [], 0, 0, WorkDone()
    done: GlobalRound | None = None
    policy = make_policy(name)
    for done in simulate_rounds(world, policy, Recorded(distances)):
        row = round_row(done, world.scenario.control.mixing)
        contractions.append(float(row["zeta"][0]) ** int(row["gossip_steps"][0]))
        links, backhaul = done.last.gossip.links, done.last.backhaul
        unlinked += not meets_limit(links, backhaul.consensus_distance, backhaul.consensus_limit)
        work.add(done, world.scenario.rounds.local_steps)
        distorted += sum(not _keeps_distortion(turn) for turn in done.edge_rounds)
        if progress is not None:
            progress(done)
    assert done is not None
    ledger = done.last.after
    return PolicyRun(
        name,
        ledger.time_s,
        ledger.spent_j,
        np.array(contractions),
        unlinked,
        work.left_out + work.other_steps > 0,
        policy.name,
        MENU in needs_of(policy),
        distorted,
        asdict(work),
    )


def _keeps_distortion(turn: EdgeRound) -> bool:
    """Whether the mean distortion of an edge round's codecs is within the limit."""
    menu, codec, trained = turn.seen.menu, turn.plan.codec, turn.plan.trained
    if menu is None or codec is None or not trained.any():
        return True
    mean = float(menu.distortion[codec[trained]].mean())
    return mean <= menu.limit * (1 + ROUNDING)


def scenario_limit(scenario: Scenario) -> float | str | None:
    """The contraction limit of a scenario: a number, or `fedrt` for that policy's contraction."""
    given: float | str | None = getattr(scenario.control, "contraction_limit", None)
    return REFERENCE if given is None else given


def hindsight_contraction_limit(
    asked: float | str | None, reference: PolicyRun
) -> FloatArray | None:
    """The rho of every global round: a number, None for no limit, or that of `fedrt`.

    In hindsight: from the whole run of `fedrt` at the distances of the comparison. During a run a
    policy is given the same limits one by one (`runs.reference.contraction_limit`), each from the
    plan of `fedrt` for the coming round.
    """
    if asked is None:
        return None
    if isinstance(asked, str):
        return np.clip(reference.contraction, LEAST_RHO, 1.0)
    return np.full(len(reference.contraction), asked)


def reachable_limit(world: SimulatedWorld, rho: FloatArray | None) -> FloatArray | None:
    """Rho, or the contraction of the base graph with all gossip steps if that is greater."""
    if rho is None or world.fleet.num_edges == 1:
        return rho
    graph = world.base_graph
    zeta = min(contraction(metropolis_weights(graph)), contraction(best_constant_weights(graph)))
    if len(graph) <= MOST_SERVERS:
        zeta = min(zeta, float(contraction_bounds(graph[None])[1][0]))
    least = zeta**world.scenario.rounds.gossip_steps
    return np.where(least <= rho * (1 + ROUNDING), rho, least * (1 + ROUNDING))


def bound_world(
    world: SimulatedWorld,
    distances: Sequence[FloatArray],
    reference: PolicyRun,
    asked: float | str | None = REFERENCE,
    *,
    coded: bool = False,
) -> Bound:
    """The hindsight bound of a world, within the limits of the module docstring.

    `coded`: of plans that also choose the codec of every upload, within the distortion limit.
    """
    budget_j = world.fleet.energy_budget_j
    over = overspend_j(reference.spent_j, budget_j) > 0
    limit_j = np.where(over, reference.spent_j, budget_j)
    wanted = hindsight_contraction_limit(asked, reference)
    rho = reachable_limit(world, wanted)
    menu = menu_of(world.scenario) if coded else None
    time_s, open_rounds = hindsight_bound(world, distances, limit_j, rho, menu)
    return Bound(time_s, rho, wanted, limit_j, int(over.sum()), open_rounds)


def beyond_limits(bound: Bound, run: PolicyRun) -> dict[str, int]:
    """How far a policy's run is outside the bound's limits; all 0 where the bound applies."""
    limit = (
        np.full(len(run.contraction), np.inf) if bound.rho is None else bound.rho * (1 + ROUNDING)
    )
    return {
        "devices_over_limit": int((overspend_j(run.spent_j, bound.limit_j) > 0).sum()),
        "rounds_over_rho": int((run.contraction > limit).sum()),
        "rounds_over_consensus_limit": run.unlinked_rounds,
        "own_local_steps": int(run.own_steps),
        "edge_rounds_over_distortion_limit": run.distorted_rounds,
    }


@dataclass(frozen=True)
class BoundResult:
    """The bound of one seed's world and the run of every policy in it."""

    seed: int
    bound: Bound
    runs: list[PolicyRun]
    coded: Bound | None = None
    """The bound of plans that choose codecs, if one of the policies does."""

    def bound_of(self, run: PolicyRun) -> Bound:
        """The bound on the plans of the policy's kind."""
        return self.coded if run.coded and self.coded is not None else self.bound

    def above(self, run: PolicyRun) -> float:
        """The time of a policy above its bound, as a fraction of the bound."""
        return run.time_s / self.bound_of(run).time_s - 1


def compare_to_bound(
    world: SimulatedWorld,
    distances: Sequence[FloatArray],
    policies: Sequence[str],
    rho: float | str | None = REFERENCE,
    progress: Callable[[GlobalRound], None] | None = None,
    kept: Points | None = None,
) -> BoundResult:
    """The bound of a world and the times of policies in it.

    Every run and the bound go to `kept` as soon as they have ended, and are not made again if they
    are there.
    """
    names = policies if REFERENCE in policies else [*policies, REFERENCE]
    where = {"seed": world.seed, "distances": digest(np.array(distances).tobytes().hex())}
    runs = {}
    for name in names:
        run = partial(run_policy, world, name, distances, progress)
        runs[name] = _once(PolicyRun, kept, where | {"policy": name}, run)
    asked = where | {"bound": rho}
    bound = _once(Bound, kept, asked, lambda: bound_world(world, distances, runs[REFERENCE], rho))
    coded = None
    if any(run.coded for run in runs.values()):
        make = partial(bound_world, world, distances, runs[REFERENCE], rho, coded=True)
        coded = _once(Bound, kept, asked | {"coded": True}, make)
    return BoundResult(world.seed, bound, [runs[name] for name in policies], coded)


def _once(cls: type[T], kept: Points | None, asked: dict[str, Any], make: Callable[[], T]) -> T:
    """The result of `make`, or the one that an earlier attempt has saved.

    Saved arrays are lists.
    """
    if kept is None:
        return make()
    names = cls.__dataclass_fields__.keys()  # type: ignore[attr-defined]

    def plain() -> dict[str, Any]:
        made = vars(make())
        return {k: v.tolist() if isinstance(v, np.ndarray) else v for k, v in made.items()}

    found = kept.once(asked, plain, lambda value: isinstance(value, dict) and value.keys() == names)
    return cls(**{k: np.array(v) if isinstance(v, list) else v for k, v in found.items()})


def _mean(limits: FloatArray | None) -> float | None:
    return None if limits is None else float(np.mean(limits))


def _bound_data(bounds: Sequence[Bound]) -> dict[str, Any]:
    return {
        "time_s": over_seeds([each.time_s for each in bounds]),
        "rho": [_mean(each.rho) for each in bounds],
        "rho_asked": [_mean(each.rho_asked) for each in bounds],
        "raised_devices": [each.raised_devices for each in bounds],
        "open_rounds": [each.open_rounds for each in bounds],
    }


def bound_data(scenario: str, results: Sequence[BoundResult]) -> dict[str, Any]:
    """The results as the JSON that the command prints, with every value for each seed."""
    first = results[0].runs
    coded: list[Any] = [each.coded for each in results]
    return {
        "scenario": scenario,
        "seeds": [each.seed for each in results],
        "bound": _bound_data([each.bound for each in results]),
        **({} if None in coded else {"bound_over_codecs": _bound_data(coded)}),
        "policies": {
            run.policy: {
                **({} if run.own_name is None else {"name": run.own_name}),
                "total_time_s": over_seeds([each.runs[i].time_s for each in results]),
                "above_bound": over_seeds([each.above(each.runs[i]) for each in results]),
                "energy_j_mean": over_seeds(
                    [float(each.runs[i].spent_j.mean()) for each in results]
                ),
                **{
                    name: [
                        beyond_limits(each.bound_of(each.runs[i]), each.runs[i])[name]
                        for each in results
                    ]
                    for name in beyond_limits(results[0].bound, run)
                },
            }
            for i, run in enumerate(first)
        },
    }
