"""Services beside the brokers, by their REST APIs.

http_json        one JSON request, in a thread
registry_http    the schema registry
connect_client   Kafka Connect
"""
