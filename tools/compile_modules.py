"""Compiles, with mypyc, the modules that are worth it: for the wheel, and for a checkout.

    python tools/compile_modules.py [--into FOLDER] [--machine aarch64]

Each module gets a compiled twin beside it, `_name.<python and platform>.so`, made of a copy of its source and
the source's hash. The twin is imported only if that hash fits (ottla/protocol/records/compiled.py),
so a twin that is older than its source does nothing. Needs mypy, setuptools and a C compiler; ends with 1
if something is missing. `pip install` runs this through hatch_build.py; then it installs none.

With --machine the twins are for another processor: its cross compiler compiles the C code that mypyc writes
(`aarch64-linux-gnu-gcc` of Debian's gcc-aarch64-linux-gnu). Python's headers are the same on 64-bit Linux.
"""

from __future__ import annotations

import argparse
import os
import sys
import sysconfig
import tempfile
from hashlib import sha256
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
SOURCES = ROOT / "src"
MODULES = ("ottla/protocol/records/record_decoder.py", "ottla/client/producer/murmur2.py")
"""What measurement has shown to pay: docs/decisions/0027 and 0025."""

MYPY_OPTIONS = ("--follow-imports=skip", "--ignore-missing-imports", "--no-incremental")
"""A module is compiled by itself: what it imports need not be there."""


def compile_for(machine: str) -> None:
    """Let setuptools use the cross compiler of another machine."""
    compiler = f"{machine}-linux-gnu-gcc"
    suffix = str(sysconfig.get_config_var("EXT_SUFFIX"))
    os.environ.update(
        CC=compiler,
        LDSHARED=f"{compiler} -shared",
        LDFLAGS="",
        SETUPTOOLS_EXT_SUFFIX=suffix.replace(os.uname().machine, machine),
    )


def compile_module(module: str, into: Path) -> Path:
    """Make the twin of a module under a folder and return where it is."""
    from mypyc.build import mypycify
    from setuptools import Distribution

    source = (SOURCES / module).read_bytes()
    twin = Path(f"_{Path(module).name}")
    here = Path.cwd()
    with tempfile.TemporaryDirectory(prefix="ottla-compile-") as work:
        os.chdir(work)
        try:
            twin.write_bytes(source + f'\nSOURCE_SHA256 = "{sha256(source).hexdigest()}"\n'.encode())
            distribution = Distribution(
                {"ext_modules": mypycify([*MYPY_OPTIONS, str(twin)], opt_level="3", debug_level="0")}
            )
            command = distribution.get_command_obj("build_ext")
            command.build_lib, command.build_temp = "made", "objects"
            command.ensure_finalized()
            command.run()
            (made,) = command.get_outputs()
            target = into / Path(module).parent / Path(made).name
            target.parent.mkdir(parents=True, exist_ok=True)
            # Put in its place in one step: a running program may have the old one open.
            unfinished = target.with_name(f".{target.name}.new")
            unfinished.write_bytes(Path(made).read_bytes())
            unfinished.replace(target)
        finally:
            os.chdir(here)
    return target


def main() -> None:
    """Compile all modules."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument(
        "--into", type=Path, default=SOURCES, help="where the twins go; else beside the modules"
    )
    parser.add_argument("--machine", default=os.uname().machine, help="the processor, as uname -m names it")
    options = parser.parse_args()
    if options.machine != os.uname().machine:
        compile_for(options.machine)
    into = options.into.resolve()
    for module in MODULES:
        print(compile_module(module, into))


if __name__ == "__main__":
    try:
        main()
    except Exception as error:  # of mypy, setuptools and compilers: there are many kinds
        sys.exit(f"not compiled: {type(error).__name__}: {error}")
