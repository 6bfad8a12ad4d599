"""What a producer has put into the broker in memory."""

from ottla.protocol.records.batch import decode_header


def stored(peer, topic="orders", partition=0):
    return peer.topics[topic].partitions[partition].records()


def values(peer, topic="orders", partition=0):
    return [each.value for each in stored(peer, topic, partition)]


def headers(peer, topic="orders", partition=0):
    return [decode_header(each) for each in peer.topics[topic].partitions[partition].batches]
