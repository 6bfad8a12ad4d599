"""Brokers with SASL/PLAIN and an authorizer, and clients of three libraries that log in to them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from confluent_kafka import admin as confluent
from kafka.admin import (
    ACL,
    ACLFilter,
    ACLOperation,
    ACLPermissionType,
    ACLResourcePatternType,
    KafkaAdminClient,
    ResourcePattern,
    ResourcePatternFilter,
    ResourceType,
)
from tests.integration.memory_cluster import MemoryCluster

from ottla.client.admin import Acl, Admin
from ottla.common.config.authorization_keys import STANDARD_AUTHORIZER

USERS = ("admin", "broker", "alice", "bob")
Row = tuple[str, str, str, str, str, str]
"""Principal, operation, resource type, name, pattern and permission, in capital letters."""


def password(user: str) -> str:
    return f"{user}-secret"


@contextmanager
def acl_cluster(folder: Path, brokers: int = 2, **more: str) -> Iterator[MemoryCluster]:
    """Start brokers on which `admin` and `broker` may do everything, and the others nothing."""
    users = " ".join(f'user_{user}="{password(user)}"' for user in USERS)
    login = f'username="broker" password="{password("broker")}"'
    module = "org.apache.kafka.common.security.plain.PlainLoginModule"
    cluster = MemoryCluster(folder, brokers)
    cluster.settings = {
        "listeners": "SASL_PLAINTEXT://127.0.0.1:0",
        "security.inter.broker.protocol": "SASL_PLAINTEXT",
        "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256",
        "sasl.mechanism.inter.broker.protocol": "PLAIN",
        "listener.name.sasl_plaintext.plain.sasl.jaas.config": f"{module} required {login} {users};",
        "ottla.sasl.plain.without.tls.enable": "true",
        "authorizer.class.name": STANDARD_AUTHORIZER,
        "super.users": "User:admin;User:broker",
        "delegation.token.secret.key": "the-secret-of-tokens",
        "group.initial.rebalance.delay.ms": "0",
        "offsets.topic.num.partitions": "1",
        "ottla.metrics.listen": "off",
        "ottla.audit.file": str(folder / "audit.log"),
        **{key.replace("_", "."): value for key, value in more.items()},
    }
    with cluster:
        yield cluster


def confluent_config(address: str, user: str, **more: Any) -> dict[str, Any]:
    return {
        "bootstrap.servers": address,
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "PLAIN",
        "sasl.username": user,
        "sasl.password": password(user),
        **more,
    }


def kafka_python_config(address: str, user: str) -> dict[str, Any]:
    return {
        "bootstrap_servers": address,
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_mechanism": "PLAIN",
        "sasl_plain_username": user,
        "sasl_plain_password": password(user),
    }


def ottla_admin(address: str, user: str) -> Admin:
    return Admin(
        address,
        security_protocol="SASL_PLAINTEXT",
        sasl_mechanism="PLAIN",
        sasl_username=user,
        sasl_password=password(user),
    )


class ConfluentAcls:
    """librdkafka's admin client."""

    def __init__(self, address: str, user: str) -> None:
        self._admin = confluent.AdminClient(confluent_config(address, user))

    def create(self, row: Row) -> None:
        binding = self._described(confluent.AclBinding, row)
        self._admin.create_acls([binding])[binding].result(20)

    def list(self, principal: str) -> list[Row]:
        found = self._admin.describe_acls(self._filter(principal)).result(20)
        return [_confluent_row(each) for each in found]

    def delete(self, principal: str) -> list[Row]:
        wanted = self._filter(principal)
        return [_confluent_row(each) for each in self._admin.delete_acls([wanted])[wanted].result(20)]

    def close(self) -> None:
        pass

    @staticmethod
    def _described(kind: Any, row: Row) -> Any:
        principal, operation, resource, name, pattern, permission = row
        return kind(
            confluent.ResourceType[resource],
            name,
            confluent.ResourcePatternType[pattern],
            principal,
            "*",
            confluent.AclOperation[operation],
            confluent.AclPermissionType[permission],
        )

    @staticmethod
    def _filter(principal: str) -> Any:
        return confluent.AclBindingFilter(
            confluent.ResourceType.ANY,
            None,
            confluent.ResourcePatternType.ANY,
            principal,
            None,
            confluent.AclOperation.ANY,
            confluent.AclPermissionType.ANY,
        )


def _confluent_row(found: Any) -> Row:
    return (
        found.principal,
        found.operation.name,
        found.restype.name,
        found.name,
        found.resource_pattern_type.name,
        found.permission_type.name,
    )


class KafkaPythonAcls:
    """kafka-python's admin client."""

    def __init__(self, address: str, user: str) -> None:
        self._admin = KafkaAdminClient(**kafka_python_config(address, user))

    def create(self, row: Row) -> None:
        principal, operation, resource, name, pattern, permission = row
        made = self._admin.create_acls(
            [
                ACL(
                    principal,
                    "*",
                    ACLOperation[operation],
                    ACLPermissionType[permission],
                    ResourcePattern(ResourceType[resource], name, ACLResourcePatternType[pattern]),
                )
            ]
        )
        for error in made["failed"]:
            raise error

    def list(self, principal: str) -> list[Row]:
        found, error = self._admin.describe_acls(self._filter(principal))
        if error is not None and error.errno:
            raise error
        return [_kafka_python_row(each) for each in found]

    def delete(self, principal: str) -> list[Row]:
        (deleted,) = self._admin.delete_acls([self._filter(principal)])
        return [_kafka_python_row(each) for each in deleted[1]]

    def close(self) -> None:
        self._admin.close()

    @staticmethod
    def _filter(principal: str) -> Any:
        everything = ResourcePatternFilter(ResourceType.ANY, None, ACLResourcePatternType.ANY)
        return ACLFilter(principal, None, ACLOperation.ANY, ACLPermissionType.ANY, everything)


def _kafka_python_row(found: Any) -> Row:
    pattern = found.resource_pattern
    return (
        found.principal,
        found.operation.name,
        pattern.resource_type.name,
        pattern.resource_name,
        pattern.pattern_type.name,
        found.permission_type.name,
    )


class OttlaAcls:
    """Ottla's admin client."""

    def __init__(self, address: str, user: str) -> None:
        self._admin = ottla_admin(address, user)

    def create(self, row: Row) -> None:
        principal, operation, resource, name, pattern, permission = row
        (error,) = self._admin.create_acls(
            [Acl(principal, operation, resource, name, pattern, permission=permission)]
        )
        if error is not None:
            raise error

    def list(self, principal: str) -> list[Row]:
        return [_ottla_row(each) for each in self._admin.describe_acls(principal=principal)]

    def delete(self, principal: str) -> list[Row]:
        return [_ottla_row(each) for each in self._admin.delete_acls(principal=principal)]

    def close(self) -> None:
        self._admin.close()


def _ottla_row(acl: Acl) -> Row:
    return (
        acl.principal,
        acl.operation.upper(),
        acl.resource_type.upper(),
        acl.resource_name,
        acl.pattern.upper(),
        acl.permission.upper(),
    )


LIBRARIES: dict[str, Callable[[str, str], Any]] = {
    "confluent-kafka": ConfluentAcls,
    "kafka-python": KafkaPythonAcls,
    "ottla": OttlaAcls,
}
