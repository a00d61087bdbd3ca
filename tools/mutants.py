"""Changes the source in one place at a time and sees whether a test notices.

    python tools/mutants.py --count 200 --seed 0 --jobs 2 --out benchmarks/results/mutants.json
    python tools/mutants.py --all
    python tools/mutants.py --files src/fedrt/ledger.py --all
    python tools/mutants.py --folders bench testbed --tests tests/bench tests/testbed --count 40
    python tools/mutants.py --short

The sample has mutants of every folder of `src/fedrt` and is keyed by the seed and by each mutant's
own text: a change elsewhere moves the last place of a folder at most.
Every mutant is shown to the tests that enter its function, the quickest first, in a copy of the
tree, so that neither the tree nor caches are ever left mutated. A mutant that survives either
shows a hole in the tests, or is equivalent: then `tests/mutants_equivalent.json` says why.

Ends with 0 if at least 95 % were killed, every survivor is known to be equivalent, and none that is
known to be equivalent was killed: where everything dies the tests do not run.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from mutation.crew import Crew
from mutation.operators import Mutant, compiles, mutants_of, siblings_of
from mutation.workshop import Verdict

Found = list[tuple[Mutant, Verdict]]
ROOT = Path(__file__).resolve().parents[1]
EQUIVALENT = ROOT / "tests" / "mutants_equivalent.json"
SHORT = ROOT / "tests" / "mutants_short.json"
LEAST_KILLED = 0.95
FEW = 20
"""Below this many the share says nothing."""
SPEED_ALONE = ("learning/stacked/tuning.py", "learning/stacked/compiled.py", "learning/board.py")
"""Files that decide how quickly something is computed and never what: not in the sample."""
DOWNLOADS = ("data/hub.py", "data/originals.py")
"""Files that bring data sets here: their tests are of files and sockets."""
GENERATED = ("devices/wire/messages_pb2.py",)
"""Files written by the compiler of the protocol."""
IN_FLOWER = ("flower/client.py", "flower/server.py")
"""Files that only `make test-flower` runs, with Flower beside the environment."""
NOT_DRAWN = (*SPEED_ALONE, *DOWNLOADS, *GENERATED, *IN_FLOWER)
SEARCH_PATHS = {
    "bound/kernel.py": None,
    "bound/search.py": ("share_to_end_at", "price_seconds"),
    "bound/joule_prices.py": ("JoulePrices.multiply", "JoulePrices.start", "CodingSteps.factor"),
    "bound/duality.py": ("DualPrices.even",),
    "control/allocation/priced.py": ("PricedFleet._first_nu",),
}
"""How the search for the bound's prices walks, and where a search starts: any prices give a bound
that holds (`certified_s` says which). A change there moves speed and, a little, how tight the bound
is: not drawn."""
CHOICES_OF_SPEED = {
    "learning/setup.py": ("", "find_tuning"),
    "learning/stacked/kernels/rows.py": ("",),
    "learning/stacked/kernels/register_tiles.py": ("",),
    "learning/stacked/tuning_cache.py": None,
}
"""Functions that choose among ways to the same numbers; empty: the module's own lines."""
OF_THE_MACHINE = (
    *("tests/testbed/test_run.py", "tests/testbed/test_boards.py", "tests/testbed/test_network.py"),
    *("tests/testbed/test_unenforced.py", "tests/devices/actuators/test_kills.py"),
    *("tests/devices/actuators/test_tc.py", "tests/devices/actuators/test_machine.py"),
)
"""Tests that change this machine's network and control groups: no mutant is to do that."""
OF_MODULES = (
    *("tests/test_ledger.py", "tests/test_decision.py", "tests/test_decision_gossip.py"),
    *("tests/test_messages.py", "tests/test_seeding.py"),
)
SHOWN = tuple(
    str(path.relative_to(ROOT))
    for folder in sorted((ROOT / "src" / "fedrt").iterdir())
    for path in sorted((ROOT / "tests" / folder.name).rglob("test_*.py"))
)
TESTS = tuple(test for test in (*SHOWN, *OF_MODULES) if test not in OF_THE_MACHINE)
"""The tests of the folders of `src/fedrt` and of the modules beside them."""
SHORT_TESTS = (
    "tests/control/topology/test_consensus.py",
    "tests/control/mixing/test_weights.py",
    "tests/cost/test_outcome.py",
    "tests/policies/test_base.py",
    "tests/test_ledger.py",
)
ONE_IN = {"arguments swapped": 4}
"""Kinds that are thinned: most of them end in an exception at once."""


