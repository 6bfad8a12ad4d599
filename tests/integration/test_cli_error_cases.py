"""What `ottla` says when something is wrong: one table of commands, exit codes and texts.

Each says what happened, and what to type. `{folder}` is an empty folder. The commands run in this process, as
the broker does; `WITHOUT` hides a package from them.
"""

import os
import pty
import re
import signal
import subprocess
import sys

import psutil
import pytest
from tests.waiting import wait_until

from ottla.cli.main import run

USAGE = 2
FAILURE = 1
MORE = "\n  more:  ottla explain OTTLA-"
NAME = "\n  a name has 1 to 249 letters, digits, dots, dashes or underscores\n"

CASES = [
    (
        "topic describe a*",
        FAILURE,
        f"error: no topic matches 'a*'\n  see the topics:  ottla topic list{MORE}E201\n",
    ),
    (
        "topic delete zz* --yes",
        FAILURE,
        f"error: no topic matches 'zz*'\n  see the topics:  ottla topic list{MORE}E201\n",
    ),
    (
        "topic create a/b",
        FAILURE,
        f"error: topic name 'a/b' has characters other than ASCII letters, digits, '.', '_' and '-'{NAME}",
    ),
    ("topic create ..", FAILURE, f"error: a topic name cannot be '..'{NAME}"),
    (
        "topic describe nope",
        FAILURE,
        "error: there is no topic 'nope'\n  list them:  ottla topic list\n"
        f"  create it:  ottla topic create nope{MORE}E201\n",
    ),
    (
        "topic create orders",
        FAILURE,
        f"error: topic 'orders' exists\n  see: ottla topic describe orders{MORE}E204\n",
    ),
    (
        "topic create t --partitions 0",
        USAGE,
        "error: invalid value for '-p' / '--partitions': 0 is less than 1\n"
        "  see:  ottla topic create --help  (OTTLA-E501)\n",
    ),
    (
        "topic alter orders",
        USAGE,
        "error: nothing to change: give --partitions, --set or --unset\n"
        "  see:  ottla topic alter --help  (OTTLA-E501)\n",
    ),
    (
        "topic alter orders --partitions 1",
        FAILURE,
        "error: topic 'orders' has 2 partitions; partitions can only be added, so 1 is too few\n",
    ),
    (
        "topic create t --set retention.msx=1",
        FAILURE,
        "error: Unknown topic config name: retention.msx (unknown topic key; did you mean retention.ms?)\n"
        f"  list them:  ottla topic describe TOPIC --configs{MORE}E301\n",
    ),
    (
        "topic create t --set novalue",
        USAGE,
        "error: invalid value for '--set' / '--config': 'novalue' is not key=value\n"
        "  see:  ottla topic create --help  (OTTLA-E501)\n",
    ),
    ("produce a/b x", FAILURE, f"error: a/b: the topic name is not allowed (INVALID_TOPIC_EXCEPTION){NAME}"),
    (
        "produce orders x --partition 99",
        FAILURE,
        "Wrote 0 records to orders\nerror: orders has no partition 99: it has 2, numbered from 0"
        f"{MORE}E201\n",
    ),
    (
        "produce orders x --key a --key-separator b",
        USAGE,
        "error: --key and --key-separator exclude each other\n  see:  ottla produce --help  (OTTLA-E501)\n",
    ),
    (
        "consume orders --offset banana",
        USAGE,
        "error: 'banana' is not an offset: write start, end, N, -N (the last N), @TIME, or FROM:TO of these\n"
        "  see:  ottla consume --help  (OTTLA-E501)\n",
    ),
    (
        "consume orders --partition 9 --exit",
        FAILURE,
        "error: orders has no partition 9: it has 2, numbered from 0\n  see: ottla topic describe orders\n",
    ),
    (
        "consume orders --format %q",
        USAGE,
        "error: %q is not known; there are %t %p %o %T %k %v %s %K %V %S %R %h and %%\n"
        "  see:  ottla consume --help  (OTTLA-E501)\n",
    ),
    (
        "consume [ --regex",
        USAGE,
        "error: '[' is not a regular expression: unterminated character set at position 0\n"
        "  see:  ottla consume --help  (OTTLA-E501)\n",
    ),
    (
        "consume orders --group g --offset start",
        USAGE,
        "error: --group excludes --offset and --partition: the group decides; to move it: ottla group seek\n"
        "  see:  ottla consume --help  (OTTLA-E501)\n",
    ),
    (
        "serve --data {folder}/data --listen 127.0.0.1:99999",
        USAGE,
        "error: --listen: there is no port 99999: they are 1 to 65535, and 0 is any free one\n"
        "  see:  ottla serve --help  (OTTLA-E501)\n",
    ),
    (
        "serve --data {folder}/data --listen 127.0.0.1:abc",
        USAGE,
        "error: --listen: '127.0.0.1:abc' is not HOST:PORT, such as 127.0.0.1:9092 or [::1]:9092\n"
        "  see:  ottla serve --help  (OTTLA-E501)\n",
    ),
    (
        "serve --data {folder}/data --set log.retentoin.ms=5",
        FAILURE,
        "error: log.retentoin.ms: unknown broker key; did you mean log.retention.ms?\n"
        f"  every key, its values and its default:  docs/configuration.md{MORE}E301\n",
    ),
    (
        "registry serve --listen 127.0.0.1:70000",
        USAGE,
        "error: --listen: there is no port 70000: they are 1 to 65535, and 0 is any free one\n"
        "  see:  ottla registry serve --help  (OTTLA-E501)\n",
    ),
    (
        "topic list -b localhost:70000",
        USAGE,
        "error: 'localhost:70000' has no valid port: it must be a number from 1 to 65535 "
        "(in --bootstrap-server or OTTLA_BOOTSTRAP)\n  see:  ottla topic list --help  (OTTLA-E501)\n",
    ),
    (
        "topic list -b 127.0.0.1:1",
        FAILURE,
        "error: no broker at 127.0.0.1:1: connection refused\n  start one with: ottla serve\n"
        f"  use another one with -b HOST:PORT or OTTLA_BOOTSTRAP{MORE}E101\n",
    ),
    (
        "topic list -b http://127.0.0.1:8080",
        USAGE,
        "error: 'http://127.0.0.1:8080' is not HOST:PORT: leave out http:// "
        "(in --bootstrap-server or OTTLA_BOOTSTRAP)\n  see:  ottla topic list --help  (OTTLA-E501)\n",
    ),
    (
        "topic list -X request.timeout.ms=abc",
        USAGE,
        "error: request.timeout.ms: must be a whole number, not 'abc' "
        "(in -X, the profile or --command-config)\n"
        "  see:  ottla topic list --help  (OTTLA-E501)\n",
    ),
    (
        "topic list -X security.protocol=SASL_PLAINTEXT -X sasl.mechanism=PLAIN -X sasl.username=a "
        "-X sasl.password=b",
        FAILURE,
        "error: {broker} refused the login: this listener takes no SASL login; "
        "use security.protocol PLAINTEXT or SSL there\n"
        f"  check -X sasl.mechanism, sasl.username and sasl.password, or the profile{MORE}E106\n",
    ),
    (
        "serve --listen 192.0.2.1:9092 --data {folder}/data",
        FAILURE,
        "error: cannot listen on PLAINTEXT://192.0.2.1:9092: this machine does not have that address\n"
        f"  Listen on 0.0.0.0, and give the address of clients with --advertise{MORE}E302\n",
    ),
    (
        "topik list",
        USAGE,
        "error: there is no command 'topik'; did you mean topic?\n  see:  ottla --help  (OTTLA-E501)\n",
    ),
    (
        "generate nothing",
        USAGE,
        "error: there is no command 'nothing'\n  see:  ottla generate --help  (OTTLA-E501)\n",
    ),
    (
        "group describe nope",
        FAILURE,
        f"error: there is no group 'nope'\n  there are no groups yet{MORE}E202\n",
    ),
    (
        "topic list --profile nope",
        FAILURE,
        f"error: there is no profile 'nope'\n  {{folder}}/profiles.toml has none yet{MORE}E502\n",
    ),
    (
        "topic list -X sasl.mechanisn=PLAIN",
        USAGE,
        "error: sasl.mechanisn: unknown option; did you mean sasl.mechanism? "
        "(in -X, the profile or --command-config)\n  see:  ottla topic list --help  (OTTLA-E501)\n",
    ),
    (
        "connect list --url http://127.0.0.1:1",
        FAILURE,
        "error: no Connect worker at http://127.0.0.1:1: connection refused\n"
        "  start one with:  ottla connect serve\n  name another one with --url URL or OTTLA_CONNECT\n",
    ),
    (
        "registry subject list --url ftp://x",
        USAGE,
        "error: --url: 'ftp://x' does not begin with http:// or https://\n"
        "  see:  ottla registry subject list --help  (OTTLA-E501)\n",
    ),
    (
        "serve --listen no..such:9092 --data {folder}/data",
        FAILURE,
        "error: cannot listen on PLAINTEXT://no..such:9092: the host name 'no..such' does not resolve\n"
        "  Listen on an address of this machine, such as 127.0.0.1 or 0.0.0.0: --listen HOST:PORT"
        f"{MORE}E302\n",
    ),
    (
        "-b 127.0.0.1:9092 topic list",
        USAGE,
        "error: no such option '-b'\n  options follow the command:  ottla topic list -b HOST:PORT\n"
        "  see:  ottla --help  (OTTLA-E501)\n",
    ),
    (
        "consume orders -n abc",
        USAGE,
        "error: invalid value for '-n' / '--max-messages': 'abc' is not a whole number\n"
        "  see:  ottla consume --help  (OTTLA-E501)\n",
    ),
    (
        "cluster health --wait soon",
        USAGE,
        "error: invalid value for '--wait': 'soon' is not a number\n"
        "  see:  ottla cluster health --help  (OTTLA-E501)\n",
    ),
    (
        "cluster reassign orders --to",
        USAGE,
        "error: option '--to' requires an argument\n  see:  ottla cluster reassign --help  (OTTLA-E501)\n",
    ),
    ("log dump {folder}/nope", FAILURE, "error: there is no file {folder}/nope\n"),
    (
        "cluster decommission 9",
        FAILURE,
        "error: there is no broker 9\n  the brokers are 1\n",
    ),
    (
        "cluster move-replicas 9 orders --to {folder}",
        FAILURE,
        "error: there is no broker 9\n  the brokers are 1\n",
    ),
    ("explain OTTLA-nope", FAILURE, "error: there is no code 'OTTLA-nope'\n  list them:  ottla explain\n"),
]

