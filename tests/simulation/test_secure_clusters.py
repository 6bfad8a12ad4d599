"""Simulated clusters whose brokers authenticate to each other by SCRAM, with the faults of every seed."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ottla.testing.simulate import WORKLOADS
from ottla.testing.simulation.scenario import simulate

SCRAM_MODULE = "org.apache.kafka.common.security.scram.ScramLoginModule"
SECURE = {
    "listeners": "PLAINTEXT://{host}:9092,SASL_PLAINTEXT://{host}:9093",
    "advertised.listeners": "PLAINTEXT://{host}:9092,SASL_PLAINTEXT://{host}:9093",
    "inter.broker.listener.name": "SASL_PLAINTEXT",
    "sasl.enabled.mechanisms": "SCRAM-SHA-512",
    "sasl.mechanism.inter.broker.protocol": "SCRAM-SHA-512",
    "listener.name.sasl_plaintext.scram-sha-512.sasl.jaas.config": (
        f'{SCRAM_MODULE} required username="broker" password="secret";'
    ),
    "ottla.bootstrap.scram": "SCRAM-SHA-512=[name=broker,password=secret]",
    "connections.max.reauth.ms": "2000",
}


@pytest.mark.parametrize("workload", ["records", "transactions"])
@pytest.mark.parametrize("seed", range(6))
def test_no_promise_is_broken_with_authentication_between_brokers(seed: int, workload: str) -> None:
    chosen = WORKLOADS[workload]
    plan = chosen.make_plan(seed, None)
    plan = replace(plan, settings={**plan.settings, **SECURE})
    violations = simulate(plan, course=chosen.course).violations
    assert not violations, f"seed {seed}: {violations[0]}"