def find_mutants(files: Sequence[str]) -> list[Mutant]:
    """All mutants of the files, or of all that are drawn from."""
    source = ROOT / "src" / "fedrt"
    paths = [ROOT / file for file in files]
    if not paths:
        left_out = {source / name for name in NOT_DRAWN}
        paths = [path for path in sorted(source.rglob("*.py")) if path not in left_out]
    siblings = siblings_of([path.read_bytes() for path in sorted(source.rglob("*.py"))])
    found = []
    for path in paths:
        name = str(path.relative_to(source))
        skipped = () if files else (SEARCH_PATHS | CHOICES_OF_SPEED).get(name, ())
        if skipped is not None:
            mutants = mutants_of(str(path.relative_to(ROOT)), path.read_bytes(), siblings)
            found += [mutant for mutant in mutants if mutant.function not in skipped]
    return found


def folder_of(mutant: Mutant) -> str:
    """The folder of `src/fedrt` that a mutant is in; empty for the modules beside the folders."""
    parts = Path(mutant.file).parts
    return parts[2] if len(parts) > 3 else ""


def draw(mutants: Sequence[Mutant], count: int | None, seed: int) -> list[Mutant]:
    """A sample of so many, or all, in an order of its own.

    Places go to the folders as seats go to parties (Sainte-Lague), with the square root of a
    folder's number of mutants as its votes: each folder has its share, and a large one not all.
    """

    def luck(mutant: Mutant) -> float:
        text = f"{seed} {mutant.key}"
        drawn = int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest()) / 2**64
        return drawn if count is None else drawn * ONE_IN.get(mutant.kind, 1)

    by_folder: dict[str, list[Mutant]] = {}
    for mutant in sorted(mutants, key=luck):
        by_folder.setdefault(folder_of(mutant), []).append(mutant)
    places = [
        ((place + 0.5) / len(members) ** 0.5, folder, place)
        for folder, members in by_folder.items()
        for place in range(len(members))
    ]
    chosen: list[Mutant] = []
    for _, folder, place in sorted(places):
        if count is not None and len(chosen) == count:
            break
        mutant = by_folder[folder][place]
        if compiles(mutant.apply((ROOT / mutant.file).read_bytes())):
            chosen.append(mutant)
    return chosen


def named(mutants: list[Mutant], path: Path) -> list[Mutant]:
    """Those that a file lists by key."""
    by_key = {mutant.key: mutant for mutant in mutants}
    keys = json.loads(path.read_text())
    gone = [key for key in keys if key not in by_key]
    if gone:
        raise SystemExit("\n".join(f"{path}: no such mutant any more: {key}" for key in gone))
    return [by_key[key] for key in keys]


def campaign(crew: Crew, mutants: list[Mutant], most_s: float) -> Iterator[Found]:
    """The verdicts on the mutants so far, in the order of the mutants, as each comes; printed."""
    found: dict[int, tuple[Mutant, Verdict]] = {}
    for i, verdict in crew.test(mutants, most_s):
        mutant = mutants[i]
        found[i] = (mutant, verdict)
        place = f"{mutant.file}:{mutant.line}"
        change = f"{mutant.before!r} -> {mutant.after!r}"
        count = f"{len(found)}/{len(mutants)}"
        print(f"{count} {verdict.outcome:9} {verdict.wall_s:6.1f} s  {place}  {change}", flush=True)
        yield [found[i] for i in sorted(found)]


def summarise(found: Found, known: dict[str, str]) -> dict[str, Any]:
    """Counts, and the survivors with what is known of them."""
    alive = [(m, v) for m, v in found if v.outcome in ("survived", "unreached")]
    dead = [m.key for m, v in found if v.outcome not in ("survived", "unreached")]
    rows = [
        asdict(mutant) | {"outcome": verdict.outcome, "equivalent": known.get(mutant.key)}
        for mutant, verdict in alive
    ]
    return {
        "mutants": len(found),
        "killed": len(found) - len(alive),
        "killed_share": round(1 - len(alive) / len(found), 4) if found else 1.0,
        "by_folder": folder_counts(found),
        "equivalent": sum(row["equivalent"] is not None for row in rows),
        "holes": sum(row["equivalent"] is None for row in rows),
        "killed_though_known_as_equivalent": [key for key in dead if key in known],
        "survivors": rows,
        "verdicts": {
            f"{mutant.file}:{mutant.line}: {mutant.before} -> {mutant.after}": verdict.outcome
            + (f" by {verdict.by}" if verdict.by else "")
            for mutant, verdict in found
        },
    }


