"""A Kubernetes API server and kubelet in one, for Spark's executors: pods are processes of this machine.

Spark's Kubernetes scheduler asks it to create pods and for their phases; it starts in each what the
entrypoint of Spark's image would start, with the pod's environment. There is no isolation, no volume, no
image and no access control.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import TracebackType
from typing import Any, Self
from urllib.parse import urlsplit

from ottla.common.java import find_java
from ottla.common.processes import die_with_parent
from ottla.spark.runtime.spark_home import OPENED

BACKEND = "org.apache.spark.scheduler.cluster.k8s.KubernetesExecutorBackend"
CONTAINER = "spark-kubernetes-executor"
SHORT_LIVED = ("-Xmx600m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")
ARGUMENTS = {
    "--driver-url": "SPARK_DRIVER_URL",
    "--executor-id": "SPARK_EXECUTOR_ID",
    "--cores": "SPARK_EXECUTOR_CORES",
    "--app-id": "SPARK_APPLICATION_ID",
    "--resourceProfileId": "SPARK_RESOURCE_PROFILE_ID",
    "--podName": "SPARK_EXECUTOR_POD_NAME",
}


class Kubernetes:
    """`with Kubernetes(folder) as cluster: cluster.master`."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.pods: dict[str, dict[str, Any]] = {}
        self.created: list[dict[str, Any]] = []
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        self._lock = threading.Lock()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))

    @property
    def master(self) -> str:
        """What Spark is given as master."""
        return f"k8s://http://127.0.0.1:{self._server.server_address[1]}"

    def __enter__(self) -> Self:
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.shutdown()
        for name in list(self._processes):
            self.kill(name)

    def running(self) -> list[str]:
        """Return the pods whose process runs."""
        return [name for name, each in list(self._processes.items()) if each.poll() is None]

    def kill(self, name: str) -> None:
        """End the process of a pod, and its workers, without warning."""
        try:
            os.killpg(self._processes[name].pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        self._processes[name].wait()

    def create(self, pod: dict[str, Any]) -> dict[str, Any]:
        """Start a pod."""
        name = pod["metadata"]["name"]
        pod["metadata"] |= {"uid": f"uid-{name}", "creationTimestamp": "2026-01-01T00:00:00Z"}
        pod["status"] = {"phase": "Running", "podIP": "127.0.0.1"}
        with self._lock:
            self.pods[name] = pod
            self.created.append(pod)
            self._processes[name] = self._start(pod)
        return pod

    def listed(self) -> list[dict[str, Any]]:
        """Return all pods, with the phases of their processes."""
        with self._lock:
            for name, pod in self.pods.items():
                code = self._processes[name].poll()
                if code is not None:
                    pod["status"] = _ended(code)
            return list(self.pods.values())

    def delete(self, name: str) -> dict[str, Any]:
        """End and forget a pod, or all if it has no name."""
        with self._lock:
            for each in [name] if name in self.pods else list(self.pods) if not name else []:
                self.kill(each)
                del self.pods[each]
        return {"kind": "Status", "apiVersion": "v1", "status": "Success"}

    def _start(self, pod: dict[str, Any]) -> subprocess.Popen[bytes]:
        import pyspark

        (container,) = (each for each in pod["spec"]["containers"] if each["name"] == CONTAINER)
        given = {each["name"]: each.get("value", "127.0.0.1") for each in container["env"]}
        given["SPARK_EXECUTOR_POD_NAME"] = pod["metadata"]["name"]
        folder = self.folder / pod["metadata"]["name"]
        folder.mkdir(parents=True)
        options = [given[each] for each in sorted(given) if each.startswith("SPARK_JAVA_OPT_")]
        opens = [f"--add-opens={each}=ALL-UNNAMED" for each in OPENED]
        home = Path(pyspark.__file__).parent
        command = [str(find_java()), "-cp", f"{home}/jars/*", *opens, *options, *SHORT_LIVED, BACKEND]
        for argument, variable in ARGUMENTS.items():
            command += [argument, given[variable]]
        command += ["--hostname", "127.0.0.1"]
        local = {"SPARK_HOME": str(home), "SPARK_LOCAL_IP": "127.0.0.1", "SPARK_LOCAL_DIRS": str(folder)}
        return subprocess.Popen(
            command,
            cwd=folder,
            env=_own_environment() | given | local,
            stdout=(folder / "log").open("wb"),
            stderr=subprocess.STDOUT,
            start_new_session=True,
            preexec_fn=die_with_parent,
        )


def _own_environment() -> dict[str, str]:
    return {
        name: os.environ[name] for name in ("PATH", "HOME", "JAVA_HOME", "PYTHONPATH") if name in os.environ
    }


def _ended(code: int) -> dict[str, Any]:
    state = {
        "terminated": {"exitCode": code if code >= 0 else 128 - code, "finishedAt": "2026-01-01T00:00:00Z"}
    }
    statuses = [{"name": CONTAINER, "ready": False, "state": state, "image": "", "restartCount": 0}]
    return {"phase": "Failed" if code else "Succeeded", "containerStatuses": statuses}


def _handler(cluster: Kubernetes) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            path = self._path()
            if path[-1] == "pods":
                self._answer(
                    {"kind": "PodList", "apiVersion": "v1", "metadata": {}, "items": cluster.listed()}
                )
            elif path[-2] == "pods" and path[-1] in cluster.pods:
                self._answer(next(each for each in cluster.listed() if each["metadata"]["name"] == path[-1]))
            elif path[-1] in ("configmaps", "persistentvolumeclaims", "services"):
                self._answer({"kind": "List", "apiVersion": "v1", "metadata": {}, "items": []})
            else:
                self._answer({"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": 404}, 404)

        def do_POST(self) -> None:
            body = self._body()
            self._answer(cluster.create(body) if self._path()[-1] == "pods" else body, 201)

        def do_PATCH(self) -> None:
            self._answer(self._body())

        def do_PUT(self) -> None:
            self._answer(self._body())

        def do_DELETE(self) -> None:
            self._body()
            path = self._path()
            name = "" if path[-1] == "pods" else path[-1]
            self._answer(cluster.delete(name) if "pods" in path else {"kind": "Status", "apiVersion": "v1"})

        def _path(self) -> list[str]:
            return urlsplit(self.path).path.strip("/").split("/")

        def _body(self) -> dict[str, Any]:
            raw = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            found: dict[str, Any] = json.loads(raw) if raw else {}
            return found

        def _answer(self, body: dict[str, Any], code: int = 200) -> None:
            raw = json.dumps(body).encode()
            self.send_response(code)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(raw)))
            self.end_headers()
            self.wfile.write(raw)

        def log_message(self, *_: Any) -> None:
            pass

    return Handler
