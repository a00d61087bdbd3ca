"""Colours and markers of policies: stable, and told apart by people with any colour vision."""

from __future__ import annotations

from itertools import combinations, pairwise

import numpy as np
import pytest
from support.page_kinds import make

from fedrt.policies import SHIPPED
from fedrt.report import figures
from fedrt.report.page.write import ASSETS, write_page
from fedrt.studies.labels import FIRST_OWN, OWN_STYLES, style_numbers

OWN = [f"mine{i}:Policy" for i in range(OWN_STYLES)]
# What is left of colours to people who lack one kind of cone, in linear RGB: Machado, Oliveira and
# Fernandes, "A physiologically-based model for simulation of color vision deficiency" (2009).
VISIONS = {
    "normal": np.eye(3),
    "protan": [[0.152, 1.053, -0.205], [0.115, 0.786, 0.099], [-0.004, -0.048, 1.052]],
    "deutan": [[0.367, 0.861, -0.228], [0.280, 0.673, 0.047], [-0.012, 0.043, 0.969]],
    "tritan": [[1.256, -0.077, -0.179], [-0.078, 0.931, 0.148], [0.005, 0.691, 0.304]],
}
TO_XYZ = np.array([[0.4125, 0.3576, 0.1804], [0.2127, 0.7152, 0.0722], [0.0193, 0.1192, 0.9503]])
WHITE = np.array([0.9505, 1.0, 1.0888])
LEAST_APART = 15.0
"""In CIELAB; the nearest two of Okabe and Ito's colours are 16.1 apart for tritanopes."""


def linear(colour: str) -> np.ndarray:
    rgb = np.array([int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)])
    return np.where(rgb <= 0.04045, rgb / 12.92, ((rgb + 0.055) / 1.055) ** 2.4)


def lab(colour: str, vision: str) -> np.ndarray:
    seen = np.clip(np.asarray(VISIONS[vision]) @ linear(colour), 0, 1)
    x, y, z = np.cbrt(np.maximum(TO_XYZ @ seen / WHITE, 0.008856))
    return np.array([116 * y - 16, 500 * (x - y), 200 * (y - z)])


def apart(one: str, other: str) -> float:
    """The distance of two colours for those who can tell them apart least."""
    return min(float(np.linalg.norm(lab(one, v) - lab(other, v))) for v in VISIONS)


def test_numbers_are_the_same_whoever_else_is_there():
    alone = {name: style_numbers([name])[name] for name in (*SHIPPED, *OWN)}
    assert [alone[name] for name in SHIPPED] == list(range(len(SHIPPED)))
    assert all(alone[name] >= FIRST_OWN for name in OWN)
    among = style_numbers([*SHIPPED, OWN[3]])
    assert among == {name: alone[name] for name in among}
    assert style_numbers(["fedrt-plus(a=1)"])["fedrt-plus(a=1)"] >= FIRST_OWN


def test_no_two_policies_have_the_same_number():
    numbers = style_numbers([*SHIPPED, *OWN, "one:more", "and:another"])
    assert len(set(numbers.values())) == len(numbers)


def test_figures_have_a_colour_and_a_marker_for_each():
    looks = {
        name: (style["color"], style["marker"])
        for name in (*SHIPPED, *OWN)
        for style in [figures.policy_style(name, [*SHIPPED, *OWN])]
    }
    assert len(set(looks.values())) == len(looks)
    for one, other in combinations(looks.values(), 2):
        assert one[1] != other[1] or apart(one[0], other[0]) >= LEAST_APART
    own, others = ({looks[name] for name in names} for names in (OWN, SHIPPED))
    assert {c for c, _ in own}.isdisjoint(c for c, _ in others)
    assert {m for _, m in own}.isdisjoint(m for _, m in others)


def test_the_page_has_the_colours_of_the_figures():
    style, script = ((ASSETS / name).read_text() for name in ("page.css", "look.js"))
    for i, colour in enumerate(figures.OWN_COLOURS):
        assert f"--own-{i}: {colour};" in style
    start = script.index("const COLOURS = [")
    line = script[start : script.index("]", start)].replace("--black", "#000000")
    places = [line.index(colour) for colour in figures.POLICY_COLOURS]
    assert all(a < b for a, b in pairwise(places))


@pytest.fixture(scope="module")
def every_policy(tmp_path_factory):
    """A page with all shipped policies and a user's own."""
    out = tmp_path_factory.mktemp("styles")
    write_page([make(kind, out / kind) for kind in ("shipped", "own")], out / "page.html")
    return out / "page.html"


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_all_lines_of_a_page_can_be_told_apart(theme, every_policy, view):
    page = view(every_policy.as_uri(), theme=theme)
    looks = page.run(
        "Array.from(document.querySelectorAll('#legend svg'), (svg) =>"
        " [svg.lastChild.getAttribute('fill'), svg.lastChild.getAttribute('d')])"
    )
    # The policy `fedrt` is in both comparisons.
    assert len(looks) == len(SHIPPED) + 4
    assert len({tuple(look) for look in looks}) == len(looks)
    for (colour, shape), (other, its) in combinations(looks, 2):
        assert shape != its or apart(colour, other) >= LEAST_APART
    own, others = looks[-3:], looks[:-4]
    assert {shape for _, shape in own}.isdisjoint(shape for _, shape in others)
    assert {colour for colour, _ in own}.isdisjoint(colour for colour, _ in others)
