"""A Python that Spark starts connects before it imports anything that could take long."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import venv
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

SOURCES = Path(__file__).resolve().parents[4] / "src"
AT_START = "ottla_early_connection.pth"
WITHIN_S = 60.0
SECRET = b"a secret of the JVM"
UTIL = """
import os, socket
open(os.environ["GATE"]).read()  # blocks until the JVM has accepted the connection

def local_connect_and_auth(address, secret):
    connection = socket.socket(socket.AF_UNIX) if secret is None else socket.socket()
    connection.connect(address if secret is None else ("127.0.0.1", address))
    return connection.makefile("rwb"), connection
"""
RUNNER = """
import os
from pyspark.util import local_connect_and_auth

path, port = os.environ.get("PYTHON_WORKER_FACTORY_SOCK_PATH"), os.environ.get("PYTHON_WORKER_FACTORY_PORT")
secret = os.environ.get("PYTHON_WORKER_FACTORY_SECRET")
for _ in range(int(os.environ.get("TIMES", 1))):
    file, _ = local_connect_and_auth(path or int(port), secret)
    file.write(b"the worker")
    file.close()
"""


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A Python with a stand-in for pyspark that is slow to import, and with what our wheel brings."""
    folder = tmp_path_factory.mktemp("python")
    venv.create(folder, with_pip=False, symlinks=True)
    libraries = folder / "lib" / f"python{sys.version_info.major}.{sys.version_info.minor}" / "site-packages"
    (libraries / "libraries.pth").write_text(f"{SOURCES}\n")
    (libraries / AT_START).write_bytes((SOURCES / AT_START).read_bytes())
    (libraries / "pyspark").mkdir()
    (libraries / "pyspark" / "__init__.py").write_text("")
    (libraries / "pyspark" / "util.py").write_text(UTIL)
    (libraries / "pyspark" / "runner.py").write_text(RUNNER)
    return folder / "bin" / "python"


@contextmanager
def started(python: Path, gate: Path, **environment: str) -> Iterator[subprocess.Popen[bytes]]:
    """Start the process as Spark does."""
    os.mkfifo(gate)
    clean = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("PYTHON_WORKER_FACTORY", "SPARK_"))
    }
    process = subprocess.Popen(
        [python, "-m", "pyspark.runner"], env={**clean, **environment, "GATE": str(gate), "PYTHONPATH": ""}
    )
    try:
        yield process
        assert process.wait(WITHIN_S) == 0
    finally:
        process.kill()
        process.wait()


def test_spark_hears_of_the_process_before_its_imports(python: Path, tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(tmp_path / "jvm"))
        listener.listen(1)
        listener.settimeout(WITHIN_S)
        path = {"PYTHON_WORKER_FACTORY_SOCK_PATH": str(tmp_path / "jvm")}
        with started(python, tmp_path / "gate", **path):
            connection, _ = listener.accept()  # pyspark.util is not imported yet: the gate is closed
            (tmp_path / "gate").write_text("open")
            assert connection.makefile("rb").read() == b"the worker"


def test_a_secret_is_shown_where_spark_asks_for_it(python: Path, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.settimeout(WITHIN_S)
        there = {
            "PYTHON_WORKER_FACTORY_PORT": str(listener.getsockname()[1]),
            "PYTHON_WORKER_FACTORY_SECRET": SECRET.decode(),
        }
        with started(python, tmp_path / "gate", **there):
            connection, _ = listener.accept()
            with connection, connection.makefile("rwb") as file:
                assert file.read(4 + len(SECRET)) == len(SECRET).to_bytes(4, "big") + SECRET
                (tmp_path / "gate").write_text("open")  # it imports while Spark has not answered
                file.write((2).to_bytes(4, "big") + b"ok")
                file.flush()
                assert file.read() == b"the worker"


def test_a_second_connection_is_a_new_one(python: Path, tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(tmp_path / "jvm"))
        listener.listen(2)
        listener.settimeout(WITHIN_S)
        path = {"PYTHON_WORKER_FACTORY_SOCK_PATH": str(tmp_path / "jvm"), "TIMES": "2"}
        with started(python, tmp_path / "gate", **path):
            connections = [listener.accept()[0]]
            (tmp_path / "gate").write_text("open")
            connections.append(listener.accept()[0])
            assert [each.makefile("rb").read() for each in connections] == [b"the worker"] * 2


def test_without_spark_the_process_starts_and_pyspark_says_why(python: Path, tmp_path: Path) -> None:
    (tmp_path / "open").write_text("open")
    done = subprocess.run(
        [python, "-m", "pyspark.runner"],
        env={"PYTHON_WORKER_FACTORY_SOCK_PATH": str(tmp_path / "nobody"), "GATE": str(tmp_path / "open")},
        capture_output=True,
        text=True,
        timeout=WITHIN_S,
    )
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1] == "FileNotFoundError: [Errno 2] No such file or directory"


@pytest.mark.parametrize("program", ["other", "pyspark.other"])
def test_a_process_that_is_not_spark_s_worker_is_left_alone(
    python: Path, tmp_path: Path, program: str
) -> None:
    """Programs that a worker starts inherit its environment; and pyspark 3 connects by another function."""
    folder = tmp_path / "before"
    (folder / "pyspark").mkdir(parents=True)
    (folder / "other.py").write_text("")
    (folder / "pyspark" / "__init__.py").write_text("")
    (folder / "pyspark" / "util.py").write_text("")
    (folder / "pyspark" / "other.py").write_text("import pyspark.util")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(tmp_path / "jvm"))
        listener.listen(1)
        listener.setblocking(False)
        environment = {"PYTHON_WORKER_FACTORY_SOCK_PATH": str(tmp_path / "jvm"), "PYTHONPATH": str(folder)}
        done = subprocess.run(
            [python, "-m", program], env=environment, capture_output=True, text=True, timeout=WITHIN_S
        )
        assert (done.returncode, done.stderr) == (0, "")
        with pytest.raises(BlockingIOError):
            listener.accept()


def test_other_users_of_the_finders_are_not_disturbed(python: Path, tmp_path: Path) -> None:
    """A `sitecustomize` runs between our connection and the import of pyspark."""
    (tmp_path / "sitecustomize.py").write_text(
        "import importlib, importlib.metadata as metadata, sys\n"
        "assert 'EarlyConnection' in type(sys.meta_path[0]).__name__\n"
        "importlib.invalidate_caches()\n"
        "assert not [each for each in metadata.distributions() if each.metadata['Name'] == 'nothing']\n"
    )
    (tmp_path / "open").write_text("open")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(tmp_path / "jvm"))
        listener.listen(1)
        environment = {
            "PYTHON_WORKER_FACTORY_SOCK_PATH": str(tmp_path / "jvm"),
            "PYTHONPATH": str(tmp_path),
            "GATE": str(tmp_path / "open"),
        }
        done = subprocess.run(
            [python, "-m", "pyspark.runner"],
            env=environment,
            capture_output=True,
            text=True,
            timeout=WITHIN_S,
        )
        assert (done.returncode, done.stderr) == (0, "")
