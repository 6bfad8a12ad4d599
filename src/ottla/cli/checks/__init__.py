"""The checks of `ottla doctor`.

findings    the result of a check
broker      DNS, TCP, TLS, SASL, advertised addresses
cluster     the findings of `ottla cluster health`, disks, clocks
security    weak set-ups, certificates that expire, secrets that others can read
record      a record to a broker and back; clock skew
zookeeper   an ensemble
machine     disk, limits, ports, Java, Spark
"""
