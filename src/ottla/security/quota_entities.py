"""Client quotas: the entities that have them, the keys, the checks, and which entity's quota applies.

An entity is a user, a client id, a user with a client id, or an address; each name may be the default of its
type. For a request, the first of these entities that has the key decides (Kafka's precedence):

    user and client-id             user and the default client-id          user
    default user and client-id     default user and default client-id      default user
    client-id                      default client-id

A quota of a user is shared by all client ids of this user. A quota of a default user or client id applies to
every name separately.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from ipaddress import ip_address
from typing import NamedTuple

from ottla.common.units import MAX_INT
from ottla.protocol.errors import InvalidRequest, UnsupportedVersion

USER, CLIENT_ID, IP = "user", "client-id", "ip"
ENTITY_TYPES = (USER, CLIENT_ID, IP)
MAX_LONG = 2**63 - 1

QuotaEntity = tuple[tuple[str, str | None], ...]
"""Pairs of entity type and name, in the order of ENTITY_TYPES; a name of None is the default of the type."""
QuotaMap = Mapping[QuotaEntity, Mapping[str, float]]


class QuotaKey(NamedTuple):
    """One kind of quota."""

    name: str
    entity_types: frozenset[str]
    largest: float
    """The largest value; whole numbers only, unless it is infinite."""
    doc: str


_CLIENTS, _ADDRESSES = frozenset({USER, CLIENT_ID}), frozenset({IP})
PRODUCER_BYTE_RATE = QuotaKey(
    "producer_byte_rate", _CLIENTS, MAX_LONG, "Bytes per second of Produce requests, on each broker."
)
CONSUMER_BYTE_RATE = QuotaKey(
    "consumer_byte_rate", _CLIENTS, MAX_LONG, "Bytes per second of fetched records, on each broker."
)
REQUEST_PERCENTAGE = QuotaKey(
    "request_percentage", _CLIENTS, float("inf"), "Percent of the broker's event loop that requests may use."
)
CONTROLLER_MUTATION_RATE = QuotaKey(
    "controller_mutation_rate", _CLIENTS, float("inf"), "Partitions created or deleted per second."
)
CONNECTION_CREATION_RATE = QuotaKey(
    "connection_creation_rate", _ADDRESSES, MAX_INT, "New connections per second, on each broker."
)
QUOTA_KEYS = {
    key.name: key
    for key in (
        PRODUCER_BYTE_RATE,
        CONSUMER_BYTE_RATE,
        REQUEST_PERCENTAGE,
        CONTROLLER_MUTATION_RATE,
        CONNECTION_CREATION_RATE,
    )
}


def quota_entity(parts: Iterable[tuple[str, str | None]]) -> QuotaEntity:
    """Return the entity of these pairs of type and name, or raise InvalidRequest."""
    named = list(parts)
    if not named:
        raise InvalidRequest("Invalid empty client quota entity")
    for kind, name in named:
        if kind not in ENTITY_TYPES:
            raise InvalidRequest(
                f"Unhandled client quota entity type: {kind!r}; there are {', '.join(ENTITY_TYPES)}"
            )
        if name == "":
            raise InvalidRequest(f"Empty {kind} not supported")
    kinds = Counter(kind for kind, _ in named)
    if twice := [kind for kind, count in kinds.items() if count > 1]:
        raise InvalidRequest(f"Invalid client quota entity, contains duplicate type {twice[0]}")
    if IP in kinds and len(named) > 1:
        raise InvalidRequest(
            "Invalid quota entity combination, IP entity should not be combined with User or ClientId"
        )
    return tuple(sorted((_checked(*part) for part in named), key=lambda part: ENTITY_TYPES.index(part[0])))


def _checked(kind: str, name: str | None) -> tuple[str, str | None]:
    if kind != IP or name is None:
        return kind, name
    try:
        return kind, str(ip_address(name))
    except ValueError:
        raise InvalidRequest(f"{name!r} is not a valid IP or resolvable host.") from None


def entity_text(entity: Iterable[tuple[str, str | None]]) -> str:
    """Return an entity as text: `user alice, client-id <default>`."""
    return ", ".join(f"{kind} {'<default>' if name is None else name}" for kind, name in entity)


def check_quota(entity: QuotaEntity, name: str, value: float) -> None:
    """Raise InvalidRequest if `entity` cannot have this quota."""
    key = QUOTA_KEYS.get(name)
    if key is None or not key.entity_types.issuperset(kind for kind, _ in entity):
        raise InvalidRequest(f"Invalid configuration key {name}")
    if not value > 0:
        raise InvalidRequest(f"Quota {name} must be greater than 0")
    if value > key.largest:
        raise InvalidRequest(f"Proposed value for {name} is too large.")
    if key.largest != float("inf") and value != int(value):
        raise InvalidRequest(f"{name} cannot be a fractional value.")


# The filter of DescribeClientQuotas

MATCH_EXACT, MATCH_DEFAULT, MATCH_ANY = 0, 1, 2


class FilterComponent(NamedTuple):
    """What an entity must have: a type with this name, with its default name, or with any name."""

    entity_type: str
    match_type: int
    match: str | None


def entity_filter(components: Sequence[FilterComponent], *, strict: bool) -> Callable[[QuotaEntity], bool]:
    """Return the filter of a request, or raise the request's error.

    An entity needs all components; with `strict` it must have no other types.
    """
    for each in components:
        _check_component(each)
    kinds = Counter(each.entity_type for each in components)
    if twice := [kind for kind, count in kinds.items() if count > 1]:
        raise InvalidRequest(f"Entity type {twice[0]} cannot appear more than once in the filter.")
    if IP in kinds and len(kinds) > 1:
        raise InvalidRequest(
            "Invalid entity filter component combination, IP filter component should not be used with user "
            "or clientId filter component."
        )

    def matches(entity: QuotaEntity) -> bool:
        names = dict(entity)
        if strict and len(names) != len(components):
            return False
        return all(
            each.entity_type in names
            and (each.match_type == MATCH_ANY or names[each.entity_type] == each.match)
            for each in components
        )

    return matches


def _check_component(component: FilterComponent) -> None:
    kind, match_type, match = component
    if not kind:
        raise InvalidRequest("Unexpected empty filter component entity type")
    if kind not in ENTITY_TYPES:
        raise UnsupportedVersion(f"Custom entity type '{kind}' not supported")
    if not MATCH_EXACT <= match_type <= MATCH_ANY:
        raise InvalidRequest(f"Unknown match type {match_type}")
    if (match is None) == (match_type == MATCH_EXACT):
        name = ("EXACT", "DEFAULT", "SPECIFIED")[match_type]
        how = "set match string to null" if match is None else "also specified a match string"
        raise InvalidRequest(f"Request specified MATCH_TYPE_{name}, but {how}.")


# Precedence

Meter = tuple[str | None, str | None]
"""User and client id that share one measurement; None where any name counts."""

_NAMED, _DEFAULT, _ABSENT = 0, 1, 2
_LEVELS = (
    (_NAMED, _NAMED),
    (_NAMED, _DEFAULT),
    (_NAMED, _ABSENT),
    (_DEFAULT, _NAMED),
    (_DEFAULT, _DEFAULT),
    (_DEFAULT, _ABSENT),
    (_ABSENT, _NAMED),
    (_ABSENT, _DEFAULT),
)


class QuotaTable:
    """The quotas of users and client ids for one key."""

    def __init__(self, quotas: QuotaMap, key: QuotaKey) -> None:
        self._values = dict(_values_of(quotas, key))
        held = {entity_kinds for _, entity_kinds in self._values}
        self._levels = [level for level in _LEVELS if level in held]

    def __bool__(self) -> bool:
        return bool(self._values)

    def find(self, user: str, client_id: str) -> tuple[float, Meter] | None:
        """Return the quota of a request, and what it is measured for; None if there is none."""
        for level in self._levels:
            on_user, on_client = level
            names = (user if on_user == _NAMED else None, client_id if on_client == _NAMED else None)
            value = self._values.get((names, level))
            if value is not None:
                meter = (None if on_user == _ABSENT else user, None if on_client == _ABSENT else client_id)
                return value, meter
        return None


_Level = tuple[int, int]


def _values_of(quotas: QuotaMap, key: QuotaKey) -> Iterator[tuple[tuple[Meter, _Level], float]]:
    for entity, values in quotas.items():
        value = values.get(key.name)
        names = dict(entity)
        if value is None or IP in names:
            continue
        level = (_level(names, USER), _level(names, CLIENT_ID))
        yield ((names.get(USER), names.get(CLIENT_ID)), level), value


def _level(names: Mapping[str, str | None], kind: str) -> int:
    if kind not in names:
        return _ABSENT
    return _DEFAULT if names[kind] is None else _NAMED


def address_quota(quotas: QuotaMap, address: str) -> float | None:
    """Return how many connections per second `address` may open, or None for any number."""
    for name in (address, None):
        value = quotas.get(((IP, name),), {}).get(CONNECTION_CREATION_RATE.name)
        if value is not None:
            return value
    return None
