"""What functions return: tables as pandas' data frames, figures, pages and models."""

from __future__ import annotations

import base64
import html
import io
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fedrt.api.session import note
from fedrt.errors import InputError
from fedrt.measures import MEASURES, measure_of
from fedrt.records.directory import run_name
from fedrt.records.summary import Summary
from fedrt.report.curves import curve_figure
from fedrt.report.page.write import write_page
from fedrt.scenario import Scenario
from fedrt.studies.labels import labels_of
from fedrt.system.extras import MissingLibraryError, need
from fedrt.system.plugins import Offer
from fedrt.validation import shown

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from pandas import DataFrame
    from torch import Tensor, nn

Results = Mapping[str, Sequence[Summary]]

OF_MODELS = {
    *("loss", "consensus", "wall_s"),
    *(name for each in MEASURES.values() for m in each for name in (m.name, *m.edge_names)),
}
"""The quantities that only runs with training have."""


class Page:
    """An HTML page that was written; it shows itself in a notebook."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __repr__(self) -> str:
        return f"Page({str(self.path)!r})"

    def __fspath__(self) -> str:
        return str(self.path)

    def open(self) -> None:
        """Show the page in the browser."""
        import webbrowser

        webbrowser.open(self.path.resolve().as_uri())

    def _repr_html_(self) -> str:
        text = html.escape(self.path.read_text(encoding="utf-8"), quote=True)
        return f'<iframe srcdoc="{text}" width="100%" height="800" frameborder="0"></iframe>'


class Result(ABC):
    """What is saved in a folder of results, as tables, figures and a page."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    @property
    @abstractmethod
    def summary(self) -> DataFrame:
        """The outcome, as a table with a row for each run or point."""

    @abstractmethod
    def plot(self) -> Figure:
        """The figure of the result."""

    def page(self, out: Path | str | None = None) -> Page:
        """The HTML page of the result, written into its folder or to `out`: `fedrt report`."""
        path = self.folder / "page.html" if out is None else Path(out)
        write_page([self.folder], path)
        return Page(path)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({str(self.folder)!r})"

    def _repr_html_(self) -> str:
        return (
            f"<p>saved in <code>{html.escape(str(self.folder))}</code></p>"
            + self.summary.to_html(index=False, border=0, float_format="{:.4g}".format)
            + self._picture()
        )

    def _picture(self) -> str:
        """The figure as an image in the page; nothing where it cannot be drawn."""
        try:
            figure, image = self.plot(), io.BytesIO()
            figure.savefig(image, format="png", dpi=100)
        except (InputError, MissingLibraryError):
            return ""
        return f'<img src="data:image/png;base64,{base64.b64encode(image.getvalue()).decode()}">'


class RunsResult(Result):
    """The result of one or several runs."""

    def __init__(
        self, folder: Path, scenario: Scenario, outcomes: Results, objects: Mapping[str, Offer]
    ) -> None:
        super().__init__(folder)
        self.scenario, self.outcomes, self._objects = scenario, outcomes, dict(objects)
        self.labels = labels_of([outcomes])
        """What tables and figures call each policy, by the text that names it."""

    @abstractmethod
    def run_folder(self, policy: str, seed: int) -> Path:
        """The folder of one policy and seed."""

    @property
    def _each(self) -> list[tuple[str, int, Path]]:
        return [
            (policy, run["seed"], self.run_folder(policy, run["seed"]))
            for policy, runs in self.outcomes.items()
            for run in runs
        ]

    def _table(self, name: str) -> DataFrame:
        """One table of all runs, with columns `policy` and `seed` in front."""
        pandas = _pandas()
        frames = []
        for policy, seed, folder in self._each:
            path = folder / f"{name}.parquet"
            if not path.is_file():
                raise InputError(
                    f"{folder}: has no table of {name}; `device_rows` asks for devices"
                )
            frame = pandas.read_parquet(path)
            frame.insert(0, "policy", self.labels[policy])
            frame.insert(1, "seed", seed)
            frames.append(frame)
        return pandas.concat(frames, ignore_index=True)

    @cached_property
    def rounds(self) -> DataFrame:
        """One row for each global round."""
        return self._table("rounds")

    @cached_property
    def edges(self) -> DataFrame:
        """One row for each edge server and edge round."""
        return self._table("edges")

    @cached_property
    def links(self) -> DataFrame:
        """One row for each link and global round."""
        return self._table("links")

    @cached_property
    def devices(self) -> DataFrame:
        """One row for each device and edge round."""
        return self._table("devices")

    @property
    def summary(self) -> DataFrame:
        """The outcome, one row for each run."""
        rows = [
            {**run, "policy": self.labels[policy]}
            for policy, runs in self.outcomes.items()
            for run in runs
        ]
        return _pandas().json_normalize(rows)

    def plot(self, quantity: str | None = None, against: str = "time") -> Figure:
        """A quantity over the runs: a column of `rounds` against `time`, `energy` or `round`.

        The mean over seeds with their range; by default what the task measures, such as accuracy.
        Of runs without training the energy is drawn, whatever is asked of their models.
        """
        from pyarrow import parquet

        every = [run for runs in self.outcomes.values() for run in runs]
        trained = all(run.get("trained") for run in every)
        quantity = quantity or (measure_of(every[0]).name if trained else "energy_j_mean")
        if not trained and quantity in OF_MODELS:
            note(f"note: nothing was trained, so that there is no {quantity}: energy is drawn")
            quantity = "energy_j_mean"
        tables: dict[str, list[Any]] = {policy: [] for policy in self.outcomes}
        for policy, _, folder in self._each:
            table = parquet.read_table(folder / "rounds.parquet")
            tables[policy].append({name: table[name].to_numpy() for name in table.column_names})
        return curve_figure(tables, quantity, against, self.labels)


