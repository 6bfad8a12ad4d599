"""Kubernetes manifests: ZooKeepers and brokers as StatefulSets, with probes and disruption budgets.

A broker's node id is the number of its pod plus one. Pods reach each other by the names of a headless
service, so clients inside the cluster use `ottla-0.ottla.NAMESPACE.svc:9092`. Brokers start in parallel and
stop one at a time. Both sets avoid machines that already run one of their own pods.
"""

from __future__ import annotations

from typing import Any

from ottla.cli.generated.yaml_text import to_yaml
from ottla.common.config.metrics_keys import METRICS_PORT

ZOOKEEPER_IMAGE = "zookeeper:3.9"
CLIENT_PORT = 9092
ZOOKEEPER_PORT = 2181
QUORUM_PORTS = {"peer": 2888, "election": 3888}
USER_ID = 10_001
ZOOKEEPER_USER_ID = 1000
MAX_REPLICAS = 3
COMMENT = """\
{brokers} Ottla brokers and {zookeepers} ZooKeepers. The image is built from the Containerfile of the
source tree; push it to a registry that the cluster can reach.

  kubectl create namespace {namespace}
  kubectl apply --namespace {namespace} -f THIS_FILE
  kubectl --namespace {namespace} rollout status statefulset/ottla

Clients inside the cluster use ottla:{port}. Metrics are on port {metrics} of every pod."""


def manifests(brokers: int, zookeepers: int, image: str, namespace: str, disk: str) -> str:
    """Return all manifests as one YAML stream."""
    comment = COMMENT.format(
        brokers=brokers,
        zookeepers=zookeepers,
        namespace=namespace,
        port=CLIENT_PORT,
        metrics=METRICS_PORT,
    )
    documents = [
        _service("zookeeper", {"client": ZOOKEEPER_PORT, **QUORUM_PORTS}),
        _budget("zookeeper"),
        _zookeeper(zookeepers, disk),
        _service("ottla", {"kafka": CLIENT_PORT, "metrics": METRICS_PORT}),
        _budget("ottla"),
        _brokers(brokers, zookeepers, image, namespace, disk),
    ]
    first, *rest = documents
    return to_yaml(first, comment) + "".join("---\n" + to_yaml(each) for each in rest)


def _labels(name: str) -> dict[str, str]:
    return {"app.kubernetes.io/name": name, "app.kubernetes.io/part-of": "ottla"}


def _service(name: str, ports: dict[str, int]) -> dict[str, Any]:
    """Return a headless service: pods are found by name, also before they are ready."""
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": name, "labels": _labels(name)},
        "spec": {
            "clusterIP": "None",
            "publishNotReadyAddresses": True,
            "selector": _labels(name),
            "ports": [{"name": port_name, "port": port} for port_name, port in ports.items()],
        },
    }


def _budget(name: str) -> dict[str, Any]:
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": name, "labels": _labels(name)},
        "spec": {"maxUnavailable": 1, "selector": {"matchLabels": _labels(name)}},
    }


def _zookeeper(count: int, disk: str) -> dict[str, Any]:
    servers = " ".join(
        f"server.{number + 1}=zookeeper-{number}.zookeeper:{QUORUM_PORTS['peer']}:"
        f"{QUORUM_PORTS['election']};{ZOOKEEPER_PORT}"
        for number in range(count)
    )
    start = (
        "export ZOO_MY_ID=$((${HOSTNAME##*-} + 1)); exec /docker-entrypoint.sh zkServer.sh start-foreground"
    )
    container = {
        "name": "zookeeper",
        "image": ZOOKEEPER_IMAGE,
        "command": ["bash", "-c", start],
        "env": [
            {"name": "ZOO_SERVERS", "value": servers},
            {"name": "ZOO_4LW_COMMANDS_WHITELIST", "value": "ruok,srvr"},
            {"name": "ZOO_AUTOPURGE_PURGEINTERVAL", "value": "24"},
        ],
        "ports": [
            {"name": name, "containerPort": port}
            for name, port in {"client": ZOOKEEPER_PORT, **QUORUM_PORTS}.items()
        ],
        "readinessProbe": {
            "exec": {"command": ["zkServer.sh", "status"]},
            "periodSeconds": 10,
            "timeoutSeconds": 10,
        },
        "livenessProbe": {
            "tcpSocket": {"port": "client"},
            "initialDelaySeconds": 30,
            "periodSeconds": 10,
        },
        "resources": {"requests": {"cpu": "250m", "memory": "512Mi"}, "limits": {"memory": "1Gi"}},
        "securityContext": _container_security(),
        "volumeMounts": [{"name": "data", "mountPath": "/data"}],
    }
    return _stateful_set("zookeeper", count, container, disk, ZOOKEEPER_USER_ID, grace_s=30)


