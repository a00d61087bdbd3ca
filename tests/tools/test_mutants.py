"""The mutation tool: what it changes, what it leaves alone, and that its lists are in order."""

from __future__ import annotations

import json

import mutants
import pytest
from mutation.operators import compiles, mutants_of, siblings_of
from mutation.workshop import Verdict


def changes(source: str, siblings: dict[str, str] | None = None) -> set[str]:
    text = source.encode()
    found = set()
    for mutant in mutants_of("one.py", text, siblings or {}):
        mutated = mutant.apply(text)
        if compiles(mutated):
            assert mutated != text
            assert mutant.before.encode() == text[mutant.start : mutant.end]
            found.add(mutated.decode())
    return found


@pytest.mark.parametrize(
    ("source", "wanted"),
    [
        ("a = b < c", {"a = b <= c", "a = b > c"}),
        ("a = b + c * d", {"a = b - c * d", "a = b + c / d"}),
        ("a = not b", {"a = b"}),
        ("a = b and c or d", {"a = b or c or d", "a = b and c and d"}),
        ("a = max(b, c)", {"a = min(b, c)"}),
        ("a = f(b, c)", {"a = f(c, b)"}),
        ("a = b[0]", {"a = b[1]"}),
        ("a = 2.5", {"a = 5.0"}),
        ("a = b if c else d", {"a = d if c else b"}),
        ("a += b", {"a -= b", "pass"}),
        ("a[b] = c", {"pass"}),
        ("f(a)", {"pass"}),
        ("a = b.one", {"a = b.two"}),
        ("a = ö is None", {"a = ö is not None"}),
    ],
)
def test_every_kind_of_change(source, wanted):
    assert changes(source + "\n", {"one": "two"}) == {text + "\n" for text in wanted}


def test_what_says_nothing_of_the_result_is_left_alone():
    source = '''"""Text."""
@deco(1)
def f(a: int) -> "x < y":
    """Text with 3 < 4."""
    assert a < 1
    g: dict[int, 2]
    raise Error(f"{a + 1}", a < 1)
'''
    assert changes(source) == set()


def test_fields_of_one_class_and_type_stand_for_each_other():
    one = b"class A:\n    x: int\n    y: int\n    z: float\n    w: int\n"
    two = b"class B:\n    x: int\n    v: int\n"
    # x belongs to two classes: nobody knows which one is meant.
    assert siblings_of([one, two]) == {"y": "w", "w": "x", "v": "x"}


def test_a_sample_is_keyed_by_the_seed_and_by_what_is_drawn():
    everything = mutants.find_mutants(["src/fedrt/ledger.py", "src/fedrt/cost/round.py"])
    some = mutants.draw(everything, 20, 0)
    assert len(some) == 20
    assert mutants.draw(everything[::-1], 20, 0) == some
    assert mutants.draw(everything, 20, 1) != some
    # Without the other file, its own are drawn in the same order.
    own = [m for m in mutants.draw(everything, len(everything), 0) if "ledger" in m.file]
    alone = mutants.find_mutants(["src/fedrt/ledger.py"])
    assert mutants.draw(alone, 10, 0) == own[:10]


def test_places_of_a_sample_go_by_the_root_of_a_folders_mutants(tmp_path, monkeypatch):
    """Of 4, 16 and 36 mutants, with the roots 2, 4 and 6, twelve places: 2, 4 and 6 of them.

    The first three are one for each: 0.5 / 2 and 1.5 / 6 are equal, and go by the folder's name.
    """
    monkeypatch.setattr(mutants, "ROOT", tmp_path)
    everything = []
    for folder, count in (("a", 4), ("b/inner", 16), ("c", 36)):
        file = tmp_path / "src" / "fedrt" / folder / "one.py"
        file.parent.mkdir(parents=True)
        file.write_text("".join(f"x{i} = y + z\n" for i in range(count)))
        everything += mutants_of(str(file.relative_to(tmp_path)), file.read_bytes(), {})
    assert len(everything) == 56

    def places(count: int) -> list[int]:
        drawn = [mutants.folder_of(mutant) for mutant in mutants.draw(everything, count, 0)]
        return [drawn.count(folder) for folder in "abc"]

    assert places(12) == [2, 4, 6]
    assert places(3) == [1, 1, 1]
    assert places(56) == [4, 16, 36]


def test_a_sample_of_two_hundred_has_mutants_of_every_folder():
    source = mutants.ROOT / "src" / "fedrt"
    folders = {path.name for path in source.iterdir() if any(path.rglob("*.py"))}
    drawn = mutants.draw(mutants.find_mutants([]), 200, 0)
    assert len(drawn) == 200
    assert {mutants.folder_of(mutant) for mutant in drawn} == {"", *folders}
    # And every folder's own tests are among those that are run.
    assert {test.split("/")[1] for test in mutants.TESTS} >= folders
    for test in (*mutants.TESTS, *mutants.OF_THE_MACHINE):
        assert (mutants.ROOT / test).is_file()
    assert not {*mutants.TESTS} & {*mutants.OF_THE_MACHINE}


def test_the_lists_say_why_and_name_mutants_that_exist():
    known, short = (json.loads(path.read_text()) for path in (mutants.EQUIVALENT, mutants.SHORT))
    assert all(len(why) > 20 for why in known.values())
    files = sorted({key.split(": ")[0] for key in (*known, *short)})
    everything = mutants.find_mutants(files)
    for path, keys in ((mutants.EQUIVALENT, known), (mutants.SHORT, short)):
        assert len(mutants.named(everything, path)) == len(keys)
    # It shows both: that tests notice, and that the tool does not say so of all.
    assert {key in known for key in short} == {False, True}


def test_what_is_not_drawn_is_there():
    """A function that is called something else now would be drawn without anybody noticing."""
    left_out = mutants.SEARCH_PATHS | mutants.CHOICES_OF_SPEED
    found = mutants.find_mutants([f"src/fedrt/{file}" for file in left_out])
    there = {(mutant.file, mutant.function) for mutant in found}
    for file, functions in left_out.items():
        assert there.issuperset((f"src/fedrt/{file}", name) for name in functions or ())
    for file in mutants.NOT_DRAWN:
        assert (mutants.ROOT / "src" / "fedrt" / file).is_file()


def test_what_was_found_is_summed_up(capsys):
    drawn = mutants.draw(mutants.find_mutants(["src/fedrt/ledger.py"]), 40, 0)
    killed, alive = Verdict("killed", "a test", 3, 1.0), Verdict("survived", "", 3, 1.0)
    found = [(mutant, killed) for mutant in drawn[:38]] + [(mutant, alive) for mutant in drawn[38:]]
    why = {drawn[38].key: "for a reason", drawn[39].key: "for another"}
    summary = mutants.summarise(found, why)
    assert (summary["mutants"], summary["killed"], summary["equivalent"]) == (40, 38, 2)
    assert summary["by_folder"] == {"modules": {"mutants": 40, "killed": 38}}
    assert mutants.tell(summary) == 0
    # A survivor without a reason, too many survivors, a reason that does not hold.
    assert mutants.tell(mutants.summarise(found, {drawn[38].key: "for a reason"})) == 1
    more = {mutant.key: "for a reason" for mutant in drawn[36:]}
    three = found[:37] + [(mutant, alive) for mutant in drawn[37:]]
    assert mutants.tell(mutants.summarise(three, more)) == 1
    assert mutants.tell(mutants.summarise(found, why | {drawn[0].key: "for no reason"})) == 1
    assert "killed, though known as equivalent" in capsys.readouterr().out
