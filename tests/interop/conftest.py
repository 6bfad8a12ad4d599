"""Programs that other people wrote: kcat and Kafka's own Java tools. Absent ones skip their tests."""

from __future__ import annotations

import itertools
import shutil
import subprocess
from collections.abc import Callable, Iterator, Sequence

import pytest
from tests.integration.clients import HasAddress, NewName
from tests.integration.confluent_client import ConfluentClient
from tests.interop.fetch_jars import KAFKA_JARS
from tests.interop.java_process import OPTIONS, require_java
from tests.interop.java_tools import QUIET, JavaTools

from ottla.common.ids import new_uuid

DEADLINE_S = 120
ALONE = {"org.apache.kafka.tools.VerifiableProducer"}
"""Tools that print their result when their Java machine ends."""
_numbers = itertools.count()
Tool = Callable[..., subprocess.CompletedProcess[str]]


def run_tool(command: Sequence[str], text: str, must_succeed: bool) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(
        command, input=text, capture_output=True, text=True, timeout=DEADLINE_S, check=False
    )
    return judged(done, must_succeed)


def judged(done: subprocess.CompletedProcess[str], must_succeed: bool) -> subprocess.CompletedProcess[str]:
    """Return what a tool did; fail the test if it failed and must not."""
    if must_succeed and done.returncode != 0:
        pytest.fail(f"{' '.join(done.args)}\nexit code {done.returncode}\n{done.stdout}\n{done.stderr}")
    return done


@pytest.fixture(scope="session")
def java() -> Iterator[Tool]:
    """Run a main class of Kafka's jars: `java("org.apache.kafka.tools.TopicCommand", "--list", ...)`."""
    require_java()
    tools = JavaTools()

    def run(
        main_class: str, *arguments: str, text: str = "", must_succeed: bool = True
    ) -> subprocess.CompletedProcess[str]:
        if main_class in ALONE:
            command = ["java", *OPTIONS, QUIET, "-cp", f"{KAFKA_JARS}/*", main_class, *arguments]
            return run_tool(command, text, must_succeed)
        return judged(tools.run(main_class, *arguments, text=text, within_s=DEADLINE_S), must_succeed)

    yield run
    tools.close()


@pytest.fixture(scope="session")
def kcat() -> Tool:
    """Run kcat: `kcat("-L", "-b", address)`."""
    program = shutil.which("kcat") or shutil.which("kafkacat")
    if program is None:
        pytest.skip("kcat is not installed; install it with: make interop (or: apt-get install kcat)")

    def run(*arguments: str, text: str = "", must_succeed: bool = True) -> subprocess.CompletedProcess[str]:
        return run_tool([program, *arguments], text, must_succeed)

    return run


@pytest.fixture(scope="module")
def client(broker: HasAddress) -> Iterator[ConfluentClient]:
    """A client to prepare topics with, and to look at what the tools did."""
    opened = ConfluentClient(broker.address)
    yield opened
    opened.close()


@pytest.fixture
def new_name() -> NewName:
    """Make topic names that nobody has used before."""
    run = new_uuid().hex[:8]
    return lambda: f"interop.{run}.{next(_numbers)}"


@pytest.fixture
def topic(client: ConfluentClient, new_name: NewName) -> str:
    """A topic with one partition and no overrides."""
    return client.create_topic(new_name())
