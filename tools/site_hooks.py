"""How the documentation site is made from pages that also read well in the repository.

MkDocs calls these functions (`hooks` in mkdocs.yml). They run in the site's own environment, in
which FedRT is not installed.

- README.md, CONTRIBUTING.md and CHANGELOG.md are pages of the site.
- The notebooks are pages with their outputs, which `tools/notebooks.py` has written before.
- A link that leaves docs/ leads to a page of the site that shows the file, or to a copy of it.
- A built page that would load anything from another machine is an error.
"""

from __future__ import annotations

import posixpath
import re
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File, Files, InclusionLevel
from mkdocs.structure.pages import Page

ROOT = Path(__file__).parents[1]
OUTER_PAGES = {
    "README.md": "readme.md",
    "CONTRIBUTING.md": "contributing.md",
    "CHANGELOG.md": "changelog.md",
}
"""Pages beside docs/, and what they are called on the site."""
NOTEBOOKS, RAN = "examples/notebooks", ROOT / "build" / "notebooks"
"""Where notebooks are, and the pages that were made by running them."""
LINK = re.compile(r"(\]\()(?!https?://|mailto:|#)([^)\s#]+)(#[^)\s]*)?(\))")
FENCED = re.compile(r"^```.*?^```", re.DOTALL | re.MULTILINE)
LANGUAGES = {".py": "python", ".toml": "toml", ".json": "json", ".sh": "bash"}
LOADED = re.compile(
    r"<(?:script|img|iframe|source|video)\b[^>]*\ssrc=[\"']?(?:https?:)?//[^\"'>\s]*"
    r"|<link\b(?=[^>]*\srel=[\"']?(?:stylesheet|preload|preconnect|icon))[^>]*"
    r"\shref=[\"']?(?:https?:)?//[^\"'>\s]*"
    r"|@import\s+[\"'(]*(?:url\()?[\"']?(?:https?:)?//[^\"')\s]*"
    r"|url\([\"']?(?:https?:)?//[^\"')\s]*",
    re.IGNORECASE,
)
"""What makes a browser ask another machine for a resource, in HTML and CSS."""


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages that are not in docs/, and everything that links from docs/ lead to."""
    for name, page in OUTER_PAGES.items():
        files.append(File.generated(config, page, content=(ROOT / name).read_text("utf-8")))
    for script in sorted((ROOT / NOTEBOOKS).glob("*.py")):
        files.append(_notebook(script.stem, config))
        files.append(_copy(f"{NOTEBOOKS}/{script.stem}.ipynb", config))
    for image in sorted(RAN.glob("*.png")):
        files.append(File.generated(config, f"notebooks/{image.name}", abs_src_path=str(image)))
    for path in sorted(_linked(files)):
        files.append(_shown(path, config))
    return files


def _notebook(name: str, config: MkDocsConfig) -> File:
    """The page of a notebook that has been run."""
    page = RAN / f"{name}.md"
    if not page.is_file():
        raise PluginError(f"no page of the notebook {name}: make docs runs it")
    return File.generated(config, f"notebooks/{name}.md", content=page.read_text("utf-8"))


def _copy(path: str, config: MkDocsConfig) -> File:
    """A copy of a file of the repository, at its path under files/."""
    place = f"files/{path}"
    inside = InclusionLevel.NOT_IN_NAV
    return File.generated(config, place, abs_src_path=str(ROOT / path), inclusion=inside)


def _linked(files: Files) -> set[str]:
    """The files outside docs/, as seen from the repository, that pages link to."""
    found = set()
    for file in files.documentation_pages():
        for match in LINK.finditer(FENCED.sub("", file.content_string)):
            path = _place(file.src_uri, match[2])
            if _target(path).startswith("files/"):
                found.add(path)
    return {path for path in found if (ROOT / path).exists()}


def _place(page: str, link: str) -> str:
    """The file that a page's link means, as seen from the repository."""
    source = {value: key for key, value in OUTER_PAGES.items()}.get(page, f"docs/{page}")
    return posixpath.normpath(posixpath.join(posixpath.dirname(source), link))


def _target(path: str) -> str:
    """Where the site has a file of the repository."""
    if path in OUTER_PAGES:
        return OUTER_PAGES[path]
    if path.startswith("docs/"):
        return path.removeprefix("docs/")
    if path.startswith(f"{NOTEBOOKS}/") and path.endswith(".ipynb"):
        return f"notebooks/{Path(path).stem}.md"
    shown = Path(path).suffix in LANGUAGES or (ROOT / path).is_dir()
    return f"files/{path}.md" if shown else f"files/{path}"


def _shown(path: str, config: MkDocsConfig) -> File:
    """The page that shows the lines of a text file or of a folder's, or a copy of another file."""
    there = ROOT / path
    if not there.is_dir() and there.suffix not in LANGUAGES:
        return _copy(path, config)
    text = f"---\nsearch:\n  exclude: true\nhide: [toc, navigation]\n---\n# {path}\n\n"
    if there.is_dir():
        files = sorted(file for file in there.rglob("*") if file.suffix in LANGUAGES)
        listed = [f"## {file.relative_to(there)}\n\n{_lines(file)}" for file in files]
        text += "\n".join(listed)
    else:
        text += _lines(there)
    inside = InclusionLevel.NOT_IN_NAV
    return File.generated(config, _target(path), content=text, inclusion=inside)


def _lines(file: Path) -> str:
    """The lines of a file as a listing."""
    return f'```{LANGUAGES[file.suffix]} linenums="1"\n{file.read_text("utf-8").rstrip()}\n```\n'


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Let links that leave docs/ lead to what the site has in their place."""
    here = page.file.src_uri

    def turned(match: re.Match[str]) -> str:
        path = _place(here, match[2])
        if here not in OUTER_PAGES.values() and path.startswith("docs/"):
            return match[0]
        link = posixpath.relpath(_target(path), posixpath.dirname(here) or ".")
        return f"{match[1]}{link}{match[3] or ''}{match[4]}"

    pieces, place = [], 0
    for block in FENCED.finditer(markdown):
        pieces += [LINK.sub(turned, markdown[place : block.start()]), block[0]]
        place = block.end()
    return "".join(pieces) + LINK.sub(turned, markdown[place:])


def on_post_build(config: MkDocsConfig, **given: Any) -> None:
    """Refuse a site that would load anything from another machine."""
    site = Path(config.site_dir)
    found = [
        f"{path.relative_to(site)}: {match[0][:200]}"
        for path in sorted(site.rglob("*"))
        if path.suffix in (".html", ".css")
        for match in LOADED.finditer(path.read_text("utf-8"))
    ]
    if found:
        raise PluginError("loaded from another machine:\n" + "\n".join(found[:20]))
