"""Progress in a notebook, with a stand-in for what a notebook displays with."""

from __future__ import annotations

import sys
import types

import pytest
from support.tiny import tiny

import fedrt
from fedrt.report import progress


class Handle:
    def __init__(self, shown):
        self.shown = shown

    def update(self, text):
        self.shown.append(text)


@pytest.fixture
def shown(monkeypatch):
    """What a notebook shows; the modules are those that IPython has, as far as they are used."""
    found = []
    ipython, display = types.ModuleType("IPython"), types.ModuleType("IPython.display")
    ipython.get_ipython = lambda: types.SimpleNamespace(kernel=object())
    display.HTML = str
    display.display = lambda text, display_id: Handle(found)
    monkeypatch.setitem(sys.modules, "IPython", ipython)
    monkeypatch.setitem(sys.modules, "IPython.display", display)
    monkeypatch.setattr(progress, "REDRAW_S", 0.0)
    return found


def test_a_notebook_has_a_bar_that_moves(shown, tmp_path, capsys):
    fedrt.estimate(tiny(), policies="fedrt", seeds=range(2), out=tmp_path / "out")
    rounds = 2 * 4
    assert [text.split()[3] for text in shown if "fedrt, seed" in text][-1] == f"{rounds}/{rounds}"
    assert shown[0] == f'<progress max="{rounds}" value="0"></progress> 0/{rounds} rounds'
    assert capsys.readouterr().err == ""
    assert len(shown) > rounds


def test_nothing_is_shown_where_it_is_to_be_quiet(shown, tmp_path):
    fedrt.estimate(tiny(), policies="fedrt", out=tmp_path / "out", progress=False)
    assert not shown


def test_what_is_shown_cannot_be_markup(shown):
    bar = progress._notebook()
    task = bar.add_task("<b>", total=None)
    bar.advance(task)
    assert shown[-1] == "<progress ></progress> 1 &lt;b&gt;"
