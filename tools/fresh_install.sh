#!/usr/bin/env bash
# tools/fresh_install.sh: build the sdist, the wheel from it, install that in a new environment as a
# user would, and run the first commands there, without torch and with it. Needs a package index.
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
here=$(cd "$root/.venv" && pwd)
place=$(mktemp -d)
trap 'rm -rf "$place"' EXIT
say() { printf '%s\n' "$*"; }
unset PYTHONPATH
export PIP_DISABLE_PIP_VERSION_CHECK=1

say "sdist, and the wheel from it"
(cd "$root" && "$here/bin/python" -m hatchling build -t sdist -d "$place" >/dev/null)
"$here/bin/python" -m pip wheel --quiet --no-deps --no-index --no-build-isolation \
  --wheel-dir "$place" "$place"/fedrt-*.tar.gz

say "a new environment"
"$here/bin/python" -m venv "$place/fresh"
"$place/fresh/bin/pip" install --quiet --no-compile "$place"/fedrt-*.whl
cd "$place"
fedrt="$place/fresh/bin/fedrt"
"$fedrt" --version
"$place/fresh/bin/python" -m fedrt --version

say "without torch: estimates and pages; training asks for it in a line"
few=(--set rounds.global_rounds=2)
"$fedrt" estimate "${few[@]}" --policies fedrt,fedrt-plus --out estimate >/dev/null
"$fedrt" report estimate
"$place/fresh/bin/python" -c 'import fedrt; print(fedrt.estimate(rounds=2, policies="fedrt", progress=False).summary.shape)'
code=0; "$fedrt" run "${few[@]}" 2>said || code=$?
wanted="training: needs torch, which is not installed: pip install 'fedrt[learning]'"
[ "$code" = 2 ] && [ "$(cat said)" = "$wanted" ] || { say "fedrt run: exit code $code"; cat said; exit 1; }

say "with torch: the first command trains"
"$place/fresh/bin/python" - "$here" <<'PYTHON'
"""Let the new environment find torch and scikit-learn where they are installed already."""
import sys
import sysconfig
from pathlib import Path

(site,) = Path(sys.argv[1]).glob("lib/python*/site-packages")
own = Path(sysconfig.get_path("purelib"))
(own / "zz_torch.pth").write_text(f"{site}\n")  # behind what is installed here
PYTHON
"$fedrt" run "${few[@]}" --json >summary.json
"$place/fresh/bin/python" -c '
import json, pathlib, fedrt
assert "fresh" in fedrt.__file__, fedrt.__file__
assert 0 < json.loads(pathlib.Path("summary.json").read_text())["final_accuracy"] <= 1'
"$place/fresh/bin/python" -c '
import gymnasium
from importlib.metadata import entry_points
assert entry_points(group="gymnasium.envs")["fedrt"].value == "fedrt.environment:register"
gymnasium.make("fedrt.environment:fedrt/HFEL-small-v0").reset(seed=0)'
say "all of it works"
