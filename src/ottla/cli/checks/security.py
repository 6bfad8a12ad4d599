"""Check the security of brokers: certificates that expire, weak set-ups, secrets that others can read.

The set-up is read over the protocol (DescribeConfigs), which shows no secrets, or from a configuration file,
whose certificates and file modes are checked too.
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Iterator, Mapping
from datetime import UTC, datetime
from ipaddress import ip_address
from pathlib import Path

from ottla.cli.checks.findings import FAILED, OK, WARNING, Finding
from ottla.cli.support.problem_kinds import BAD_CONFIG, TLS
from ottla.cli.support.profiles import READABLE_BY_OTHERS, is_secret
from ottla.client.admin.config_admin import ConfigAdmin
from ottla.client.client_options import ClientOptions
from ottla.client.cluster import Cluster
from ottla.client.errors import ClientError
from ottla.common.config.declaration import ConfigError
from ottla.common.config.properties import read_properties
from ottla.common.config.security_keys import PLAIN
from ottla.common.listeners import Listener, parse_listeners
from ottla.common.tls_stores import StoreSettings, read_key_pair
from ottla.protocol.errors import KafkaError
from ottla.security.certificate_name import distinguished_name
from ottla.security.principal import ANONYMOUS

EXPIRES_SOON_DAYS = 14
CHECK = "security"
DEFAULT_PROTOCOLS = "PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_PLAINTEXT:SASL_PLAINTEXT,SASL_SSL:SASL_SSL"
STORES = ("ssl.keystore.location", "ssl.truststore.location")

Values = Mapping[str, str]


async def check_brokers(options: ClientOptions) -> AsyncIterator[Finding]:
    """Check the set-up of each broker, as far as the client may read it."""
    try:
        async with Cluster(options=options) as cluster:
            for node_id in sorted(cluster.brokers):
                entries = await ConfigAdmin(cluster).broker_configs(node_id)
                values = {each.name: each.value for each in entries if each.value is not None}
                for found in weak_set_ups(values):
                    yield found._replace(what=f"broker {node_id}: {found.what}")
    except (ClientError, KafkaError) as error:
        yield Finding(CHECK, WARNING, f"the set-up of the brokers cannot be read: {error}")


def check_config(file: Path, now: datetime) -> Iterator[Finding]:
    """Check a broker's configuration file, and the files that it names."""
    try:
        values = read_properties(file)
    except ConfigError as error:
        yield Finding(CHECK, FAILED, str(error), None, BAD_CONFIG)
        return
    if any(is_secret(key) for key in values):
        yield from _mode(file)
    yield from weak_set_ups(values)
    for key in STORES:
        for name, location in values.items():
            if name.endswith(key):
                yield from _store(name, Path(location), values, now)


def weak_set_ups(values: Values) -> Iterator[Finding]:
    """Yield what makes a set-up weak; one OK if nothing does."""
    try:
        listeners = parse_listeners(
            _client_listeners(values) or "PLAINTEXT://127.0.0.1:9092",
            values.get("advertised.listeners") or None,
            values.get("listener.security.protocol.map") or DEFAULT_PROTOCOLS,
        )
    except ConfigError as error:
        yield Finding(CHECK, FAILED, str(error), None, BAD_CONFIG)
        return
    weak = [*_weak_listeners(listeners, values), *_weak_authorization(listeners, values)]
    yield from weak
    if not weak:
        yield Finding(CHECK, OK, f"{', '.join(map(str, listeners))}: no weak set-up found")


def _client_listeners(values: Values) -> str:
    """Return `listeners` without those of Apache Kafka's controllers, which are never advertised."""
    of_controllers = {each.strip() for each in values.get("controller.listener.names", "").split(",")}
    listeners = values.get("listeners", "").split(",")
    return ",".join(each for each in listeners if each.partition("://")[0].strip() not in of_controllers)


def _weak_listeners(listeners: tuple[Listener, ...], values: Values) -> Iterator[Finding]:
    for each in listeners:
        if each.uses_tls or _is_loopback(each):
            continue
        what = f"{each} is not encrypted, and not on a loopback address"
        if _mechanisms(each, values) & {PLAIN} and each.uses_sasl:
            yield Finding(
                CHECK, FAILED, f"{what}: PLAIN sends passwords in clear text", "use SASL_SSL, or SCRAM"
            )
        else:
            yield Finding(CHECK, WARNING, what, "use SSL or SASL_SSL: ottla security init --help")


