import click
import pytest

from ottla import broker
from ottla.broker import BrokerAddresses, StartError
from ottla.cli.serve.command import announce, raw_config
from ottla.common.config.broker import BrokerConfig
from ottla.common.config.declaration import ConfigError
from ottla.common.listeners import Address, parse_listeners


@pytest.fixture
def started(monkeypatch):
    """What the broker was started with; it pretends to run and stops at once."""
    calls = []

    def run(raw, *, ephemeral, on_ready):
        BrokerConfig(raw)  # as the real one does: refuses what is wrong
        calls.append((dict(raw), ephemeral))
        on_ready(BrokerAddresses(1, "cluster", "/data", (("PLAINTEXT", Address("127.0.0.1", 9092)),)))
        return 0

    monkeypatch.setattr(broker, "run", run)
    return calls


def test_without_options_the_keys_keep_their_defaults(ottla, started):
    done = ottla("serve")
    assert done.code == 0
    assert started == [({}, False)]
    assert BrokerConfig({}).data_directory == "./ottla-data"
    assert BrokerConfig({}).listeners == "PLAINTEXT://127.0.0.1:9092"


def test_one_line_that_begins_with_ready_goes_to_standard_output(ottla, started):
    assert ottla("serve").out == b"ready 127.0.0.1:9092\n"


def test_options_are_short_names_for_keys(ottla, started):
    ottla("serve", "--data", "d", "--node-id", "7", "--listen", ":9093", "--advertise", "example.org:9093")
    assert started[0][0] == {
        "log.dirs": "d",
        "node.id": "7",
        "listeners": "PLAINTEXT://:9093",
        "advertised.listeners": "PLAINTEXT://example.org:9093",
    }


def test_every_disk_has_a_data_directory(ottla, started):
    ottla("serve", "--data", "/a", "--data", "/b")
    assert started[0][0] == {"log.dirs": "/a,/b"}


def test_set_wins_over_the_file_and_options_win_over_it_too(ottla, started, tmp_path):
    file = tmp_path / "server.properties"
    file.write_text("# mine\nnum.partitions=3\nlog.dir=/old\nbroker.id=4\nmessage.max.bytes=2000\n")
    ottla("serve", "--config", str(file), "--set", "num.partitions=5", "--data", "new", "--node-id", "6")
    assert started[0][0] == {
        "num.partitions": "5",
        "message.max.bytes": "2000",
        "log.dirs": "new",
        "node.id": "6",
    }


@pytest.mark.parametrize(
    ("mode", "line", "is_warned"),
    [
        (0o644, "ssl.keystore.password=hush", True),
        (0o600, "ssl.keystore.password=hush", False),
        (0o644, "num.partitions=3\ndelegation.token.max.lifetime.ms=5000", False),
    ],
)
def test_a_file_with_passwords_that_others_can_read_is_warned_of(
    ottla, started, tmp_path, mode, line, is_warned
):
    file = tmp_path / "server.properties"
    file.write_text(f"{line}\n")
    file.chmod(mode)
    done = ottla("serve", "--config", str(file))
    assert done.code == 0
    said = f"others can read {file}, which has passwords; run: chmod 600 {file}"
    assert (said in done.err) is is_warned
    assert "hush" not in done.err


def test_every_listener_has_a_name_and_a_protocol():
    raw = raw_config({}, {}, listen=("127.0.0.1:1", "[::1]:2"), advertise=("a:1", "b:2"))
    first, second = parse_listeners(
        raw["listeners"], raw["advertised.listeners"], raw["listener.security.protocol.map"]
    )
    assert (first.name, first.host, first.port, first.advertised) == (
        "PLAINTEXT",
        "127.0.0.1",
        1,
        Address("a", 1),
    )
    assert (second.name, second.host, second.port, second.advertised) == (
        "PLAINTEXT_2",
        "::1",
        2,
        Address("b", 2),
    )


def test_a_listener_without_a_port_gets_kafkas():
    assert raw_config({}, {}, listen=("localhost",))["listeners"] == "PLAINTEXT://localhost:9092"


