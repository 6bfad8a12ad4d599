"""Every mechanism and listener with Kafka's own Java client, on one broker and on three; kcat with tokens and
with tickets of Kerberos.

Debian's kcat comes with a librdkafka without OpenID Connect. The wheel of confluent-kafka has one with it, of
which kcat uses the same functions: it is loaded instead (LD_PRELOAD).
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import confluent_kafka
import pytest
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)
from tests.integration.secure_stage import (
    MECHANISMS,
    PLAIN_MODULE,
    SCRAM_MODULE,
    USER,
    Login,
    SecureCluster,
    secure_broker,
)
from tests.integration.token_endpoint import Endpoint, serving
from tests.interop.conftest import run_tool
from tests.interop.java_process import OPTIONS, compile_java, require_java
from tests.interop.kdc import REALM, Kdc, missing_tools

from ottla.testing.local_broker import OttlaBroker

RECORDS = "20"
"""What SecureJourney reads."""
OAUTH = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLogin"
KRB5_MODULE = "com.sun.security.auth.module.Krb5LoginModule"
QUIET = "-Dorg.slf4j.simpleLogger.defaultLogLevel=error"


@pytest.fixture(scope="module")
def journey(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The class path of SecureJourney."""
    require_java()
    return compile_java("SecureJourney", tmp_path_factory.mktemp("java"))


