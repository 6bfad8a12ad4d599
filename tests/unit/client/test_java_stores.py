"""Java's stores, made by its own keytool (see stores/), in a TLS handshake; and login configurations."""

from __future__ import annotations

import base64
import hashlib
import hmac
import ssl
from pathlib import Path

import pytest

from ottla.client.client_options import ClientOptions
from ottla.common.config.declaration import ConfigError
from ottla.common.tls import TlsSettings, server_context
from ottla.common.tls_stores import StoreSettings, read_authorities, read_key_pair
from ottla.wire.sasl import Scram

STORES = Path(__file__).parent / "stores"
LOGIN = 'org.apache.kafka.common.security.{} required username="ali\\"ce" password=\'p;w d\'{} ;'


def key_store(name: str) -> dict[str, str]:
    return {
        "ssl.keystore.location": str(STORES / name),
        "ssl.keystore.password": "storepass",
        "ssl.key.password": "keypass1",
    }


def context(**options: str) -> ssl.SSLContext:
    security = ClientOptions.of(**{"security.protocol": "SSL", **options}).security()
    assert security.tls is not None
    return security.tls


def shake_hands(client: ssl.SSLContext, server: ssl.SSLContext) -> str:
    """Return the name in the client's certificate, as the server has verified it."""
    pipes = [ssl.MemoryBIO() for _ in range(2)]
    ends = [
        client.wrap_bio(*pipes, server_hostname="localhost"),
        server.wrap_bio(*reversed(pipes), server_side=True),
    ]
    open_ends = list(ends)
    for _ in range(20):
        for each in list(open_ends):
            try:
                each.do_handshake()
                open_ends.remove(each)
            except ssl.SSLWantReadError:
                continue
    assert not open_ends
    found = ends[1].getpeercert()
    assert found is not None
    return dict(pair[0] for pair in found["subject"])["commonName"]  # type: ignore[misc,index]


@pytest.mark.parametrize("kind", ["jks", "p12", "pem"])
def test_a_client_and_a_broker_trust_each_other_by_javas_stores(kind: str) -> None:
    truststore = StoreSettings("x", str(STORES / "trust.jks"), "JKS", "storepass")
    keystore = StoreSettings("x", str(STORES / "key.jks"), None, "storepass", "keypass1")
    server = server_context(TlsSettings(keystore, truststore, client_auth="required"))
    pair, trusted = read_key_pair(keystore), read_authorities(truststore)
    assert pair is not None
    assert trusted is not None
    if kind == "pem":
        options = {
            "ssl.truststore.certificates": trusted,
            "ssl.truststore.type": "PEM",
            "ssl.keystore.certificate.chain": pair.chain,
            "ssl.keystore.key": pair.private_key,
        }
    else:
        place = {
            "ssl.truststore.location": str(STORES / f"trust.{kind}"),
            "ssl.truststore.password": "storepass",
        }
        options = {**place, "ssl.truststore.type": "JKS", **key_store(f"key.{kind}")}
    assert shake_hands(context(**options), server) == "localhost"


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        (key_store("key.jks") | {"ssl.keystore.password": "wrong"}, "the password is wrong"),
        (key_store("key.jks") | {"ssl.key.password": "wrong"}, "the password of the key is wrong"),
        (key_store("key.p12") | {"ssl.keystore.password": "wrong"}, "its password is another"),
        (key_store("trust.jks"), "has no private key"),
        (key_store("nowhere"), "cannot be read: No such file"),
        (key_store("key.jceks"), "keytool -importkeystore"),
    ],
)
def test_a_store_that_cannot_be_used_is_named_with_the_reason(options: dict[str, str], reason: str) -> None:
    with pytest.raises(ConfigError, match=reason):
        context(**options)


@pytest.mark.parametrize("cut", [3, 13, 60, 200, 400])
def test_a_damaged_store_is_refused(tmp_path: Path, cut: int) -> None:
    (tmp_path / "store").write_bytes((STORES / "key.jks").read_bytes()[:cut])
    with pytest.raises(ConfigError, match="ssl_keystore_location"):
        context(**{"ssl.keystore.location": str(tmp_path / "store")})


def test_user_and_password_come_from_a_login_configuration() -> None:
    options = ClientOptions.of(
        **{
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "PLAIN",
            "sasl.jaas.config": LOGIN.format("plain.PlainLoginModule", ""),
        }
    )
    assert (options.sasl_plain_username, options.sasl_plain_password) == ('ali"ce', "p;w d")
    assert "p;w d" not in repr(options)
    with pytest.raises(ConfigError, match="Krb5LoginModule is not supported"):
        ClientOptions.of(
            **{
                "security.protocol": "SASL_PLAINTEXT",
                "sasl.mechanism": "PLAIN",
                "sasl.jaas.config": LOGIN.format("auth.module.Krb5LoginModule", ""),
            }
        )


async def test_a_delegation_token_logs_in_by_scram_with_kafkas_extension() -> None:
    options = ClientOptions.of(
        **{
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "SCRAM-SHA-256",
            "sasl.jaas.config": LOGIN.format("scram.ScramLoginModule", ' tokenauth="true"'),
        }
    )
    exchange = await options.security().sasl_exchange("broker")
    assert isinstance(exchange, Scram)
    first = exchange.first().decode()
    assert first.endswith(",tokenauth=true")
    bare, nonce = first.removeprefix("n,,"), first.partition(",r=")[2].partition(",")[0]
    server_first = f"r={nonce}server,s={base64.b64encode(b'salt' * 4).decode()},i=4096"
    proof = exchange.respond(server_first.encode())
    assert proof is not None
    final, _, given = proof.decode().rpartition(",p=")
    salted = hashlib.pbkdf2_hmac("sha256", b"p;w d", b"salt" * 4, 4096)
    client_key = hmac.digest(salted, b"Client Key", "sha256")
    signed = f"{bare},{server_first},{final}".encode()
    signature = hmac.digest(hashlib.sha256(client_key).digest(), signed, "sha256")
    assert base64.b64decode(given) == bytes(a ^ b for a, b in zip(client_key, signature, strict=True))
