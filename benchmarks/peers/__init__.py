"""Ottla beside Apache Kafka and others: the same load by the same generators (`make bench-peers`).

servers.py      what is measured; ottla.py, kafka.py, nats.py, redis.py, rabbitmq.py are the peers
load.py         generators, each in a process of its own; loads_*.py are the kinds of load
meter.py        wall time, CPU of server and generator, memory, and whose limit was seen
workloads.py    (a) to (h) of the table; soak.py is (i)
results.py      JSON lines in build/bench/, from which report.py and plots.py write docs/performance.md
"""
