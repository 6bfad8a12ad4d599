"""Authentication, authorization and quotas as pure code: no sockets, no clocks, no files.

Reading order:

    principal           who a connection is
    certificate_name    the user name in a client's certificate
    jaas                JAAS lines: users and passwords in the configuration
    exchange            what SASL mechanisms have in common
    kerberos_name       the user name of a Kerberos principal
    plain, scram, oauthbearer       the mechanisms, on the broker's side
    sasl                the SASL state of a connection
    acls, authorizer, acl_explanation   what an ACL is; who may do what, and why
    quota_entities, quota_rates         which quota applies to a client; its rate and throttle time
    connection_rates, address_quotas    limits on new connections
    delegation_tokens   credentials that are derived from a secret of the brokers
"""
