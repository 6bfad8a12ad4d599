import inspect
import ssl

import pytest

from ottla.client import AsyncProducer, ConfigError, Producer
from ottla.client.client_options import ClientOptions
from ottla.client.producer.options import ProducerOptions
from ottla.wire.address import Address


def test_names_may_be_spelled_as_kafka_python_or_as_kafka_or_as_librdkafka_does():
    spelled = [
        ProducerOptions.of("a:1,b:2", linger_ms=5, security_protocol="SASL_PLAINTEXT", **LOGIN),
        ProducerOptions.of(["a:1", "b:2"], linger_ms=5.0, security_protocol="sasl_plaintext", **LOGIN),
        ProducerOptions.of(
            **{
                "bootstrap.servers": "a:1,b:2",
                "linger.ms": "5",
                "security.protocol": "SASL_PLAINTEXT",
                "sasl.mechanisms": "plain",
                "sasl.username": "u",
                "sasl.password": "p",
            }
        ),
        ProducerOptions.of(
            {"bootstrap.servers": "a:1,b:2", "queue.buffering.max.ms": 5},
            security_protocol="SASL_PLAINTEXT",
            **LOGIN,
        ),
    ]
    assert all(each == spelled[0] for each in spelled)
    assert spelled[0].addresses == (Address("a", 1), Address("b", 2))
    assert spelled[0].linger_ms == 5


LOGIN = {"sasl_mechanism": "PLAIN", "sasl_plain_username": "u", "sasl_plain_password": "p"}


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"linger_mss": 5}, "linger_mss: unknown option; did you mean linger_ms?"),
        ({"linger.msec": 5}, "linger.msec: unknown option; did you mean linger.ms?"),
        ({"zzz": 5}, "zzz: unknown option"),
        ({"linger_ms": "soon"}, "linger_ms: must be a number, not 'soon'"),
        ({"batch_size": 1.5}, "batch_size: must be a whole number, not 1.5"),
        ({"batch_size": True}, "batch_size: must be a whole number, not True"),
        ({"batch_size": -1}, "batch_size: must be at least 0, not -1"),
        ({"acks": 2}, "acks: must be 0, 1 or 'all', not 2"),
        ({"compression_type": "zip"}, "must be one of none, gzip, snappy, lz4, zstd, not 'zip'"),
        ({"partitioner": "fair"}, "must be one of sticky, murmur2"),
        ({"enable_idempotence": "perhaps"}, "must be True or False"),
        ({"enable_idempotence": True, "acks": 1}, "acks: must be 'all' with enable_idempotence"),
        ({"max_in_flight_requests_per_connection": 6}, "must be between 1 and 5 with enable_idempotence"),
        ({"transactional_id": "t", "acks": 1}, "transactional_id: needs acks='all'"),
        ({"transaction_two_phase_commit_enable": True}, "needs a transactional_id"),
        ({"linger_ms": 5, "linger.ms": 5}, "linger.ms: is given twice: it is the same option as linger_ms"),
        ({"key_serializer": "json"}, "key_serializer: must be a function"),
        ({"bootstrap_servers": "host:port"}, "has no valid port"),
        ({"bootstrap_servers": 9092}, "must be HOST:PORT, or a list of them"),
        ({"bootstrap_servers": []}, "names no address"),
        ({"sasl_mechanism": "PLAIN"}, "needs security_protocol SASL_SSL or SASL_PLAINTEXT"),
        ({"security_protocol": "SASL_SSL"}, "sasl_mechanism: is needed by security_protocol SASL_SSL"),
        (
            {"security_protocol": "SASL_SSL", "sasl_mechanism": "PLAIN"},
            "and sasl_plain_password are needed by PLAIN",
        ),
        (
            {"security_protocol": "SASL_SSL", "sasl_mechanism": "OAUTHBEARER"},
            "sasl_oauth_token_provider: is needed",
        ),
        ({"interceptor.classes": "x"}, "give interceptors="),
        ({"interceptors": "a.b.Counter"}, "interceptors: must be a list of objects that derive from"),
        ({"interceptors": 5}, "interceptors: must be a list of objects that derive from"),
        ({"interceptors": [5]}, "interceptors: must be a list of objects that derive from"),
        ({"transactional_id": ""}, "transactional_id: must not be empty"),
        ({"ssl_cafile": "ca.pem"}, "ssl_cafile: needs security_protocol SSL or SASL_SSL, not PLAINTEXT"),
        ({"metric_reporters": []}, "give a producer interceptors, or read its stats()"),
    ],
)
def test_what_does_not_fit_is_refused_with_what_would(given, said):
    with pytest.raises(ConfigError) as refused:
        ProducerOptions.of(**given)
    assert said in str(refused.value)