@pytest.fixture(scope="module", params=[1, 3])
def secure(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[SecureCluster]:
    with secure_broker(tmp_path_factory.mktemp("security"), request.param) as started:
        yield started


def properties_of(login: Login, folder: Path) -> str:
    """Return the properties of a Java client."""
    lines = [f"bootstrap.servers={login.bootstrap}", f"security.protocol={login.protocol}"]
    if login.uses_tls:
        lines += ["ssl.truststore.type=PEM", f"ssl.truststore.location={login.certificates.ca}"]
    if login.certificate is not None:
        store = folder / "client.pem"
        store.write_bytes(pkcs8(login.certificate.read_bytes()))
        lines += ["ssl.keystore.type=PEM", f"ssl.keystore.location={store}"]
    if login.mechanism is not None:
        lines += [f"sasl.mechanism={login.mechanism}"]
    if login.mechanism == "OAUTHBEARER":
        token = folder / "token.jwt"
        token.write_text(login.provider.token(login.user, scope="all"))
        lines += [
            f"sasl.jaas.config={OAUTH}Module required;",
            f"sasl.login.callback.handler.class={OAUTH}CallbackHandler",
            f"sasl.oauthbearer.token.endpoint.url={token.as_uri()}",
        ]
    elif login.mechanism is not None:
        module = PLAIN_MODULE if login.mechanism == "PLAIN" else SCRAM_MODULE
        password = login.password.replace("\\", "\\\\").replace('"', '\\"')
        jaas = f'{module} required username="{login.user}" password="{password}";'
        lines.append("sasl.jaas.config=" + jaas.replace("\\", "\\\\"))
    return "\n".join(lines) + "\n"


def pkcs8(pem: bytes) -> bytes:
    """Return a file of a key and certificates with the key as Java reads it."""
    key, certificates = pem.split(b"-----BEGIN CERTIFICATE", 1)
    encoded = load_pem_private_key(key, None).private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    return encoded + b"-----BEGIN CERTIFICATE" + certificates


def run_journeys(path: str, logins: dict[str, str], folder: Path, *options: str) -> dict[str, str]:
    """Run SecureJourney for the properties of each topic; return what it says of each."""
    arguments = []
    for topic, text in logins.items():
        file = folder / f"{topic}.properties"
        file.write_text(text)
        arguments += [topic, str(file)]
    command = ["java", *OPTIONS, QUIET, *options, "-cp", path, "SecureJourney", *arguments]
    done = run_tool(command, "", must_succeed=True)
    return dict(line.split(" ", 1) for line in done.stdout.splitlines())


def test_java_works_with_every_mechanism_on_every_listener(
    journey: str, secure: SecureCluster, tmp_path: Path
) -> None:
    listeners: list[tuple[str, str | None]] = [("SSL", None)]
    listeners += [(protocol, name) for protocol in ("SASL_SSL", "SASL_PLAINTEXT") for name in MECHANISMS]
    logins = {
        f"java.{protocol}.{mechanism}": properties_of(secure.login(protocol, mechanism), tmp_path)
        for protocol, mechanism in listeners
    }
    allowed = f"-Dorg.apache.kafka.sasl.oauthbearer.allowed.urls={(tmp_path / 'token.jwt').as_uri()}"
    assert run_journeys(journey, logins, tmp_path, allowed) == dict.fromkeys(logins, RECORDS)


@pytest.fixture
def kcat_with_oidc() -> list[str]:
    """The command of kcat with the librdkafka of confluent-kafka."""
    program = shutil.which("kcat") or shutil.which("kafkacat")
    if program is None:
        pytest.skip("kcat is not installed; install it with: make interop (or: apt-get install kcat)")
    libraries = Path(confluent_kafka.__file__).parent.with_name("confluent_kafka.libs")
    found = list(libraries.glob("librdkafka-*.so*"))
    if not found:
        pytest.skip("confluent-kafka is not a wheel, which would bring its librdkafka")
    return ["env", f"LD_PRELOAD={found[0]}", program]


def check_kcat(command: list[str], address: str, settings: dict[str, str], topic: str) -> None:
    """Write two records, and read them."""
    options = [*command, "-b", address]
    for name, value in settings.items():
        options += ["-X", f"{name}={value}"]
    run_tool([*options, "-P", "-t", topic, "-p", "0"], "one\ntwo\n", must_succeed=True)
    read = run_tool([*options, "-C", "-q", "-e", "-t", topic, "-p", "0"], "", must_succeed=True)
    assert read.stdout.splitlines() == ["one", "two"]


def test_kcat_gets_its_token_from_an_identity_provider(
    kcat_with_oidc: list[str], secure: SecureCluster
) -> None:
    with secure.admin() as admin:
        admin.create_topic("kcat-oidc", partitions=1)
    with serving(Endpoint(secure.certificates, secure.provider, USER)) as endpoint:
        settings = {
            "security.protocol": "SASL_SSL",
            "ssl.ca.location": str(secure.certificates.ca),
            "https.ca.location": str(secure.certificates.ca),
            "sasl.mechanism": "OAUTHBEARER",
            "sasl.oauthbearer.method": "oidc",
            "sasl.oauthbearer.client.id": "cluster",
            "sasl.oauthbearer.client.secret": "hush",
            "sasl.oauthbearer.token.endpoint.url": f"{endpoint.url}/token",
        }
        check_kcat(kcat_with_oidc, secure.bootstrap("SASL_SSL"), settings, "kcat-oidc")
        refused = [*kcat_with_oidc, "-b", secure.bootstrap("SASL_SSL"), "-L", "-m", "3"]
        for name, value in (settings | {"sasl.oauthbearer.client.secret": "wrong"}).items():
            refused += ["-X", f"{name}={value}"]
        assert run_tool(refused, "", must_succeed=False).returncode != 0


@pytest.fixture
def kdc(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Kdc]:
    if missing := missing_tools():
        pytest.skip(
            f"{', '.join(missing)} not installed: apt-get install krb5-kdc krb5-admin-server krb5-user"
        )
    pytest.importorskip("gssapi")
    folder = tmp_path / "kdc"
    folder.mkdir()
    with Kdc(folder) as started:
        for name, value in started.environment.items():
            monkeypatch.setenv(name, value)
        yield started


def kerberized(kdc: Kdc, host: str) -> OttlaBroker:
    """Return a broker that clients find as `host`."""
    prefix = "listener.name.sasl_plaintext"
    settings = {
        "sasl.enabled.mechanisms": "GSSAPI",
        "sasl.mechanism.inter.broker.protocol": "SCRAM-SHA-512",
        f"{prefix}.gssapi.sasl.jaas.config": (
            f'{KRB5_MODULE} required useKeyTab=true storeKey=true keyTab="{kdc.keytab(f"kafka/{host}")}" '
            f'principal="kafka/{host}@{REALM}";'
        ),
        f"{prefix}.scram-sha-512.sasl.jaas.config": (
            f'{SCRAM_MODULE} required username="broker" password="unused";'
        ),
        "sasl.kerberos.service.name": "kafka",
    }
    return OttlaBroker(settings=settings, security_protocol="SASL_PLAINTEXT")


def test_java_authenticates_with_kerberos(journey: str, kdc: Kdc, tmp_path: Path) -> None:
    keytab = kdc.keytab(USER)
    with kerberized(kdc, "localhost") as broker:
        text = (
            f"bootstrap.servers={broker.bootstrap_servers}\nsecurity.protocol=SASL_PLAINTEXT\n"
            "sasl.mechanism=GSSAPI\nsasl.kerberos.service.name=kafka\n"
            f'sasl.jaas.config={KRB5_MODULE} required useKeyTab=true storeKey=true keyTab="{keytab}" '
            f'principal="{USER}@{REALM}";\n'
        )
        realm = f"-Djava.security.krb5.conf={kdc.environment['KRB5_CONFIG']}"
        assert run_journeys(journey, {"tickets": text}, tmp_path, realm) == {"tickets": RECORDS}


def test_kcat_authenticates_with_kerberos(kdc: Kdc) -> None:
    program = shutil.which("kcat") or shutil.which("kafkacat")
    if program is None or not list(Path("/usr/lib").glob("*/sasl2/libgssapiv2.so")):
        pytest.skip("not installed: apt-get install kcat libsasl2-modules-gssapi-mit")
    kdc.log_in(USER)
    with kerberized(kdc, "127.0.0.1") as broker:
        settings = {
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "GSSAPI",
            "sasl.kerberos.service.name": "kafka",
            "sasl.kerberos.kinit.cmd": "true",  # there is a ticket
        }
        check_kcat([program], broker.bootstrap_servers, settings, "tickets")
