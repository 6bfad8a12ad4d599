"""Fetch the npm clients of schema registries, into `.npm/`: what `make interop` runs before its tests.

npm looks where the user's own settings say. No package's install script is run: none is needed.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

PACKAGES = {"@kafkajs/confluent-schema-registry": "^3.3.0", "@confluentinc/schemaregistry": "^1.0.0"}
NPM_ROOT = Path(__file__).resolve().parents[2] / ".npm"
DONE = NPM_ROOT / ".done"


def main() -> int:
    """Install the packages, unless they are there."""
    wanted = json.dumps({"name": "ottla-interop", "private": True, "dependencies": PACKAGES}, indent=2)
    if DONE.exists() and DONE.read_text() == wanted:
        return 0
    if shutil.which("npm") is None:
        print("no npm: the tests of npm clients will be skipped")
        return 0
    NPM_ROOT.mkdir(exist_ok=True)
    (NPM_ROOT / "package.json").write_text(wanted)
    done = subprocess.run(
        ["npm", "install", "--no-audit", "--no-fund", "--ignore-scripts", "--silent"],
        cwd=NPM_ROOT,
        check=False,
    )
    if done.returncode != 0:
        print("npm could not fetch its packages: their tests will be skipped")
        return 0
    DONE.write_text(wanted)
    return 0


if __name__ == "__main__":
    sys.exit(main())