def _brokers(count: int, zookeepers: int, image: str, namespace: str, disk: str) -> dict[str, Any]:
    replicas = min(count, MAX_REPLICAS)
    ensemble = ",".join(f"zookeeper-{number}.zookeeper:{ZOOKEEPER_PORT}" for number in range(zookeepers))
    settings = {
        "default.replication.factor": replicas,
        "offsets.topic.replication.factor": replicas,
        "transaction.state.log.replication.factor": replicas,
    }
    name = f"$(hostname).ottla.{namespace}.svc"
    options = [
        "--node-id $((${HOSTNAME##*-} + 1))",
        "--data /data/ottla",
        f"--zookeeper {ensemble}",
        f"--listen 0.0.0.0:{CLIENT_PORT}",
        f'--advertise "{name}:{CLIENT_PORT}"',
        f"--metrics 0.0.0.0:{METRICS_PORT}",
        "--log-format json",
        *(f"--set {key}={value}" for key, value in settings.items()),
    ]
    container = {
        "name": "broker",
        "image": image,
        "command": ["sh", "-c", "exec ottla serve " + " ".join(options)],
        "ports": [
            {"name": "kafka", "containerPort": CLIENT_PORT},
            {"name": "metrics", "containerPort": METRICS_PORT},
        ],
        # Recovery after a crash may take long: until the first success, only the start-up probe counts.
        # Not /healthz: it is 503 on a full disk, and a restart makes no room.
        "startupProbe": {**_tcp("kafka"), "periodSeconds": 5, "failureThreshold": 360},
        "livenessProbe": {**_tcp("kafka"), "periodSeconds": 10, "failureThreshold": 6},
        "readinessProbe": {**_http("/readyz"), "periodSeconds": 5},
        "resources": {"requests": {"cpu": "500m", "memory": "256Mi"}, "limits": {"memory": "1Gi"}},
        "securityContext": _container_security(),
        "volumeMounts": [{"name": "data", "mountPath": "/data"}],
    }
    return _stateful_set("ottla", count, container, disk, USER_ID, grace_s=120)


def _http(path: str) -> dict[str, Any]:
    return {"httpGet": {"path": path, "port": "metrics"}, "timeoutSeconds": 3}


def _tcp(port: str) -> dict[str, Any]:
    return {"tcpSocket": {"port": port}, "timeoutSeconds": 3}


def _container_security() -> dict[str, Any]:
    return {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}


def _stateful_set(
    name: str, count: int, container: dict[str, Any], disk: str, user: int, grace_s: int
) -> dict[str, Any]:
    apart = {
        "weight": 100,
        "podAffinityTerm": {
            "topologyKey": "kubernetes.io/hostname",
            "labelSelector": {"matchLabels": _labels(name)},
        },
    }
    return {
        "apiVersion": "apps/v1",
        "kind": "StatefulSet",
        "metadata": {"name": name, "labels": _labels(name)},
        "spec": {
            "serviceName": name,
            "replicas": count,
            "podManagementPolicy": "Parallel",
            "selector": {"matchLabels": _labels(name)},
            "template": {
                "metadata": {"labels": _labels(name)},
                "spec": {
                    "terminationGracePeriodSeconds": grace_s,
                    "automountServiceAccountToken": False,
                    "securityContext": {
                        "runAsNonRoot": True,
                        "runAsUser": user,
                        "runAsGroup": user,
                        "fsGroup": user,
                        "seccompProfile": {"type": "RuntimeDefault"},
                    },
                    "affinity": {
                        "podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [apart]}
                    },
                    "containers": [container],
                },
            },
            "volumeClaimTemplates": [
                {
                    "metadata": {"name": "data"},
                    "spec": {
                        "accessModes": ["ReadWriteOnce"],
                        "resources": {"requests": {"storage": disk}},
                    },
                }
            ],
        },
    }
