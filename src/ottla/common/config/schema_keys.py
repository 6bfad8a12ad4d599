"""Keys of the validation of records with a schema registry. Names and values are Confluent's."""

from __future__ import annotations

from ottla.common.config.declaration import Config, Importance, Key
from ottla.common.config.types import INT, LIST, PASSWORD, STRING, Check, at_least

PACKAGE = "io.confluent.kafka.serializers.subject."
TOPIC_NAME = PACKAGE + "TopicNameStrategy"
RECORD_NAME = PACKAGE + "RecordNameStrategy"
TOPIC_RECORD_NAME = PACKAGE + "TopicRecordNameStrategy"
STRATEGIES = (TOPIC_NAME, RECORD_NAME, TOPIC_RECORD_NAME)


def _are_urls(urls: tuple[str, ...] | None) -> bool:
    return all(each.startswith(("http://", "https://")) for each in urls or ())


class SchemaKeys(Config):
    """Where the schema registry is that topics with validation rely on."""

    confluent_schema_registry_url: Key[tuple[str, ...] | None] = Key(
        "confluent.schema.registry.url",
        LIST,
        None,
        "URLs of schema registries, for topics that validate records; the first that answers is asked. "
        "If unset, no topic can validate.",
        check=Check("URLs that begin with http:// or https://", _are_urls),
        importance=Importance.HIGH,
    )
    confluent_basic_auth_user_info: Key[str | None] = Key(
        "confluent.basic.auth.user.info",
        PASSWORD,
        None,
        "`USER:PASSWORD` for these registries.",
        check=Check("USER:PASSWORD", lambda text: text is None or ":" in text),
    )
    confluent_ssl_truststore_location: Key[str | None] = Key(
        "confluent.ssl.truststore.location",
        STRING,
        None,
        "A PEM file with the certificates that these registries are trusted by; if unset, those of the "
        "system.",
    )
    ottla_schema_registry_timeout_ms = Key(
        "ottla.schema.registry.timeout.ms",
        INT,
        5_000,
        "How long a broker waits for the registry before it refuses a batch with a schema that it does not "
        "know yet. The producer tries again.",
        check=at_least(1),
    )