WITHOUT = [
    ("kazoo", "serve -n 3 --data {folder}/data", "zookeeper"),
    ("kazoo", "serve --zookeeper 127.0.0.1:1 --data {folder}/data", "zookeeper"),
    ("starlette", "connect serve", "connect"),
    ("starlette", "console serve", "console"),
    ("cryptography", "security init {folder}/secrets", "security"),
]


@pytest.fixture
def ottla(ottla_broker, tmp_path, monkeypatch, capfd):
    """Return a function that runs a command line and gives its exit code and standard error."""
    monkeypatch.setenv("OTTLA_BOOTSTRAP", ottla_broker.bootstrap_servers)
    monkeypatch.setenv("OTTLA_PROFILES", str(tmp_path / "profiles.toml"))
    monkeypatch.setenv("COLUMNS", "200")

    def command(words):
        code = run([word.format(folder=tmp_path) for word in words.split()])
        return code, capfd.readouterr().err

    assert command("topic create orders --partitions 2")[0] == 0
    return command


@pytest.mark.parametrize(("words", "code", "said"), CASES, ids=[words for words, _, _ in CASES])
def test_an_error_says_what_happened_and_what_to_type(ottla, ottla_broker, tmp_path, words, code, said):
    said = said.replace("{broker}", ottla_broker.bootstrap_servers)
    assert ottla(words) == (code, said.replace("{folder}", str(tmp_path)))
    assert [each.name for each in tmp_path.iterdir()] == [], "it made something before it failed"


