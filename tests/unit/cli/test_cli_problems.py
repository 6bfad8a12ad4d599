import errno
import re
import subprocess
import sys
from pathlib import Path

import pytest

from ottla.cli.explain import as_text
from ottla.cli.main import COMMANDS
from ottla.cli.support import problem_kinds
from ottla.cli.support.problem_docs import problems_page
from ottla.cli.support.problem_kinds import KINDS, Kind, kind_named
from ottla.cli.support.session import error_response, no_response
from ottla.cli.support.start_problems import could_not_start
from ottla.client.errors import BrokerUnreachable, TimedOut
from ottla.common.java import JavaNotFound
from ottla.protocol.errors import KafkaStorageError
from ottla.wire.address import Address
from ottla.wire.errors import error_for

SOURCES = Path(problem_kinds.__file__).parents[1]
kinds = pytest.mark.parametrize("kind", KINDS.values(), ids=lambda kind: kind.code)


def test_no_code_is_given_twice():
    declared = [each for each in vars(problem_kinds).values() if isinstance(each, Kind)]
    assert len(declared) == len({each.code for each in declared}) == len(KINDS)


@kinds
def test_every_kind_is_raised_somewhere(kind):
    (name,) = [name for name, each in vars(problem_kinds).items() if each is kind]
    others = [each for each in SOURCES.rglob("*.py") if each.name != "problem_kinds.py"]
    assert any(re.search(rf"\b{name}\b", each.read_text()) for each in others)


@kinds
def test_every_explanation_fits_80_columns_and_has_something_to_do(kind):
    assert kind.fix
    assert max(map(len, as_text(kind).splitlines())) <= 80


@kinds
def test_every_command_in_an_explanation_exists(kind):
    for command in re.findall(r"`ottla ([a-z]+)", " ".join(kind.fix)):
        assert command in COMMANDS


@kinds
def test_every_kind_has_a_section_of_the_docs(kind):
    assert f"\n## {kind.code}\n\n**{kind.title}.**" in problems_page()


@pytest.mark.parametrize("text", ["OTTLA-E101", "ottla-e101", "E101", "101"])
def test_a_code_is_found_however_it_is_written(ottla, text):
    assert kind_named(text) is problem_kinds.NO_BROKER
    assert ottla("explain", text).lines[0] == "OTTLA-E101: No broker answers"


def test_a_code_that_does_not_exist_is_refused(ottla):
    assert "there is no code 'E999'" in ottla("explain", "E999").err


def test_all_codes_are_listed(ottla):
    assert [line.split()[0] for line in ottla("explain").lines[1:]] == list(KINDS)


def caused(error: Exception, cause: Exception | None) -> Exception:
    error.__cause__ = cause
    return error


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (caused(Exception("x"), OSError(errno.ENOSPC, "No space left")), "OTTLA-E304"),
        (caused(Exception("x"), OSError(errno.EADDRINUSE, "in use")), "OTTLA-E302"),
        (caused(Exception("ZooKeeper is a Java program"), JavaNotFound("no Java")), "OTTLA-E401"),
        (Exception("log directory /d is in use by process 7"), "OTTLA-E303"),
        (Exception("no jars; pip install 'ottla[spark]'"), "OTTLA-E402"),
    ],
)
def test_what_keeps_a_broker_from_starting_has_a_code(error, code):
    assert could_not_start(error).kind.code == code


def test_what_to_type_has_a_line_of_its_own():
    problem = could_not_start(
        Exception("cannot listen on :9092: address already in use. Choose another port")
    )
    assert problem.message == "cannot listen on :9092: address already in use"
    assert problem.hints == ("Choose another port",)


@pytest.mark.parametrize(
    ("cause", "code"),
    [
        (BrokerUnreachable([Address("h", 3)], "connection refused", advertised_by="broker 1"), "OTTLA-E102"),
        (KafkaStorageError("No space left on device"), "OTTLA-E304"),
        (None, "OTTLA-E108"),
    ],
)
def test_records_that_were_not_delivered_in_time_have_the_code_of_the_reason(cause, code):
    assert no_response(caused(TimedOut("1 record not delivered within 120000 ms"), cause)).kind.code == code


def test_one_of_several_brokers_that_does_not_answer_is_named():
    """`ottla topic create` said that there is no broker, and to start one, while the controller was dying."""
    problem = no_response(BrokerUnreachable([Address("h", 1)], "connection refused", node_id=2))
    assert problem.message == "broker 2 at h:1 does not answer: connection refused"
    assert "see what is missing:  ottla cluster health" in problem.hints


def test_a_name_alone_is_no_message():
    """`ottla cluster backup` said `error: billing` while the group's coordinator could not be reached."""
    assert error_response(error_for(15, "billing")).message.startswith("billing: ")
    assert "(COORDINATOR_NOT_AVAILABLE)" in error_response(error_for(15, "billing")).message
    assert error_response(error_for(15, "no coordinator yet")).message == "no coordinator yet"


def test_no_colours_if_they_are_switched_off(ottla, monkeypatch):
    monkeypatch.setenv("NO_COLOR", "1")
    assert "\x1b" not in ottla("topics").err


def test_a_package_that_is_not_installed_is_named_with_its_extra():
    script = (
        "import sys; sys.modules['kazoo'] = None\n"
        "from ottla.cli.main import run\n"
        "sys.exit(run(['serve', '--ephemeral', '--listen', '127.0.0.1:0', '--zookeeper', '127.0.0.1:1']))\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "pip install 'ottla[zookeeper]'" in done.stderr
    assert "OTTLA-E402" in done.stderr
    assert "Traceback" not in done.stderr
