"""Fetch the charting library that the HTML page carries, and note what was fetched.

    python tools/vendor.py 6.1.0

Needs npm. Puts the minified library and its licences into the vendor/echarts of the page's assets,
with their version and hashes in vendor.json; a test holds the files to them.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import subprocess
import tarfile
import tempfile
from pathlib import Path

FILES = ("dist/echarts.min.js", "LICENSE", "NOTICE", "licenses/LICENSE-d3")
FOLDER = Path(__file__).parents[1] / "src/fedrt/report/page/assets/vendor/echarts"


def main() -> None:
    """Replace the files by those of a version."""
    parser = argparse.ArgumentParser(description="fetch the page's charting library")
    parser.add_argument("version")
    version = parser.parse_args().version
    hashes = {}
    with tempfile.TemporaryDirectory() as folder:
        command = ["npm", "pack", "--silent", f"echarts@{version}"]
        done = subprocess.run(command, cwd=folder, check=True, capture_output=True, text=True)
        archive = Path(folder) / done.stdout.split()[-1]
        with tarfile.open(archive) as package:
            for name in FILES:
                file = package.extractfile(f"package/{name}")
                assert file is not None
                data = file.read()
                target = FOLDER / Path(name).name
                target.write_bytes(data)
                hashes[target.name] = hashlib.sha256(data).hexdigest()
    said = {
        "name": "Apache ECharts",
        "version": version,
        "licence": "Apache-2.0",
        "fetched_by": f"npm pack echarts@{version}",
        "sha256": hashes,
    }
    (FOLDER / "vendor.json").write_text(json.dumps(said, indent=2) + "\n")


if __name__ == "__main__":
    main()
