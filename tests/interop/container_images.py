"""Images for Podman where no registry can be reached: made of programs of this machine.

`python:3.12-slim` becomes this machine's Python with pip, what Ottla depends on and what builds it (from
PyPI), and the few programs that the Dockerfile of `ottla generate compose` runs; `zookeeper:3.9` becomes this
machine's Java with the ZooKeeper of pyspark's jars. Both get the names that the Compose file asks for, so
that it is used as it is.
"""

from __future__ import annotations

import io
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import tomllib
from collections.abc import Iterable, Sequence
from importlib.metadata import distribution
from pathlib import Path

from packaging.requirements import Requirement

from ottla.broker.zookeeper_server import MAIN_CLASS, zookeeper_jars
from ottla.cli.generated.compose import PYTHON_IMAGE, ZOOKEEPER_IMAGE
from ottla.common.java import find_java

DECLARED = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())
PROJECT, BUILD = DECLARED["project"], DECLARED["build-system"]
EXTRAS = PROJECT["optional-dependencies"]
PROGRAMS = ("sh", "mkdir", "chown", "useradd")
TEXTS = {
    "etc/passwd": "root:x:0:0::/root:/bin/sh\n",
    "etc/group": "root:x:0:\n",
    "etc/nsswitch.conf": "passwd: files\ngroup: files\nhosts: files dns\n",
    "etc/login.defs": "UID_MIN 1000\nGID_MIN 1000\nUSERGROUPS_ENAB yes\n",
    "etc/pip.conf": "[global]\nno-index = true\nfind-links = /wheels\n",
    "conf/zoo.cfg": "tickTime=2000\ndataDir=/data\nclientPort=2181\nadmin.enableServer=false\n",
}
# As the script of the real image does: it asks the server with a word of four letters.
ZK_SERVER_SH = (
    "#!/bin/sh\n{java} -cp '/jars/*' org.apache.zookeeper.client.FourLetterWordMain localhost 2181 srvr\n"
)
NOT_NEEDED = re.compile(
    r"/(test|tests|idlelib|tkinter|ensurepip|__pycache__|config-3[^/]*)(/|$)|\.(a|pyc|whl)$"
)


def make_images() -> None:
    """Make both."""
    _import(
        PYTHON_IMAGE,
        _python(),
        ["ENV PATH=/usr/local/bin:/usr/bin:/bin", "ENV LD_LIBRARY_PATH=/usr/local/lib"],
    )
    java = str(find_java())
    server = ["java", "-Xmx128m", "-XX:+UseSerialGC", "-cp", "/jars/*", MAIN_CLASS, "/conf/zoo.cfg"]
    entry = ", ".join(f'"{word}"' for word in [java, *server[1:]])
    _import(ZOOKEEPER_IMAGE, _zookeeper(Path(java)), ["ENV PATH=/usr/bin:/bin", f"ENTRYPOINT [{entry}]"])


