"""The files of `ottla generate` are sound, and ask only for what brokers serve."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from tests.promql import asked

from ottla.cli.generated import compose, grafana, kubernetes, prometheus, systemd
from ottla.cli.generated.yaml_text import to_yaml
from ottla.cli.serve.command import raw_config
from ottla.common.config.broker import BrokerConfig
from ottla.connect.rest import metrics as connect_metrics
from ottla.console import metrics as console_metrics
from ottla.metrics.catalogue import METRICS, served_names
from ottla.metrics.metric import Metric
from ottla.registry.rest import metrics as registry_metrics
from ottla.spark import driver_endpoint

BY_PROMETHEUS = {"up"}
OF_SCRAPES = {"instance", "job"}


def panels() -> list[dict]:
    return [each for each in json.loads(grafana.dashboard("Ottla"))["panels"] if each["type"] != "row"]


EXPRESSIONS = [
    *(target["expr"] for panel in panels() for target in panel["targets"]),
    *(rule[1] for rule in prometheus.rules_for(60)),
]


OF_SERVICES = {
    **dict.fromkeys(registry_metrics.METRICS, frozenset({"method", "path", "status", "deleted"})),
    **dict.fromkeys(connect_metrics.METRICS, frozenset({"connector", "task", "status", "method", "path"})),
    **dict.fromkeys(console_metrics.METRICS, frozenset({"status", "method", "path", "reachable"})),
    **{
        each.name: frozenset(each.labels)
        for each in vars(driver_endpoint).values()
        if isinstance(each, Metric)
    },
}
"""The metrics of the services beside brokers, and the labels that theirs have."""


def labels_of(name: str) -> set[str]:
    if name in OF_SERVICES:
        return OF_SCRAPES | OF_SERVICES[name]
    declared = next((each for each in METRICS.values() if name in each.sample_names), None)
    more = {"le"} if name.endswith("_bucket") else set()
    return OF_SCRAPES | more | (set(declared.labels) if declared else set())


@pytest.mark.parametrize("expression", EXPRESSIONS)
def test_an_expression_asks_for_metrics_and_labels_that_are_served(expression):
    metrics, grouped = asked(expression)
    assert metrics, "it asks for nothing"
    assert set(metrics) <= served_names() | BY_PROMETHEUS | set(OF_SERVICES)
    for name, labels in metrics.items():
        assert labels <= labels_of(name), name
    assert grouped <= set.union(*(labels_of(name) for name in metrics))


def test_every_part_that_serves_metrics_is_on_the_dashboard():
    asked_for = {name for expression in EXPRESSIONS for name in asked(expression)[0]}
    for prefix in ("kafka_server_", "kafka_consumergroup_", "kafka_controller_", "ottla_throttle"):
        assert any(name.startswith(prefix) for name in asked_for), prefix
    for prefix in (
        "ottla_registry_",
        "kafka_connect_s",
        "ottla_console_",
        "ottla_spark_",
        "ottla_transactions",
    ):
        assert any(name.startswith(prefix) for name in asked_for), prefix


def test_the_helper_finds_metrics_labels_and_groups():
    expression = 'histogram_quantile(0.9, sum by (le, b) (rate(x_bucket{a=~"$t(",c!="}"}[5m]))) / y > 3'
    assert asked(expression) == ({"x_bucket": {"a", "c"}, "y": set()}, {"le", "b"})


def test_the_panels_of_the_dashboard_do_not_overlap_and_have_ids_of_their_own():
    made = json.loads(grafana.dashboard("Mine"))
    assert made["title"] == "Mine"
    ids = [each["id"] for each in made["panels"]]
    assert len(ids) == len(set(ids))
    taken: set[tuple[int, int]] = set()
    for each in made["panels"]:
        place = each["gridPos"]
        cells = {(place["x"] + x, place["y"] + y) for x in range(place["w"]) for y in range(place["h"])}
        assert not cells & taken, each["title"]
        assert max(x for x, _ in cells) < grafana.WIDTH
        taken |= cells


def test_the_variables_of_the_dashboard_ask_for_what_is_served():
    for query in grafana.VARIABLES.values():
        metric, label = query.removeprefix("label_values(").removesuffix(")").split(", ")
        assert metric in served_names()
        assert label in labels_of(metric)


def test_prometheus_gets_two_files_that_know_each_other(ottla, tmp_path):
    done = ottla("generate", "prometheus", "-o", str(tmp_path), "-t", "a:9644", "-t", "b:9644")
    assert done.code == 0
    assert sorted(each.name for each in tmp_path.iterdir()) == ["ottla-alerts.yml", "prometheus.yml"]
    config = (tmp_path / "prometheus.yml").read_text()
    assert "- ottla-alerts.yml\n" in config
    assert '- "a:9644"\n' in config
    assert '- "b:9644"\n' in config


def test_the_alerts_are_printed_with_the_lag_that_was_asked_for(ottla):
    assert (
        b"kafka_consumergroup_lag_seconds_max > 42"
        in ottla("generate", "prometheus", "--alerts", "--lag-seconds", "42").out
    )


def test_a_unit_runs_this_program_with_the_options_of_serve(ottla):
    said = ottla(
        "generate", "systemd", "--program", "/opt/o t/ottla", "--node-id", "2", "--zookeeper", "zk:2181"
    ).out.decode()
    command = next(line for line in said.splitlines() if line.startswith("ExecStart="))
    assert command == (
        'ExecStart="/opt/o t/ottla" serve --data /var/lib/ottla --log-format json '
        "--node-id 2 --zookeeper zk:2181"
    )


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="there is no systemd-analyze here")
@pytest.mark.parametrize("user", [None, "daemon"])
def test_systemd_accepts_the_unit(tmp_path: Path, user: str | None):
    file = tmp_path / "ottla.service"
    file.write_text(systemd.unit(sys.executable, "ottla", user, ["--listen", ":9092"]))
    done = subprocess.run(
        ["systemd-analyze", "verify", str(file)], capture_output=True, text=True, timeout=60
    )
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("brokers", [1, 3])
def test_the_brokers_of_a_compose_file_have_commands_that_serve_accepts(brokers):
    for number in range(1, brokers + 1):
        made = compose._broker(number, brokers, "ottla", 19_092 + number - 1)
        words = made["command"][1:]
        options: dict[str, list[str]] = {}
        for option, value in zip(words[::2], words[1::2], strict=True):
            options.setdefault(option, []).append(value)
        raw = raw_config(
            {},
            dict(each.split("=", 1) for each in options["--set"]),
            data=tuple(options["--data"]),
            listen=tuple(options["--listen"]),
            advertise=tuple(options["--advertise"]),
            node_id=int(options["--node-id"][0]),
            zookeeper=options["--zookeeper"][0],
            metrics=options["--metrics"][0],
        )
        config = BrokerConfig(raw)
        assert [str(each.advertised) for each in config.listener_list] == [
            f"broker-{number}:9092",
            f"localhost:{19_091 + number}",
        ]
        assert f"{19_091 + number}:{19_091 + number}" in made["ports"]


def test_the_image_is_built_once_and_used_by_all_brokers():
    services = yaml.safe_load(compose.compose(3, "ottla", 19_092))["services"]
    brokers = [service for name, service in services.items() if name.startswith("broker-")]
    assert [name for name, service in services.items() if "build" in service] == ["broker-1"]
    assert {each["image"] for each in brokers} == {"ottla:local"}
    assert "RUN pip install" in brokers[0]["build"]["dockerfile_inline"]


def test_from_a_checkout_the_image_is_made_of_its_source(ottla):
    made = yaml.safe_load(ottla("generate", "compose").out)["services"]["broker-1"]["build"]
    root = Path(made["context"])
    assert root == Path(__file__).parents[3]
    copied = [
        line.split()[1:-1] for line in made["dockerfile_inline"].splitlines() if line.startswith("COPY")
    ]
    assert all((root / name).exists() for names in copied for name in names)
    assert "RUN pip install --no-cache-dir '/source[zookeeper]'" in made["dockerfile_inline"]


def test_a_wheel_is_copied_into_the_image():
    assert (
        "COPY ./ottla-1.whl /tmp/ottla-1.whl\nRUN pip install --no-cache-dir '/tmp/ottla-1.whl[zookeeper]'"
        in (compose._dockerfile("./ottla-1.whl"))
    )


DATA = {
    "text": "a: b",
    "word": "off",
    "plain": "ottla-alerts.yml",
    "number": 3,
    "flag": True,
    "empty": {},
    "list": [{"a": 1, "b": [1, 2]}, "x y", ["n"]],
    "lines": "FROM x\nRUN y\n",
}


def test_yaml_is_written_so_that_nothing_is_misread():
    assert to_yaml(DATA, "why\n\nso") == (
        "# why\n#\n# so\n"
        'text: "a: b"\nword: "off"\nplain: ottla-alerts.yml\nnumber: 3\nflag: true\nempty: {}\n'
        'list:\n  - a: 1\n    b:\n      - 1\n      - 2\n  - "x y"\n  - - "n"\n'
        "lines: |\n  FROM x\n  RUN y\n"
    )


@pytest.mark.parametrize(
    "text",
    [to_yaml(DATA), prometheus.scrape_config(["a:1"]), prometheus.alert_rules(9), compose.compose(3, "o", 1)],
)
def test_a_yaml_parser_agrees(text):
    yaml = pytest.importorskip("yaml", reason="PyYAML is not installed")
    assert yaml.safe_load(text)


def test_a_file_that_cannot_be_written_is_named(ottla, tmp_path):
    (tmp_path / "file").write_text("")
    done = ottla("generate", "grafana", "-o", str(tmp_path / "file" / "x.json"))
    assert done.code == 1
    assert "cannot write" in done.err


def kubernetes_documents(brokers: int = 3, zookeepers: int = 3) -> list[dict]:
    text = kubernetes.manifests(brokers, zookeepers, "ottla:1", "events", "20Gi")
    return list(yaml.safe_load_all(text))


def test_kubernetes_accepts_the_manifests() -> None:
    validate = pytest.importorskip("kubernetes_validate")
    for each in kubernetes_documents():
        validate.validate(each, "1.31", strict=True)


def test_brokers_in_kubernetes_have_probes_a_budget_and_no_root() -> None:
    documents = {(each["kind"], each["metadata"]["name"]): each for each in kubernetes_documents(4, 5)}
    budget = documents["PodDisruptionBudget", "ottla"]["spec"]
    pods = documents["StatefulSet", "ottla"]["spec"]["template"]
    assert budget["selector"]["matchLabels"].items() <= pods["metadata"]["labels"].items()
    assert pods["spec"]["securityContext"]["runAsNonRoot"]
    (broker,) = pods["spec"]["containers"]
    assert broker["readinessProbe"]["httpGet"] == {"path": "/readyz", "port": "metrics"}
    # A full disk makes /healthz 503: restarts would not help, and take the broker away as well.
    for probe in ("startupProbe", "livenessProbe"):
        assert broker[probe]["tcpSocket"] == {"port": "kafka"}
        assert "httpGet" not in broker[probe]
    command = broker["command"][-1]
    assert "default.replication.factor=3" in command
    assert command.count("zookeeper:2181") == 5
    assert "$(hostname).ottla.events.svc:9092" in command


def test_a_pod_starts_the_broker_of_its_number() -> None:
    documents = {(each["kind"], each["metadata"]["name"]): each for each in kubernetes_documents()}
    command = documents["StatefulSet", "ottla"]["spec"]["template"]["spec"]["containers"][0]["command"]
    script = command[-1].replace("exec ottla", "printf '%s\n'").replace("$(hostname)", "ottla-2")
    told = subprocess.run(
        ["sh", "-c", script],
        env={"HOSTNAME": "ottla-2", "PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
    ).stdout.split("\n")
    assert told[told.index("--node-id") + 1] == "3"
    assert told[told.index("--advertise") + 1] == "ottla-2.ottla.events.svc:9092"


def test_every_alert_links_to_a_runbook_that_exists_and_names_its_instance(ottla) -> None:
    page = Path(__file__).parents[3] / "docs" / "operations.md"
    headings = [line.lstrip("# ") for line in page.read_text().splitlines() if line.startswith("#")]
    anchors = {heading.lower().replace(" ", "-") for heading in headings}
    for rule in prometheus.rules_for(60):
        assert rule.runbook in anchors, rule.name
        assert "sum(" not in rule.expression or rule.name == "OttlaNoController"
    said = ottla("generate", "prometheus", "--alerts", "--runbooks", "https://wiki/ottla").out.decode()
    assert "runbook_url: https://wiki/ottla#a-disk-is-full" in said.replace('"', "")
    assert "{{ $labels.instance }}: The disk of {{ $labels.directory }} is full" in said
    open_rule = next(each for each in prometheus.rules_for(60) if each.name == "OttlaTransactionOpen")
    assert "0.5 * ottla_transaction_max_timeout_seconds" in open_rule.expression
