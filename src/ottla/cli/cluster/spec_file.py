"""The file of `ottla cluster export` and `apply`: YAML or JSON, checked key by key."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, fields
from typing import Any

from ottla.cli.generated.yaml_text import to_yaml
from ottla.cli.support.problem_kinds import NO_PACKAGE
from ottla.cli.support.problems import Problem
from ottla.client.admin.acls import Acl
from ottla.client.admin.cluster_spec import ALL_BROKERS, ClusterSpec, TopicSpec, quota_entity
from ottla.common.near_names import or_nearest
from ottla.common.topic_names import why_illegal
from ottla.security.quota_entities import ENTITY_TYPES, QuotaEntity

VERSION = 1
SECTIONS = ("version", "topics", "brokers", "acls", "quotas")
TOPIC_KEYS = tuple(each.name for each in fields(TopicSpec))
ACL_KEYS = tuple(each.name for each in fields(Acl))
COMMENT = """A cluster's topics, dynamic broker configs, ACLs and quotas. Change it, then:
  ottla cluster apply -f FILE --dry-run
  ottla cluster apply -f FILE
A section that is left out is not managed. What is not listed is removed only with --prune."""


class BadFile(Exception):
    """The file does not declare a cluster; the message says where and why."""


def as_document(spec: ClusterSpec) -> dict[str, Any]:
    """Return a spec as plain data."""
    document: dict[str, Any] = {"version": VERSION}
    if spec.topics is not None:
        document["topics"] = {
            name: {key: value for key, value in asdict(topic).items() if value not in (None, {})}
            for name, topic in sorted(spec.topics.items())
        }
    if spec.brokers:
        document["brokers"] = {name: dict(configs) for name, configs in spec.brokers.items()}
    if spec.acls:
        document["acls"] = [asdict(each) for each in spec.acls]
    if spec.quotas:
        document["quotas"] = [
            {"entity": dict(entity), **{key: _number(value) for key, value in sorted(quotas.items())}}
            for entity, quotas in spec.quotas.items()
        ]
    return document


def as_yaml(spec: ClusterSpec) -> str:
    """Return a spec as the text of a YAML file."""
    return to_yaml(as_document(spec), COMMENT)


def parse(text: str) -> ClusterSpec:
    """Return what a file declares; raise BadFile if it is not a cluster's."""
    root = _mapping(_load(text), "the file")
    _known(root, SECTIONS, "the file")
    if root.get("version") != VERSION:
        raise BadFile(f"version: expected {VERSION}, found {root.get('version')!r}")
    topics = brokers = acls = quotas = None
    if "topics" in root:
        listed = _mapping(root["topics"] or {}, "topics")
        topics = {str(name): _topic(str(name), each) for name, each in listed.items()}
    if "brokers" in root:
        listed = _mapping(root["brokers"] or {}, "brokers")
        brokers = {_broker(name): _configs(each, f"brokers.{name}") for name, each in listed.items()}
    if "acls" in root:
        acls = tuple(_acl(each, f"acls[{at}]") for at, each in enumerate(_list(root["acls"] or [], "acls")))
    if "quotas" in root:
        entries = enumerate(_list(root["quotas"] or [], "quotas"))
        quotas = dict(_quota(each, f"quotas[{at}]") for at, each in entries)
    return ClusterSpec(topics, brokers, acls, quotas)


def _load(text: str) -> Any:
    if text.lstrip().startswith("{"):
        try:
            return json.loads(text)
        except ValueError as error:
            raise BadFile(f"this is not JSON: {error}") from None
    try:
        import yaml
    except ImportError:
        raise Problem("reading YAML needs PyYAML", "pip install 'ottla[yaml]'", kind=NO_PACKAGE) from None
    try:
        return yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise BadFile(f"this is not YAML: {' '.join(str(error).split())}") from None


def _topic(name: str, value: Any) -> TopicSpec:
    where = f"topics.{name}"
    if (reason := why_illegal(name)) is not None:
        raise BadFile(f"{where}: {reason}")
    given = _mapping(value or {}, where)
    _known(given, TOPIC_KEYS, where)
    counts = {}
    for key in ("partitions", "replication_factor"):
        number = given.get(key)
        if number is not None and (type(number) is not int or number < 1):
            raise BadFile(f"{where}.{key}: {number!r} is not a positive number")
        counts[key] = number
    return TopicSpec(**counts, configs=_configs(given.get("configs") or {}, f"{where}.configs"))


def _broker(name: Any) -> str:
    text = str(name)
    if text != ALL_BROKERS and not text.isdecimal():
        raise BadFile(f"brokers.{text}: a broker is a node id, or {ALL_BROKERS!r} for all")
    return text


def _configs(value: Any, where: str) -> dict[str, str]:
    return {str(key): _text(each, f"{where}.{key}") for key, each in _mapping(value or {}, where).items()}


def _text(value: Any, where: str) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str | int):
        return str(value)
    if isinstance(value, float):
        return f"{value:.15g}"
    if isinstance(value, list) and all(isinstance(each, str | int) for each in value):
        return ",".join(map(str, value))
    raise BadFile(f"{where}: {value!r} is not a value of a config")


def _acl(value: Any, where: str) -> Acl:
    given = _mapping(value, where)
    _known(given, ACL_KEYS, where)
    if missing := [key for key in ("principal", "operation", "resource_type") if key not in given]:
        raise BadFile(f"{where}: {missing[0]} is missing")
    words = {key: str(each) for key, each in given.items()}
    for key in ("operation", "resource_type", "pattern", "permission"):
        if key in words:
            words[key] = words[key].lower().replace("-", "_")
    return Acl(**words)


def _quota(value: Any, where: str) -> tuple[QuotaEntity, dict[str, float]]:
    given = dict(_mapping(value, where))
    names = _mapping(given.pop("entity", None), f"{where}.entity")
    _known(names, ENTITY_TYPES, f"{where}.entity")
    if not names:
        raise BadFile(f"{where}.entity: name a user, a client-id or an ip")
    quotas = {}
    for key, bound in given.items():
        if isinstance(bound, bool) or not isinstance(bound, int | float):
            raise BadFile(f"{where}.{key}: {bound!r} is not a number")
        quotas[str(key)] = float(bound)
    return quota_entity({kind: None if name is None else str(name) for kind, name in names.items()}), quotas


def _mapping(value: Any, where: str) -> Mapping[Any, Any]:
    if not isinstance(value, Mapping):
        raise BadFile(f"{where}: expected keys with values, found {value!r:.60}")
    return value


def _list(value: Any, where: str) -> list[Any]:
    if not isinstance(value, list):
        raise BadFile(f"{where}: expected a list, found {value!r:.60}")
    return value


def _known(given: Mapping[Any, Any], known: Sequence[str], where: str) -> None:
    for key in given:
        if key not in known:
            near = or_nearest(str(key), known) or f"; it can be {', '.join(known)}"
            raise BadFile(f"{where}: {key!r} is unknown{near}")


def _number(value: float) -> int | float:
    return int(value) if value == int(value) else value
