"""Connect's REST API.

app           all routes, and those beside /connectors
connectors    the routes under /connectors
access        the ACL that each route needs
forwarding    requests that another worker has to answer
metrics       metrics and probes
"""