def _import(image: str, content: bytes, changes: Sequence[str]) -> None:
    options = [word for change in changes for word in ("--change", change)]
    command = ["podman", "import", "--quiet", *options, "-", f"docker.io/library/{image}"]
    done = subprocess.run(command, input=content, capture_output=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr.decode()


def _python() -> bytes:
    """This interpreter in /usr/local, with pip and the packages that Ottla needs."""
    root = _Root()
    prefix, version = Path(sys.base_prefix), f"python{sys.version_info.major}.{sys.version_info.minor}"
    program = Path(sys._base_executable).resolve()  # type: ignore[attr-defined]
    root.add(program, f"usr/local/bin/{version}")
    for name in ("python", "python3"):
        root.link(f"usr/local/bin/{name}", version)
    library = prefix / "lib" / version
    root.add_tree(library, f"usr/local/lib/{version}", skip=("site-packages",))
    for shared in prefix.glob("lib/libpython3*.so*"):
        root.add(shared, f"usr/local/lib/{shared.name}")
    packages = f"usr/local/lib/{version}/site-packages"
    for name in ("pip", *needed_by_ottla()):
        root.add_distribution(name, packages)
    root.text(
        "usr/local/bin/pip",
        f"#!/usr/local/bin/{version}\nfrom pip._internal.cli.main import main\nmain()\n",
        0o755,
    )
    with tempfile.TemporaryDirectory() as wheels:
        pip = [sys.executable, "-m", "pip", "download", "--quiet", "--dest", wheels, *BUILD["requires"]]
        subprocess.run(pip, check=True, timeout=300)
        for wheel in Path(wheels).iterdir():
            root.add(wheel, f"wheels/{wheel.name}")
    root.add_programs(PROGRAMS)
    root.add_libraries([program, *library.glob("lib-dynload/*.so")])
    return root.finish()


def _zookeeper(java: Path) -> bytes:
    """This machine's Java where it is, and the jars of ZooKeeper."""
    root = _Root()
    home = java.resolve().parents[1]
    root.add_tree(home, str(home)[1:], skip=("src.zip", "jmods", "legal", "man"))
    root.link(str(java)[1:], str(java.resolve()))
    root.add_libraries([java.resolve(), *home.rglob("*.so")])
    for jar in zookeeper_jars():
        root.add(jar, f"jars/{jar.name}")
    root.add_programs(("sh",))
    root.text("usr/bin/zkServer.sh", ZK_SERVER_SH.format(java=java), 0o755)
    root.folder("data")
    return root.finish()


def needed_by_ottla() -> set[str]:
    """Return the names of all packages that a broker of a cluster needs."""
    found: set[str] = set()
    waiting = [Requirement(each) for each in (*PROJECT["dependencies"], *EXTRAS["zookeeper"])]
    while waiting:
        each = waiting.pop()
        if each.name in found:
            continue
        found.add(each.name)
        for line in distribution(each.name).requires or ():
            wanted = Requirement(line)
            if wanted.marker is None or any(
                wanted.marker.evaluate({"extra": extra}) for extra in (each.extras or {""})
            ):
                waiting.append(wanted)
    return found


class _Root:
    """The files of an image, as a tar archive that is being written."""

    def __init__(self) -> None:
        self._bytes = io.BytesIO()
        self._tar = tarfile.TarFile(fileobj=self._bytes, mode="w")
        self._names: set[str] = set()
        for folder in ("root", "home", "var/lib", "var/log", "run", "proc", "sys", "dev"):
            self.folder(folder)
        self.folder("tmp", 0o1777)
        for name, content in TEXTS.items():
            self.text(name, content)

    def finish(self) -> bytes:
        self._tar.close()
        return self._bytes.getvalue()

    def folder(self, name: str, mode: int = 0o755) -> None:
        info = tarfile.TarInfo(name)
        info.type, info.mode = tarfile.DIRTYPE, mode
        self._tar.addfile(info)

    def text(self, name: str, content: str, mode: int = 0o644) -> None:
        info = tarfile.TarInfo(name)
        info.size, info.mode = len(content), mode
        self._tar.addfile(info, io.BytesIO(content.encode()))
        self._names.add(name)

    def link(self, name: str, target: str) -> None:
        if name not in self._names:
            info = tarfile.TarInfo(name)
            info.type, info.linkname = tarfile.SYMTYPE, target
            self._tar.addfile(info)
            self._names.add(name)

    def add(self, file: Path, name: str) -> None:
        if name in self._names:
            return
        self._names.add(name)
        info = self._tar.gettarinfo(file.resolve(), name)
        info.uid = info.gid = 0
        info.mode |= 0o444
        with file.open("rb") as content:
            self._tar.addfile(info, content)

    def add_tree(self, folder: Path, name: str, skip: Iterable[str] = ()) -> None:
        for parent, folders, files in os.walk(folder):
            place = parent[len(str(folder)) :]
            folders[:] = [each for each in folders if f"{place}/{each}"[1:] not in skip]
            for file in files:
                if not NOT_NEEDED.search(f"{place}/{file}") and (Path(parent) / file).is_file():
                    self.add(Path(parent) / file, f"{name}{place}/{file}")

    def add_distribution(self, name: str, into: str) -> None:
        for file in distribution(name).files or ():
            if not str(file).startswith("..") and not NOT_NEEDED.search(f"/{file}"):
                self.add(Path(str(file.locate())), f"{into}/{file}")
                if file.suffix == ".so":
                    self.add_libraries([Path(str(file.locate()))])

    def add_programs(self, names: Iterable[str]) -> None:
        for name in names:
            program = shutil.which(name)
            assert program is not None, name
            self.add(Path(program), f"usr/bin/{name}")
            self.link(f"bin/{name}", f"/usr/bin/{name}")
            self.add_libraries([Path(program)])

    def add_libraries(self, files: Sequence[Path]) -> None:
        """Add the shared libraries that these files are linked with, where the loader looks for them."""
        said = subprocess.run(
            ["ldd", *map(str, files)], capture_output=True, text=True, timeout=60, check=False
        ).stdout
        for found in sorted(set(re.findall(r"(/\S+\.so\S*) \(0x", said))):
            path = Path(os.path.normpath(found))
            if path.is_relative_to(sys.base_prefix):
                self.add(path, f"usr/local/lib/{path.name}")
            else:
                self.add(path, str(path)[1:])