@pytest.mark.parametrize(("package", "words", "extra"), WITHOUT, ids=[words for _, words, _ in WITHOUT])
def test_a_missing_package_is_named_with_its_extra_before_anything_starts(
    ottla, tmp_path, monkeypatch, package, words, extra
):
    for name in [each for each in sys.modules if re.match(rf"{package}(\.|$)", each)]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, package, None)
    assert ottla(words) == (
        FAILURE,
        f"error: this needs the package {package}, which is not installed\n"
        f"  install it:  pip install 'ottla[{extra}]'{MORE}E402\n",
    )
    assert [each.name for each in tmp_path.iterdir()] == []


@pytest.mark.parametrize("output", ["> /dev/full", ">&-", ">&- 2>&-"])
@pytest.mark.parametrize("words", ["explain", "--help"])
def test_an_output_that_cannot_be_written_is_no_traceback(words, output):
    script = f"{sys.executable} -m ottla.cli {words} {output}"
    done = subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=False)
    full = "error: cannot write: No space left on device\n"
    assert (done.returncode, done.stderr) == ((FAILURE, full) if "full" in output else (0, ""))


@pytest.mark.parametrize(
    ("name", "said"), [("gr\xfc\xdfe", "characters other than"), (b"\xff", "is not UTF-8")]
)
def test_arguments_in_a_locale_without_utf_8(ottla_broker, name, said):
    words = ("group", "describe", name) if name == b"\xff" else ("topic", "create", name)
    done = subprocess.run(
        [sys.executable, "-m", "ottla.cli", *words, "-b", ottla_broker.bootstrap_servers],
        env={**os.environ, "LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == FAILURE
    assert said in done.stderr
    assert "Traceback" not in done.stderr


def test_ctrl_c_at_a_question_ends_the_command(ottla_broker):
    where = ("-b", ottla_broker.bootstrap_servers)
    assert run(["topic", "create", "kept", *where]) == 0
    controller, terminal = pty.openpty()
    command = [sys.executable, "-m", "ottla.cli", "topic", "delete", "kept", *where]
    with subprocess.Popen(command, stdin=terminal, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        question = "Delete kept and all their records? [y/N]:"
        assert process.stderr.read(len(question)) == question
        asking = psutil.Process(process.pid)
        wait_until(lambda: asking.status() == psutil.STATUS_SLEEPING, "the command reads the answer")
        process.send_signal(signal.SIGINT)
        assert process.wait(20) == 130
        assert process.stderr.read().strip() == "interrupted"
    os.close(controller)
    os.close(terminal)


def test_a_pipeline_without_spark_shows_the_extra_and_no_traceback(ottla, tmp_path, monkeypatch, capfd):
    monkeypatch.chdir(tmp_path)
    assert ottla("pipeline init {folder}/sums")[0] == 0
    for name in [each for each in sys.modules if re.match(r"(pyspark|py4j)(\.|$)", each)]:
        monkeypatch.delitem(sys.modules, name)
    for name in ("pyspark", "py4j"):
        monkeypatch.setitem(sys.modules, name, None)
    code, said = ottla("pipeline run {folder}/sums")
    assert code == FAILURE
    assert "Traceback" not in said
    assert "pip install 'ottla[spark]'" in said
