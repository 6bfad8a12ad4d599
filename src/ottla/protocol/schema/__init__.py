"""Encode and decode all messages but Produce and Fetch, from kio's message classes.

Reading order: messages (the interface), fields (what the classes declare), decoding, encoding.
"""
