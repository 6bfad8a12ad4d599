"""The client side of the wire: connections to brokers, used by other brokers, by the clients and by Spark.

Reading order:

    errors           what can go wrong before a broker answers
    address          HOST:PORT as people write it
    framing          requests and responses as frames
    in_flight        the requests that wait for their response
    sasl, gssapi     authentication mechanisms
    security         TLS context and credentials of a connection
    handshake        ApiVersions and SASL on a new connection
    connection       one socket: connect, handshake, send, match responses
    backoff          pauses between attempts
    connection_pool  a client's connections, by address
    peers            a broker's connections to other brokers, by node id and channel
    fetch_session    KIP-227 sessions: send only the partitions that changed
    calls            one Fetch and one Produce over a connection
"""
