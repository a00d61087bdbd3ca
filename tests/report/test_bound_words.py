"""How the table of a bound says what a policy did beyond its limits."""

from __future__ import annotations

from types import SimpleNamespace

from fedrt.report import bound as report


def test_limits_that_a_policy_broke_on_any_seed_are_in_words(monkeypatch):
    """Two or three devices over their limits, four rounds over rho on both seeds, and no more."""
    counts = {
        "devices_over_limit": (2, 3),
        "rounds_over_rho": (4, 4),
        "rounds_over_consensus_limit": (0, 0),
        "own_local_steps": (0, 1),
        "edge_rounds_over_distortion_limit": (0, 0),
    }

    def beyond_limits(bound, run):
        return {name: of_seeds[run] for name, of_seeds in counts.items()}

    monkeypatch.setattr(report, "beyond_limits", beyond_limits)
    results = [SimpleNamespace(runs=[seed], bound_of=lambda run: None) for seed in (0, 1)]
    words = "2 to 3 dev over energy limit, 4 rounds over rho, other local steps"
    assert report.breaches(results, 0) == words
    counts.update(dict.fromkeys(counts, (0, 0)))
    assert report.breaches(results, 0) == "-"