def _weak_authorization(listeners: tuple[Listener, ...], values: Values) -> Iterator[Finding]:
    has_authorizer = bool(values.get("authorizer.class.name"))
    if any(each.uses_sasl for each in listeners) and not has_authorizer:
        yield Finding(
            CHECK,
            WARNING,
            "clients authenticate, but there is no authorizer: every user may do everything",
            "set authorizer.class.name and super.users: docs/security-guide.md",
        )
    super_users = {each.strip() for each in values.get("super.users", "").split(";")}
    if ANONYMOUS in super_users:
        yield Finding(
            CHECK, FAILED, f"{ANONYMOUS} is a super user: unauthenticated clients may do everything",
            "remove it from super.users",
        )  # fmt: skip
    if has_authorizer and values.get("allow.everyone.if.no.acl.found", "").lower() == "true":
        yield Finding(
            CHECK,
            WARNING,
            "everyone may use what has no ACL",
            "set allow.everyone.if.no.acl.found=false when all ACLs exist",
        )


def _mechanisms(listener: Listener, values: Values) -> set[str]:
    own = values.get(f"listener.name.{listener.name.lower()}.sasl.enabled.mechanisms")
    return {each.strip() for each in (own or values.get("sasl.enabled.mechanisms") or "GSSAPI").split(",")}


def _is_loopback(listener: Listener) -> bool:
    host = listener.host
    if host == "localhost":
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False


def _store(name: str, path: Path, values: Values, now: datetime) -> Iterator[Finding]:
    if "keystore" in name:
        yield from _mode(path)
        yield from _expiry(name, path, values, now)
    elif not path.exists():
        yield Finding("certificate", FAILED, f"{name}: there is no file {path}", None, TLS)


def _expiry(name: str, path: Path, values: Values, now: datetime) -> Iterator[Finding]:
    try:
        from cryptography import x509
        from cryptography.hazmat.primitives.serialization import Encoding
    except ModuleNotFoundError:
        yield Finding("certificate", WARNING, "its expiry is unknown", "pip install 'ottla[security]'")
        return
    prefix = name.removesuffix("ssl.keystore.location")
    keys = ("ssl.keystore.type", "ssl.keystore.password", "ssl.key.password")
    own = [values.get(prefix + key, values.get(key)) for key in keys]
    try:
        pair = read_key_pair(StoreSettings(name, str(path), *own))
    except (ConfigError, OSError) as error:
        yield Finding("certificate", FAILED, str(error), None, TLS)
        return
    if pair is None:
        return
    certificate = x509.load_pem_x509_certificates(pair.chain.encode())[0]
    days = (certificate.not_valid_after_utc - now).total_seconds() / 86_400
    subject = distinguished_name(certificate.public_bytes(Encoding.DER))  # as ACLs name it
    if days < 0:
        what = f"{path} ({subject}) expired {-days:,.0f} days ago"
        yield Finding("certificate", FAILED, what, "renew it", TLS)
    elif days < EXPIRES_SOON_DAYS:
        what = f"{path} ({subject}) expires in {days:,.0f} days"
        yield Finding("certificate", WARNING, what, "renew it; brokers read it again by themselves", TLS)
    else:
        yield Finding("certificate", OK, f"{path} ({subject}) expires in {days:,.0f} days")


def _mode(path: Path) -> Iterator[Finding]:
    try:
        mode = os.stat(path).st_mode
    except OSError as error:
        yield Finding("secrets", FAILED, f"{path}: {error.strerror}", None, BAD_CONFIG)
        return
    if mode & READABLE_BY_OTHERS:
        yield Finding("secrets", FAILED, f"others can read {path}", f"run: chmod 600 {path}", BAD_CONFIG)
    else:
        yield Finding("secrets", OK, f"only its owner can read {path}")


def now_utc(wall_ms: int) -> datetime:
    """Return a time in milliseconds as a datetime."""
    return datetime.fromtimestamp(wall_ms / 1000, UTC)
