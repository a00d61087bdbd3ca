"""Policies with options, as typed: nothing but literals, and a name of their own in tables."""

from __future__ import annotations

import json
import keyword
from argparse import Namespace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.tiny import as_options

from fedrt.api.asked import Objects, read_policies
from fedrt.cli import main
from fedrt.cli.parser import typed_paths
from fedrt.errors import InputError
from fedrt.policies import make_policy
from fedrt.policies.spec import policy_labels, read_spec, with_options
from fedrt.report.page.collect import collect

MINE = """
import dataclasses
from fedrt.policies.static_t import StaticT

class Mine:
    name = "mine"
    energy_horizon = "exact"

    def __init__(self, steps=1):
        self.steps = steps

    def plan(self, seen, books):
        plan = StaticT().plan(seen, books)
        if plan.gossip is None:
            return plan
        gossip = dataclasses.replace(plan.gossip, steps=self.steps)
        return dataclasses.replace(plan, gossip=gossip)
"""


@pytest.fixture
def mine(tmp_path, monkeypatch):
    """The folder with a policy of a user's, who stands in it."""
    (tmp_path / "my_policy.py").write_text(MINE)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    return tmp_path


def test_the_parts_of_what_is_typed():
    assert read_spec("fedrt").options == {}
    spec = read_spec(" mine:P( alpha = 0.3 , mode='a,b(', sizes=[1, 2], on=True, off=None) ")
    assert spec.base == "mine:P"
    assert spec.options == {"alpha": 0.3, "mode": "a,b(", "sizes": [1, 2], "on": True, "off": None}
    assert read_spec(spec.text) == spec
    assert with_options("mine:P(a=1, b=2)", {"b": 3, "c": -1.5}) == "mine:P(a=1, b=3, c=-1.5)"


NAMES = st.from_regex(r"[a-z]{1,5}", fullmatch=True).filter(lambda n: not keyword.iskeyword(n))
VALUES = (
    st.none()
    | st.booleans()
    | st.integers(-9, 9)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=5)
)


@given(st.dictionaries(NAMES, VALUES, max_size=3))
def test_options_come_back_as_they_were(options):
    assert read_spec(with_options("mine:P", options)).options == options


@pytest.mark.parametrize(
    "text",
    [
        *("mine:P(", "mine:P)", "mine:P(1)", "mine:P(a=1)(b=2)", "mine:P(a=b)", "mine:P(**{})"),
        *("mine:P(a=__import__('os').system('true'))", "mine:P(a=1, a=2)", "mine:P(*[1])"),
        *("mine:P(a=1) # b", "mine:P(a=lambda: 1)", "mine:P(a=" + "[" * 500 + ")"),
        *("f(a=1\n)(b=2)", "mine:P(a='" + "x" * 2000 + "')"),
    ],
)
def test_what_is_no_literal_is_one_line(text):
    with pytest.raises(InputError, match="must be NAME or NAME"):
        read_spec(text)


def test_a_comma_inside_options_parts_no_policies():
    text = "fedrt, mine:P(a=1,b=[1,2]) ,mine:P(a=2,b='x,y')"
    words = ["fedrt", "mine:P(a=1, b=[1, 2])", "mine:P(a=2, b='x,y')"]
    assert read_policies(text, Objects()) == words
    with pytest.raises(InputError, match="only once"):
        read_policies("mine:P(a=1),mine:P( a=1 )", Objects())


def test_options_reach_the_policy_and_bad_ones_are_one_line(mine):
    assert make_policy("my_policy:Mine(steps=3)").steps == 3
    with pytest.raises(InputError, match=r"cannot be made: TypeError: .*'colour'"):
        make_policy("my_policy:Mine(colour=3)")
    assert make_policy("fedrt-plus(links='greedy')").links == "greedy"
    with pytest.raises(InputError, match='links = "green": must be one of joint, exact, greedy'):
        make_policy("fedrt-plus(links='green')")
    with pytest.raises(InputError, match="policy fedrt: alpha: unknown option; it has"):
        make_policy("fedrt(alpha=1)")


def test_labels_are_the_policies_own_names_and_never_alike():
    assert policy_labels({"fedrt": "fedrt", "a:P": "mine"}) == {"fedrt": "fedrt", "a:P": "mine"}
    variants = {"a:P(x=1)": "mine", "a:P(x=2)": "mine", "a:P": "mine"}
    assert list(policy_labels(variants).values()) == ["mine(x=1)", "mine(x=2)", "mine"]
    # Two classes of one name, and one that takes a shipped one's.
    assert policy_labels({"a:P": "mine", "b:P": "mine"}) == {"a:P": "a:P", "b:P": "b:P"}
    assert policy_labels({"fedrt": "fedrt", "a:P": "fedrt"}) == {"fedrt": "fedrt", "a:P": "a:P"}


def test_variants_stand_side_by_side_under_their_own_names(mine, capsys):
    both = "my_policy:Mine(steps=1),my_policy:Mine(steps=4),fedrt"
    options = as_options("rounds.global_rounds=2")
    assert main(["estimate", "--policies", both, "--out", "out", *options]) == 0
    printed = capsys.readouterr().out
    assert "mine(steps=1)" in printed
    assert "mine(steps=4)" in printed
    assert "my_policy" not in printed
    data = json.loads((mine / "out" / "comparison.json").read_text())["policies"]
    assert [each["name"] for each in data.values()] == ["mine", "mine", "fedrt"]
    one, four = (data[f"my_policy:Mine(steps={n})"]["total_time_s"]["mean"] for n in (1, 4))
    assert one < four
    labels = [line["label"] for line in collect([mine / "out"])["lines"]]
    assert labels == ["mine(steps=1)", "mine(steps=4)", "fedrt"]
    assert (mine / "out" / "my_policy.Mine(steps=4)-0" / "rounds.parquet").exists()


def test_an_option_can_be_swept_and_sized(mine, capsys):
    options = as_options("rounds.global_rounds=2", "fleet.energy_j_per_edge_round=9")
    policy = ["--policies", "my_policy:Mine"]
    words = ["--vary", "policy.steps=1,4", *policy, *options]
    assert main(["sweep", "quickstart", *words, "--out", "swept"]) == 0
    points = json.loads((mine / "swept" / "sweep.json").read_text())["points"]
    assert [point["settings"] for point in points] == [{"policy.steps": 1}, {"policy.steps": 4}]
    one, four = (p["policies"]["my_policy:Mine"]["total_time_s"]["mean"] for p in points)
    assert one < four
    assert "mine" in capsys.readouterr().out
    (study,) = collect([mine / "swept"])["studies"]
    assert [each["name"] for each in study["policies"]] == ["mine"]
    assert main(["sweep", "quickstart", "--vary", "policy.colour=1", *policy, *options]) == 2
    words = ["--vary", "policy.steps=1..20", "--policy", "my_policy:Mine", *options]
    deadline = ["--deadline", f"{four * 1.0001:.9f}s"]
    assert main(["size", "quickstart", *deadline, *words, "--out", "sized"]) == 0
    data = json.loads((mine / "sized" / "size.json").read_text())
    assert (data["value"], data["wanted"]) == (4, "greatest")
    assert " under mine: 4 (" in data["sentence"]


def test_a_path_with_options_is_as_much_allowed_as_one_without():
    given = Namespace(policies="my_policy:Mine(steps=2),fedrt", policy=None, settings=[], vary=[])
    assert typed_paths(given) == {"my_policy:Mine"}
