"""Declare every option of Ottla once: name, kind, default, check, update mode, meaning.

There is one declaration, `Key`, and one way to read a value, `Key.parse`; three kinds of classes are made of
keys:

- `Config`, here: the configuration of brokers, topics and groups (broker.py, topic.py, group_keys.py). A key
  is a class attribute and a typed descriptor, so `broker_config.message_max_bytes` is an `int` to mypy.
  Values are resolved when a config is built and kept in the instance: reading one costs a dictionary look-up.
  Configs never change; a dynamic update builds a new one, which live.py gives to the parts of a broker.
- `Options`, in options.py: the options of the clients, as frozen dataclasses.
- The options of the Spark format, in spark/options.py: a table of keys with Spark's names.

DescribeConfigs, validation, error messages with the nearest known name, constructors' signatures,
docs/configuration.md, docs/client-options.md and docs/spark-options.md are derived from the keys.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass
from enum import Enum, IntEnum
from types import MappingProxyType
from typing import Any, ClassVar, Generic, NoReturn, TypeVar, overload

from ottla.common.config.types import Check, Kind
from ottla.common.near_names import unknown

T = TypeVar("T")


class ConfigError(ValueError):
    """A key is unknown or not implemented, or a value does not fit; says why and what would do."""

    def __init__(self, key: str, reason: str, message: str | None = None) -> None:
        super().__init__(message or f"{key}: {reason}")
        self.key = key
        self.reason = reason


class Update(Enum):
    """How a broker key may be changed while brokers run; the values are Kafka's words for it."""

    READ_ONLY = "read-only"
    PER_BROKER = "per-broker"
    CLUSTER_WIDE = "cluster-wide"


class Importance(Enum):
    """How many users ever need to look at a key."""

    HIGH = "high"
    MEDIUM = "medium"
    LOW = "low"


class ConfigSource(IntEnum):
    """Where a value comes from; the codes are those of DescribeConfigs."""

    DYNAMIC_TOPIC_CONFIG = 1
    DYNAMIC_BROKER_CONFIG = 2
    DYNAMIC_DEFAULT_BROKER_CONFIG = 3
    STATIC_BROKER_CONFIG = 4
    DEFAULT_CONFIG = 5
    DYNAMIC_CLIENT_METRICS_CONFIG = 7
    DYNAMIC_GROUP_CONFIG = 8


@dataclass(frozen=True, slots=True)
class Synonym:
    """One place that gives, or would give, a key its value."""

    name: str
    value: str | None
    source: ConfigSource


@dataclass(frozen=True, slots=True)
class ConfigEntry:
    """The entry of DescribeConfigs for one key; synonyms are in order, the winner first."""

    name: str
    value: str | None
    source: ConfigSource
    read_only: bool
    sensitive: bool
    type_code: int
    documentation: str
    synonyms: tuple[Synonym, ...]


