"""The checks of `ottla doctor`.

findings    the result of a check
broker      DNS, TCP, TLS, SASL, advertised addresses
record      a record to a broker and back; clock skew
zookeeper   an ensemble
machine     disk, limits, ports, Java, Spark
"""
