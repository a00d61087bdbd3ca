"""Write the hashes of all files of every pinned version into the lock files.

`python tools/lock_hashes.py` does so for all `requirements*.lock`, or for those that are named. The
files are those that pip would look at: of its index, its further indexes and its `find-links`, so
that a build of one's own, as torch's for processors, may be installed too. Hashes of a version that
are in the file already stay, as another machine may have other builds; those of a version that was
changed go with it.

Files for Linux of packages with several builds (`SEVERAL_BUILDS`) are listed by SHA-512. pip
prefers files whose SHA-256 an index shows and a lock file lists: it would never take the build for
processors, of which a folder shows no hash, where an index has the one for GPUs.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from hashlib import sha256, sha512
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
PIN = re.compile(r"([A-Za-z0-9][A-Za-z0-9._-]*)==([^\s\\;]+)")
HASH = re.compile(r"--hash=(sha256:[0-9a-f]{64}|sha512:[0-9a-f]{128})")
SEVERAL_BUILDS = ("torch",)
PYTHONS = ("cp311", "cp312", "cp313", "cp314")
CHUNK = 2**20
Read = Callable[[str], Iterable[bytes]]


@contextmanager
def pip_links() -> Iterator[tuple[Any, Read]]:
    """The links to a package's files by pip's settings, and what a link leads to."""
    from pip._internal.commands import create_command
    from pip._internal.index.collector import LinkCollector, parse_links
    from pip._internal.models.link import Link

    command: Any = create_command("download")
    options, _ = command.parse_args(["pip"])
    with command.main_context():
        session = command.get_default_session(options)
        collector = LinkCollector.create(session, options=options)
        scope = collector.search_scope

        def links(name: str) -> list[Any]:
            found: list[Any] = []
            for url in scope.get_index_urls_locations(name):
                page = collector.fetch_response(Link(url))
                found += [] if page is None else parse_links(page)
            for place in map(Path, scope.find_links):
                if place.is_dir():
                    found += [Link(path.absolute().as_uri()) for path in place.iterdir()]
            return found

        def read(url: str) -> Iterator[bytes]:
            answer = session.get(url, stream=True, headers={"Accept-Encoding": "identity"})
            answer.raise_for_status()
            yield from iter(lambda: answer.raw.read(CHUNK), b"")

        yield links, read


def version_of(filename: str, name: str) -> str | None:
    """The public version of a package's file; None if it is of another package, or unusual."""
    from packaging import utils
    from packaging.version import InvalidVersion, Version

    try:
        if filename.endswith(".whl"):
            owner, version = utils.parse_wheel_filename(filename)[:2]
        else:
            owner, version = utils.parse_sdist_filename(filename)
        is_own = owner == utils.canonicalize_name(name)
        return str(Version(Version(str(version)).public)) if is_own else None
    except (utils.InvalidWheelFilename, utils.InvalidSdistFilename, InvalidVersion):
        return None


def hashes_of(
    name: str, version: str, links: Iterable[Any], known: set[str], read: Read
) -> set[str]:
    """The hashes of all files of a version, beside those that are known."""
    found = set(known)
    has_long = any(each.startswith("sha512") for each in known)
    for link in links:
        if version_of(link.filename, name) != version:
            continue
        if not link.is_file and name in SEVERAL_BUILDS and is_for_linux(link.filename):
            if not has_long:
                found.add(f"sha512:{sha512_of(link, read)}")
        elif link.hash_name == "sha256":
            found.add(f"sha256:{link.hash}")
        elif link.is_file:
            found.add(f"sha256:{sha256(Path(link.file_path).read_bytes()).hexdigest()}")
    return found


def is_for_linux(filename: str) -> bool:
    """Whether a wheel is for Linux and a Python that is supported."""
    return "manylinux" in filename and filename.split("-")[3] in PYTHONS


def sha512_of(link: Any, read: Read) -> str:
    """The SHA-512 of a file of an index, which must have the SHA-256 that is shown there."""
    short, long = sha256(), sha512()
    for chunk in read(link.url_without_fragment):
        short.update(chunk)
        long.update(chunk)
    if short.hexdigest() != link.hash:
        sys.exit(f"{link.filename}: is another file than its index shows")
    return long.hexdigest()


def pins_of(text: str) -> Iterator[tuple[str, str, str, set[str]]]:
    """The lines of a lock file without their hashes; name, version and hashes where one pins."""
    for line in text.replace("\\\n", " ").splitlines():
        pin = PIN.match(line)
        if pin is None:
            yield line, "", "", set()
        else:
            yield pin[0], pin[1], pin[2], set(HASH.findall(line))


def with_hashes(text: str, links: Callable[[str], Iterable[Any]], read: Read) -> str:
    """A lock file with the hashes of all files of its versions."""
    lines = []
    for line, name, version, known in pins_of(text):
        if not name:
            lines.append(line)
            continue
        hashes = hashes_of(name, version, links(name), known, read)
        if not hashes:
            sys.exit(f"{line}: no index has a file with a hash")
        lines.append(" \\\n".join([line, *(f"    --hash={each}" for each in sorted(hashes))]))
    return "\n".join(lines) + "\n"


def main(paths: list[Path]) -> None:
    """Write the hashes into lock files."""
    with pip_links() as (links, read):
        for path in paths:
            text = path.read_text(encoding="utf-8")
            path.write_text(with_hashes(text, links, read), encoding="utf-8")
            print(path.name)


if __name__ == "__main__":
    main([Path(each) for each in sys.argv[1:]] or sorted(ROOT.glob("requirements*.lock")))
