"""A live cluster with security on: SASL_SSL between brokers and for clients, and ACLs.

Beside it each broker has a plain listener, on which the harness looks at the cluster as a super user.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Self

from tests.cluster.load import SECURITY
from tests.integration.secure_stage import BROKER_PASSWORD, SCRAM_MODULE, Certificates

from ottla.client import Admin
from ottla.client.admin import Acl
from ottla.testing.broker_process import free_port
from ottla.testing.cluster_process import ClusterProcess

MECHANISM = "SCRAM-SHA-512"
USER, PASSWORD = "alice", "wonderland"
NODES = (1, 2, 3)
RIGHTS = [
    *(Acl(f"User:{USER}", each, "topic", "*") for each in ("create", "read", "write", "describe")),
    *(Acl(f"User:{USER}", each, "group", "*") for each in ("read", "describe")),
]


class SecuredCluster(ClusterProcess):
    """Three brokers; `clients` are the addresses of the secured listeners."""

    def __init__(self, folder: Path) -> None:
        self.certificates = Certificates(folder)
        ports = {number: free_port() for number in NODES}
        self.clients = ",".join(f"127.0.0.1:{port}" for port in ports.values())
        settings = {
            "inter.broker.listener.name": "SASL_SSL",
            "sasl.enabled.mechanisms": MECHANISM,
            "sasl.mechanism.inter.broker.protocol": MECHANISM,
            f"listener.name.sasl_ssl.{MECHANISM.lower()}.sasl.jaas.config": (
                f'{SCRAM_MODULE} required username="broker" password="{BROKER_PASSWORD}";'
            ),
            "ottla.bootstrap.scram": f"{MECHANISM}=[name=broker,password={BROKER_PASSWORD}]",
            "ssl.truststore.location": str(self.certificates.ca),
            "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            "super.users": "User:broker;User:ANONYMOUS",
        }
        settings_of = {number: {"ssl.keystore.location": str(self.renew(number))} for number in NODES}
        super().__init__(folder, settings=settings, settings_of=settings_of)
        for number, broker in self.brokers.items():
            broker.arguments = ("--listen", f"SASL_SSL://127.0.0.1:{ports[number]}", *broker.arguments)

    def renew(self, number: int) -> Path:
        """Give a broker a new certificate, which it reads when it notices or starts."""
        return self.certificates.sign(f"broker-{number}")

    def __enter__(self) -> Self:
        super().__enter__()
        SECURITY[self.clients] = {
            "security.protocol": "SASL_SSL",
            "ssl.ca.location": str(self.certificates.ca),
            "sasl.mechanism": MECHANISM,
            "sasl.username": USER,
            "sasl.password": PASSWORD,
        }
        with Admin(self.bootstrap) as admin:
            admin.set_scram_password(USER, PASSWORD, mechanism=MECHANISM)
            assert admin.create_acls(RIGHTS) == [None] * len(RIGHTS)
        return self

    def __exit__(self, *arguments: Any) -> None:
        SECURITY.pop(self.clients, None)
        super().__exit__(*arguments)