@dataclass(frozen=True, eq=False)
class Key(Generic[T]):
    """One key. As a class attribute it reads as itself, on an instance as its value."""

    name: str
    kind: Kind[T]
    default: T
    doc: str
    _: KW_ONLY
    check: Check | None = None
    update: Update = Update.READ_ONLY
    importance: Importance = Importance.MEDIUM
    topic: str | None = None
    """The topic key that this broker key is the default of."""
    kafka_default: str | None = None
    """Kafka's default, where ours differs."""
    per_listener: bool = False
    """Whether one listener can have a value of its own: `listener.name.NAME.KEY`."""
    per_mechanism: bool = False
    """Whether one mechanism of a listener can: `listener.name.NAME.MECHANISM.KEY`."""
    aliases: tuple[str, ...] = ()
    """Other names for a client's option, written with underscores; a dot in a name counts as one."""

    @property
    def attribute(self) -> str:
        """The Python name of the key."""
        return self.name.replace(".", "_")

    def parse(self, given: Any) -> T:
        """Return the value that `given` stands for, mostly a text, or raise ConfigError."""
        try:
            value = self.kind.parse(given)
        except ValueError as error:
            self._refuse(given, str(error))
        if self.check is not None and not self.check.accepts(value):
            self._refuse(given, f"must be {self.check.wants}")
        return value

    def write(self, value: T) -> str | None:
        """Return `value` as DescribeConfigs shows it: nothing if it is unset or secret."""
        return None if value is None or self.kind.sensitive else self.kind.write(value)

    def shown(self, text: str) -> str | None:
        """Return the text of a value as it may be shown to anyone."""
        return None if self.kind.sensitive else text

    def _refuse(self, given: Any, reason: str) -> NoReturn:
        shown = "" if self.kind.sensitive else f", not {given!r}"
        raise ConfigError(self.name, f"{reason}{shown}") from None

    def __set_name__(self, owner: type[Any], attribute: str) -> None:
        if attribute != self.attribute:
            raise TypeError(f"{owner.__name__}.{attribute} should be called {self.attribute}")

    @overload
    def __get__(self, instance: None, owner: type[Any]) -> Key[T]: ...
    @overload
    def __get__(self, instance: Config, owner: type[Any]) -> T: ...
    def __get__(self, instance: Config | None, owner: type[Any]) -> Key[T] | T:
        # Never reached for a resolved value: that lies in the instance, which Python looks at first.
        return self if instance is None else self.default


class Config:
    """Base of the configuration classes; their keys are their class attributes."""

    LEVEL: ClassVar[str]
    UNIMPLEMENTED: ClassVar[frozenset[str]] = frozenset()
    UNIMPLEMENTED_PREFIXES: ClassVar[tuple[str, ...]] = ()
    KAFKA_DEFAULTS: ClassVar[Mapping[str, str]] = MappingProxyType({})
    """Keys without effect here that may be given at Kafka's default, and nothing else."""
    UNKNOWN: ClassVar[str | None] = None
    """Kafka's words before the name of a key that does not exist, where tools look for them."""
    KEYS: ClassVar[Mapping[str, Key[Any]]] = MappingProxyType({})

    def __init_subclass__(cls) -> None:
        declared = (value for base in reversed(cls.__mro__) for value in vars(base).values())
        cls.KEYS = MappingProxyType({key.name: key for key in declared if isinstance(key, Key)})

    def __setattr__(self, name: str, value: object) -> NoReturn:
        raise AttributeError(f"a {type(self).__name__} never changes; build a new one")

    @classmethod
    def key(cls, name: str) -> Key[Any]:
        """Return the key called `name`, or raise ConfigError that says what to type instead."""
        key = cls.KEYS.get(name)
        if key is None:
            raise cls._refusal(name)
        return key

    @classmethod
    def is_kafka_default(cls, name: str, text: str) -> bool:
        """Return whether this is Kafka's default of a key that has no effect here: it is left out."""
        return cls.KAFKA_DEFAULTS.get(name) == text.strip()

    @classmethod
    def parse(cls, texts: Mapping[str, str]) -> dict[str, Any]:
        """Return the values of `texts` by the Python names of their keys."""
        return {
            (key := cls.key(name)).attribute: key.parse(text)
            for name, text in texts.items()
            if not cls.is_kafka_default(name, text)
        }

    @classmethod
    def _refusal(cls, name: str) -> ConfigError:
        if name in cls.KAFKA_DEFAULTS:
            only = cls.KAFKA_DEFAULTS[name]
            return ConfigError(name, f"Kafka key not implemented by Ottla yet; only {only!r} is accepted")
        if name in cls.UNIMPLEMENTED or name.startswith(cls.UNIMPLEMENTED_PREFIXES):
            return ConfigError(name, "Kafka key not implemented by Ottla yet")
        reason = cls._elsewhere(name) or unknown(f"{cls.LEVEL} key", name, cls.KEYS)
        return ConfigError(name, reason, None if cls.UNKNOWN is None else f"{cls.UNKNOWN}: {name} ({reason})")

    @classmethod
    def _elsewhere(cls, name: str) -> str | None:
        """Return what to say of a name that is a key of another level."""
        return None
