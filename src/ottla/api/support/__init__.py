"""Code that several API handlers share.

Reading order:

    context                     RequestContext and Services: what every handler receives
    authentication, authorization    who a client is, and what it may do
    audit_log                   the audit log
    client_quotas               quotas of users and client ids
    config_changes, token_messages   what two or three APIs share
    results, error_response     from results and errors to response fields
    forwarding                  requests for the controller, forwarded in an Envelope
    brief_wait                  bounds how long a request may block its connection
    produce_scheduler, first_sequence_guard, transaction_verification    used by Produce
    fetch_sessions, replica_fetch                                        used by Fetch
    coordinator_calls                                                    calls to coordinators
    librdkafka_offset_fetch                                              used by OffsetFetch
    health_facts, health_findings                                        used by DescribeBrokerHealth
    request_times                                                        latency metrics
    recently_fenced_brokers, acl_messages                                fields of responses
    reference_pages             the pages docs/apis.md and docs/security-acls.md
"""
