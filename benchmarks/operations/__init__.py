"""A month of operations with real processes: what health, probes, metrics, alerts and logs say at each step.

python -m benchmarks.operations                        # everything, about ten minutes; needs root, for mounts
python -m benchmarks.operations "a disk is full"       # some of it

The simulated month (`python -m ottla.testing.month`) runs in our tests. This one has three brokers with two
disks each, an ensemble of three ZooKeepers, Prometheus with our alerts, confluent-kafka as the load, and
types the commands of the runbooks.
"""