def folder_counts(verdicts: Found) -> dict[str, dict[str, int]]:
    """For each folder, how many of its mutants were tested and how many of them killed."""
    counts: dict[str, dict[str, int]] = {}
    for mutant, verdict in verdicts:
        row = counts.setdefault(folder_of(mutant) or "modules", {"mutants": 0, "killed": 0})
        row["mutants"] += 1
        row["killed"] += verdict.outcome not in ("survived", "unreached")
    return dict(sorted(counts.items()))


def parse() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--count", type=int, default=200, help="how many mutants are drawn")
    parser.add_argument("--seed", type=int, default=0, help="of the draw")
    parser.add_argument("--all", action="store_true", help="every mutant there is (hours)")
    parser.add_argument("--short", action="store_true", help="the few that CI shows to a few tests")
    parser.add_argument("--files", nargs="+", default=[], help="of these source files alone")
    parser.add_argument("--folders", nargs="+", default=[], help="of these folders of src/fedrt")
    parser.add_argument("--tests", nargs="+", default=TESTS, help="the tests to show them to")
    parser.add_argument(
        "--most-s", type=float, default=25.0, help="CPU seconds of tests that a mutant is shown to"
    )
    parser.add_argument("--jobs", type=int, default=1, help="how many are tested at once")
    parser.add_argument("--list", action="store_true", help="only print the drawn mutants")
    parser.add_argument("--keep", type=Path, help="folder in which copies and recording stay")
    parser.add_argument("--out", type=Path, help="where the results go, as JSON")
    return parser.parse_args()


def main() -> int:
    """The command."""
    args = parse()
    for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ.setdefault(name, "1")
    everything = find_mutants(args.files)
    if args.folders:
        everything = [mutant for mutant in everything if folder_of(mutant) in args.folders]
    if args.short:
        mutants, args.tests = named(everything, SHORT), SHORT_TESTS
    else:
        mutants = draw(everything, None if args.all else args.count, args.seed)
    print(f"{len(mutants)} of {len(everything)} mutants", flush=True)
    if args.list:
        print("\n".join(mutant.key for mutant in mutants))
        return 0
    known = json.loads(EQUIVALENT.read_text())
    about = {
        "seed": args.seed,
        "python": sys.version.split()[0],
        "drawn_from": len(everything),
        "drawn": len(mutants),
    }
    summary = summarise([], known)
    with tempfile.TemporaryDirectory(prefix="mutants-") as folder:
        where = Path(folder) if args.keep is None else args.keep
        with Crew(ROOT, where, args.jobs) as crew:
            reach = crew.record(args.tests)
            for test in reach.failed:
                print(f"fails untouched, left out: {test}", flush=True)
            print(f"{len(reach.cpu_s)} tests, {sum(reach.cpu_s.values()):.0f} CPU s", flush=True)
            for found in campaign(crew, mutants, args.most_s):
                summary = summarise(found, known)
                if args.out is not None:
                    save(args.out, about | summary)
    return tell(summary)


def save(path: Path, result: dict[str, Any]) -> None:
    """Written whole or not at all: a campaign that is cut off leaves what it has found."""
    beside = path.with_name(path.name + ".part")
    beside.write_text(json.dumps(result, indent=1) + "\n")
    beside.replace(path)


def tell(summary: dict[str, Any]) -> int:
    """Print the survivors and the counts; the exit code."""
    for row in summary["survivors"]:
        why = row["equivalent"] or "NOT KNOWN TO BE EQUIVALENT"
        print(f"{row['file']}:{row['line']}: {row['text']}")
        print(f"  {row['before']} -> {row['after']}: {why}")
    wrong = summary["killed_though_known_as_equivalent"]
    for key in wrong:
        print(f"killed, though known as equivalent: {key}")
    share, holes = summary["killed_share"], summary["holes"]
    counts = f"{summary['killed']} of {summary['mutants']} killed"
    print(f"{counts}, {summary['equivalent']} equivalent, {holes} holes")
    enough = share >= LEAST_KILLED or summary["mutants"] < FEW
    return 0 if enough and not holes and not wrong else 1


if __name__ == "__main__":
    sys.exit(main())
