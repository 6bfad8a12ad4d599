"""PLAIN, OAUTHBEARER's claims, JAAS lines, and the names in certificates and Kerberos principals."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import NameOID

from ottla.network.listener_security import ListenerSecurity
from ottla.security.certificate_name import PrincipalMapper, RuleError, distinguished_name
from ottla.security.exchange import AuthenticationRefused, Identity
from ottla.security.jaas import JaasError, parse_jaas
from ottla.security.kerberos_name import KerberosNames, KerberosRuleError
from ottla.security.oauthbearer import ClaimRules, OAuthBearerServer
from ottla.security.plain import PlainServer

NOW_MS = 1_700_000_000_000
NOW_S = NOW_MS // 1000
CLAIMS = {"sub": "alice", "exp": NOW_S + 60, "iss": "us", "aud": ["kafka", "x"], "scope": "read write"}
RULES = ClaimRules(issuer="us", audiences=("kafka",), required_scopes=("write",))
BEARER = b"n,,\x01auth=Bearer a.b.c\x01\x01"


@pytest.mark.parametrize("message", [b"\0alice\0secret", b"alice\0alice\0secret"])
def test_plain_accepts_the_password(message: bytes) -> None:
    assert PlainServer({"alice": "secret"}).respond(message) == (b"", Identity("User:alice"))


@pytest.mark.parametrize(
    "message",
    [
        b"\0alice\0wrong",
        b"\0bob\0secret",
        b"\0alice\0",
        b"\0\0secret",
        b"bob\0alice\0secret",
        b"alice\0secret",
        b"\0alice\0secret\0",
        b"\xff\0alice\0secret",
        b"\0alice\0" + b"x" * 9000,
    ],
)
def test_plain_refuses_everything_else(message: bytes) -> None:
    with pytest.raises(AuthenticationRefused):
        PlainServer({"alice": "secret", "": "secret"}).respond(message)


def oauth(claims: dict[str, Any], rules: ClaimRules = RULES) -> OAuthBearerServer:
    return OAuthBearerServer(lambda _: claims, rules, lambda: NOW_MS)


def test_a_token_that_fits_is_accepted_until_it_expires() -> None:
    assert oauth(CLAIMS).respond(BEARER) == (b"", Identity("User:alice", NOW_MS + 60_000))
    assert oauth({**CLAIMS, "aud": "kafka"}).respond(BEARER)[1] is not None
    assert oauth({**CLAIMS, "exp": NOW_S - 20}).respond(BEARER)[1] is not None  # clocks may differ
    named = ClaimRules(user_claim="email", scope_claim="roles", required_scopes=("admin",))
    claims = {**CLAIMS, "email": "a@x", "roles": ["admin"]}
    assert oauth(claims, named).respond(BEARER)[1] == Identity("User:a@x", NOW_MS + 60_000)


@pytest.mark.parametrize(
    "changed",
    [
        {"sub": None},
        {"sub": 7},
        {"sub": " "},
        {"exp": None},
        {"exp": "soon"},
        {"exp": True},
        {"exp": float("nan")},
        {"exp": NOW_S - 31},
        {"nbf": NOW_S + 31},
        {"iat": NOW_S + 31},
        {"iss": "them"},
        {"iss": None},
        {"aud": "other"},
        {"aud": None},
        {"scope": "read"},
        {"scope": None},
        {"scope": {"write": 1}},
    ],
)
def test_a_token_that_does_not_fit_is_refused_after_the_clients_acknowledgement(
    changed: dict[str, Any],
) -> None:
    exchange = oauth({**CLAIMS, **changed})
    assert exchange.respond(BEARER) == (b'{"status":"invalid_token"}', None)
    with pytest.raises(AuthenticationRefused):
        exchange.respond(b"\x01")


@pytest.mark.parametrize(
    "message",
    [
        b"",
        b"n,,",
        b"n,,\x01\x01",
        b"n,,\x01auth=Basic x\x01\x01",
        b"n,,\x01auth=Bearer \x01\x01",
        b"x" * 70_000,
    ],
)
def test_a_message_without_a_token_is_refused(message: bytes) -> None:
    with pytest.raises(AuthenticationRefused):
        oauth(CLAIMS).respond(message)


def test_a_client_cannot_act_as_another_than_its_token_says() -> None:
    with pytest.raises(AuthenticationRefused, match="another user"):
        oauth(CLAIMS).respond(b"n,a=bob,\x01auth=Bearer a.b.c\x01\x01")
    assert oauth(CLAIMS).respond(b"n,a=alice,\x01auth=Bearer a.b.c\x01x=y\x01\x01")[1] is not None


def test_a_jaas_line_is_read() -> None:
    login = parse_jaas(
        'org.x.PlainLoginModule required\n username="admin" password="a\\"b; c" '
        'user_alice=plain user_b="" user_c=\'d\\e "f"\';'
    )
    assert login.module == "org.x.PlainLoginModule"
    assert login.options["password"] == 'a"b; c'
    assert login.users == {"alice": "plain", "b": "", "c": 'd\\e "f"'}
    assert "plain" not in repr(login)


@pytest.mark.parametrize(
    "text", ["", "x", "org.X often a=b;", "org.X required", 'org.X required a="b;', "X required; Y required;"]
)
def test_what_is_not_jaas_is_refused_without_showing_it(text: str) -> None:
    with pytest.raises(JaasError) as refused:
        parse_jaas(text + "")
    assert "a=" not in str(refused.value).replace("key=value", "")


NAME = "CN=Alice,OU=sales,O=Kafka\\, Inc.,C=CZ"


def named(*parts: list[tuple[str, str]]) -> bytes:
    """Return a certificate for a name: parts of attributes."""
    key = ec.generate_private_key(ec.SECP256R1())
    attributes = [
        [x509.NameAttribute(x509.ObjectIdentifier(oid), value) for oid, value in part] for part in parts
    ]
    name = x509.Name([x509.RelativeDistinguishedName(part) for part in attributes])
    issuer = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "somebody else")])
    now = datetime.now(UTC)
    builder = x509.CertificateBuilder(issuer, name, key.public_key(), 1, now, now + timedelta(days=1))
    return builder.sign(key, hashes.SHA256()).public_bytes(Encoding.DER)


@pytest.mark.parametrize(
    ("parts", "written"),
    [
        (
            [
                [("2.5.4.6", "CZ")],
                [("2.5.4.10", "Kafka, Inc.")],
                [("2.5.4.11", "sales")],
                [("2.5.4.3", "Alice")],
            ],
            NAME,
        ),
        ([[("2.5.4.3", "a"), ("0.9.2342.19200300.100.1.1", "b")]], "CN=a+UID=b"),
        ([[("2.5.4.3", "C# a=b ")]], "CN=C\\# a\\=b\\ "),
        ([[("2.5.4.3", "  x\r ")]], "CN=\\ \\ x\\\r\\ "),
        ([[("2.5.4.3", "\u4e2d\0")]], "CN=\u4e2d\\00"),
        ([[("2.5.4.42", "Bob")], [("2.5.4.5", "12")]], "2.5.4.5=#13023132,2.5.4.42=#0c03426f62"),
        ([[("1.2.840.113549.1.9.1", "a@b.c")]], "1.2.840.113549.1.9.1=#16056140622e63"),
        ([[("2.999.70000", "x" * 200)]], f"2.999.70000=#0c81c8{'78' * 200}"),
        ([], ""),
    ],
)
def test_a_distinguished_name_is_written_as_in_java(parts: list[list[tuple[str, str]]], written: str) -> None:
    """Java 17 wrote the same of certificates with these names."""
    assert distinguished_name(named(*parts)) == written


def test_a_certificate_without_a_name_is_not_anonymous() -> None:
    assert ListenerSecurity(mapper=PrincipalMapper("DEFAULT")).principal(named()) == "User:"
    assert ListenerSecurity(mapper=PrincipalMapper("DEFAULT")).principal(None) == "User:ANONYMOUS"


@pytest.mark.parametrize(
    ("rules", "user"),
    [
        ("DEFAULT", NAME),
        ("", NAME),
        ("RULE:^CN=([^,]+),.*$/$1/", "Alice"),
        ("RULE:^CN=([^,]+),.*$/$1/L", "alice"),
        ("RULE:^CN=([^,]+),OU=([^,]+),.*$/$1@$2/U,DEFAULT", "ALICE@SALES"),
        ("RULE:^CN=other.*$/x/, RULE:.*OU=sales.*/team-$0/ ,DEFAULT", f"team-{NAME}"),
        ("RULE:^CN=other$/x/", None),
        ("RULE:^CN=other$/x/,DEFAULT", NAME),
    ],
)
def test_mapping_rules_make_the_user_name(rules: str, user: str | None) -> None:
    assert PrincipalMapper(rules).user_name(NAME) == user


@pytest.mark.parametrize("rules", ["RULE:x", "RULE:^(x/$1/", "DEFAULT,nonsense", "RULE:a/b/X"])
def test_rules_that_cannot_be_read_are_refused(rules: str) -> None:
    with pytest.raises(RuleError):
        PrincipalMapper(rules)


@pytest.mark.parametrize(
    ("rules", "principal", "user"),
    [
        (["DEFAULT"], "alice@EXAMPLE.ORG", "alice"),
        (["DEFAULT"], "kafka/host@EXAMPLE.ORG", "kafka"),
        (["RULE:[1:$1@$0](.*@OTHER)s/@.*//", "DEFAULT"], "bob@OTHER", "bob"),
        (["RULE:[2:$1;$2](^.*;admin$)s/;admin$//"], "alice/admin@ANY", "alice"),
        (["RULE:[1:$1]/L"], "Alice@ANY", "alice"),
    ],
)
def test_kerberos_rules_make_the_user_name(rules: list[str], principal: str, user: str) -> None:
    assert KerberosNames(rules, "EXAMPLE.ORG").user_name(principal) == user


def test_a_principal_that_no_rule_fits_is_refused() -> None:
    with pytest.raises(KerberosRuleError):
        KerberosNames(["DEFAULT"], "EXAMPLE.ORG").user_name("eve@ELSEWHERE")
    with pytest.raises(KerberosRuleError):
        KerberosNames(["RULE:nonsense"], "EXAMPLE.ORG")
