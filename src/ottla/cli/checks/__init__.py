"""What `ottla doctor` looks at.

findings    what a check says
broker      name, port, TLS, login, the addresses that brokers advertise
record      a record there and back; clocks
zookeeper   an ensemble
machine     disk, limits, ports, Java, Spark
"""