class RunResult(RunsResult):
    """The result of one run: its folder, tables, figures, page and models."""

    def __init__(self, folder: Path, summary: Summary, objects: Mapping[str, Offer]) -> None:
        from fedrt.records.directory import read_run

        run = read_run(folder)
        super().__init__(folder, run.scenario, {run.policy: [summary]}, objects)
        self.policy, self.seed = run.policy, run.seed

    @property
    def outcome(self) -> Summary:
        """The summary as the command line prints it with `json`."""
        return self.outcomes[self.policy][0]

    def run_folder(self, policy: str, seed: int) -> Path:
        """The folder of the run."""
        return self.folder

    def model(self, which: str = "average") -> nn.Module:
        """A trained model as a module of torch: the `average`, or that of a server, `edge:3`."""
        from fedrt.api.models import read_model

        return read_model(self.folder, which, self._objects)

    def inputs(self, samples: Any) -> Tensor:
        """Raw samples as the model takes them: normalised, images with their channels first."""
        from fedrt.api.models import read_inputs

        return read_inputs(self.folder).tensor(samples)


class ComparisonResult(RunsResult):
    """The result of several policies on the same worlds."""

    def run_folder(self, policy: str, seed: int) -> Path:
        """The folder of one policy and seed."""
        return self.folder / run_name(policy, seed)

    def run(self, policy: str, seed: int | None = None) -> RunResult:
        """One of the runs, by its policy's name or label; by default on the first seed."""
        texts = [text for text in self.outcomes if policy in (text, self.labels[text])]
        runs = self.outcomes[texts[0]] if texts else []
        found = [run for run in runs if seed is None or run["seed"] == seed]
        if not found:
            known = ", ".join(self.labels.values())
            raise InputError(
                f"policy = {shown(policy)}, seed {seed}: is not here; there are {known}"
            )
        folder = self.run_folder(texts[0], found[0]["seed"])
        return RunResult(folder, found[0], self._objects)


class StudyResult(Result):
    """The result of a sweep, a sizing, a front or a bound."""

    def __init__(
        self,
        folder: Path,
        data: Mapping[str, Any],
        rows: Sequence[Mapping[str, Any]],
        draw: Callable[[], Figure] | None,
        found: Any,
    ) -> None:
        super().__init__(folder)
        self.data, self._rows, self._draw = data, rows, draw
        self.found = found
        """The result as the functions of `fedrt.studies` return it."""

    @property
    def summary(self) -> DataFrame:
        """One row for each point, policy and seed."""
        return _pandas().DataFrame(list(self._rows))

    def plot(self) -> Figure:
        """The figure of the study."""
        if self._draw is None:
            raise InputError(f"{self.folder}: there is no figure of such a study")
        return self._draw()


def _pandas() -> Any:
    need("a table", "pandas")
    import pandas

    return pandas