@pytest.mark.parametrize(
    ("given", "named", "said"),
    [
        (
            ("orders",),
            {"bootstrap_servers": "a:1"},
            "is given twice: 'orders', which has no name, is this one",
        ),
        (("a:1", "orders"), {}, "is the only one that needs no name: name the rest, ('orders',)"),
    ],
)
def test_only_the_address_needs_no_name(given, named, said):
    with pytest.raises(ConfigError) as refused:
        ProducerOptions.of(*given, **named)
    assert str(refused.value) == f"bootstrap_servers: {said}"


def test_secrets_are_not_shown():
    shown = repr(
        ClientOptions(security_protocol="SASL_PLAINTEXT", **{**LOGIN, "sasl_plain_password": "hush"})
    )
    assert "hush" not in shown
    with pytest.raises(ConfigError) as refused:
        ClientOptions(sasl_plain_password=5)
    assert str(refused.value) == "sasl_plain_password: must be a text"


def test_idempotence_follows_from_acks_unless_it_is_said():
    assert ProducerOptions().enable_idempotence is True
    assert ProducerOptions(acks=1).enable_idempotence is False
    assert (
        ProducerOptions(enable_idempotence=False, max_in_flight_requests_per_connection=20).acks_number == -1
    )


def test_java_says_https_when_it_checks_host_names():
    assert ClientOptions.of(**{"ssl.endpoint.identification.algorithm": "https"}).ssl_check_hostname is True
    assert ClientOptions.of(**{"ssl.endpoint.identification.algorithm": ""}).ssl_check_hostname is False


@pytest.mark.parametrize("client", [AsyncProducer, Producer])
def test_constructors_have_every_option_as_a_parameter(client):
    parameters = inspect.signature(client).parameters
    assert list(parameters) == list(ProducerOptions.declared())
    assert parameters["linger_ms"].default == 0
    assert next(iter(parameters)) == "bootstrap_servers"


def test_a_wrong_option_is_refused_by_the_constructor_with_the_nearest():
    with pytest.raises(ConfigError, match="did you mean bootstrap_servers"):
        AsyncProducer(bootstrap_server="localhost")


def test_every_option_says_what_it_is_for():
    assert all(each.doc.endswith(".") for each in ProducerOptions.declared().values())


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"ssl_cafile": "/nowhere.pem"}, "ssl_cafile: there is no file /nowhere.pem"),
        ({"ssl_certfile": __file__}, "ssl_certfile: cannot be used"),
        ({"ssl_ciphers": "none of them"}, "ssl_ciphers: cannot be used"),
    ],
)
def test_files_that_tls_cannot_use_are_named(options, said):
    with pytest.raises(ConfigError, match=said):
        ClientOptions(security_protocol="SSL", **options).security()


def test_a_tls_context_of_ones_own_is_used_as_it_is():
    mine = ssl.create_default_context()
    assert ClientOptions(security_protocol="SSL", ssl_context=mine).security().tls is mine
    assert ClientOptions().security().tls is None


SASL = {"security_protocol": "SASL_PLAINTEXT", "sasl_mechanism": "SCRAM-SHA-256"}


def test_user_and_password_can_come_from_a_jaas_line():
    line = 'org.x.ScramLoginModule required username="u" password=\'p"\' tokenauth="true";'
    options = ClientOptions.of("a:1", sasl_jaas_config=line, **SASL)
    assert (options.sasl_plain_username, options.sasl_plain_password) == ("u", 'p"')
    assert options._is_delegation_token
    assert not ClientOptions.of(
        "a:1", sasl_jaas_config=line.replace("true", "no"), **SASL
    )._is_delegation_token


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("org.x.Krb5LoginModule required username=u password=p;", "Krb5LoginModule is not supported"),
        ("org.x.PlainLoginModule required username=u;", "names no username and password"),
        ("org.x.PlainLoginModule required username=u password=secret", "is a quote missing"),
    ],
)
def test_a_jaas_line_without_a_usable_login_is_refused(line, says):
    with pytest.raises(ConfigError, match=says) as refused:
        ClientOptions.of("a:1", sasl_jaas_config=line, **SASL)
    assert "secret" not in str(refused.value)