@pytest.mark.parametrize("address", ["a:b", "1:2:3", "http://x:1", "[::1:1"])
def test_an_address_that_is_none_is_wrong_usage(ottla, started, address):
    failed = ottla("serve", "--listen", address)
    assert failed.code == 2
    assert f"--listen: {address!r} is not HOST:PORT" in failed.err


@pytest.mark.parametrize(
    ("args", "reason"),
    [
        (("--ephemeral", "--data", "d"), "--ephemeral excludes --data"),
        (("--ephemeral", "--set", "log.dirs=d"), "--ephemeral excludes --data and --set log.dirs"),
        (("--node-id", "1", "--set", "node.id=2"), "--node-id and --set node.id exclude each other"),
        (("--listen", ":1", "--set", "listeners=x"), "--listen and --set listeners exclude each other"),
        (("--advertise", "a:1", "--advertise", "b:1"), "there are more --advertise than --listen"),
        (("--set", "a"), "'a' is not key=value"),
        (("--set", "a=1", "--set", "a=2"), "a is given twice"),
    ],
)
def test_options_that_contradict_are_wrong_usage_of_serve(ottla, started, args, reason):
    failed = ottla("serve", *args)
    assert failed.code == 2
    assert reason in failed.err
    assert started == []


def test_an_ephemeral_broker_leaves_the_files_directory_alone(ottla, started, tmp_path):
    file = tmp_path / "server.properties"
    file.write_text("log.dirs=/precious\n")
    ottla("serve", "--config", str(file), "--ephemeral")
    assert started == [({}, True)]


def test_an_unknown_key_comes_with_the_nearest_one(ottla, started):
    failed = ottla("serve", "--set", "log.segment.byte=5")
    assert (failed.code, failed.out) == (1, b"")
    assert "error: log.segment.byte: unknown broker key; did you mean log.segment.bytes?\n" in failed.err
    assert "OTTLA-E301" in failed.err


def test_a_config_file_that_is_not_there_is_named(ottla, started):
    failed = ottla("serve", "--config", "/nowhere/x.properties")
    assert failed.code == 1
    assert "error: /nowhere/x.properties: cannot be read: No such file or directory\n" in failed.err


@pytest.mark.parametrize(
    "error", [ConfigError("advertised.listeners", "must be set"), StartError("the port is taken")]
)
def test_a_broker_that_cannot_start_says_why(ottla, monkeypatch, error):
    def run(raw, *, ephemeral, on_ready):
        raise error

    monkeypatch.setattr(broker, "run", run)
    failed = ottla("serve")
    assert failed.code == 1
    assert failed.err.startswith(f"error: {error}\n")
    assert ("--advertise HOST:PORT" in failed.err) == isinstance(error, ConfigError)


def test_a_person_sees_a_banner_that_fits_and_says_what_to_type(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setattr("ottla.cli.serve.command.is_terminal", lambda stream: True)
    listeners = (("PLAINTEXT", Address("127.0.0.1", 19092)), ("PLAINTEXT_2", Address("::1", 19093)))
    announce(BrokerAddresses(7, "a-cluster", "/a/directory" * 8, listeners))
    out, err = capsys.readouterr()
    assert out == "ready 127.0.0.1:19092 [::1]:19093\n"
    assert max(map(len, err.splitlines())) <= 80
    for word in ("127.0.0.1:19092", "[::1]:19093", "7 of cluster a-cluster", "-b 127.0.0.1:19092", "Ctrl-C"):
        assert word in err


def test_the_banner_at_the_default_address_needs_no_option(capsys, monkeypatch):
    monkeypatch.setattr("ottla.cli.serve.command.is_terminal", lambda stream: True)
    announce(BrokerAddresses(1, "c", "d", (("PLAINTEXT", Address("127.0.0.1", 9092)),)))
    assert "echo hello | ottla produce greetings" in click.unstyle(capsys.readouterr().err)
