"""What tests of Ottla, and tests of programs that use Ottla, stand on; shipped with the product.

For tests of programs: `plugin` has the fixtures of pytest, `local_broker` and `local_cluster` run real
brokers in the process of the test, and `topic_probe` looks into their topics (docs/testing.md).

`broker_process` runs a broker as a process of its own, to be stopped, killed and started again on
the same data. `classic_member` and `consumer_member` are members of consumer groups that are light
enough to run by the hundred, and `ownership` checks the history that they report.
"""
