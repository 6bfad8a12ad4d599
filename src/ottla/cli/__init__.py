"""The `ottla` command line: a thin layer over the client (and, for `serve`, over the broker).

Reading order:

    main            the `ottla` command; imports a sub-command only when it is used
    support/        what commands share: options, connections, errors, tables, progress
    serve/          run a broker, or a whole cluster on this machine
    topic, produce, consume, config, log    one file per command
    group/, txn/, cluster/, pipeline/       commands with sub-commands; `view` prints and `command` declares
    registry/, connect/, console/, up/      the services: run them, look at them, change them
    acl, user, token, quota, security/      who may do what
    profile, debug/                         named clusters; a bundle for bug reports
    doctor, checks/     diagnose the machine and the way to the cluster
    explain         the text behind an error code
    bench, demo/    measure a broker; a live demonstration
    generate, generated/    files for Grafana, Prometheus, systemd and Docker Compose
    zookeeper       run a ZooKeeper server
    completion      shell completion

Results go to standard output, messages to standard error. A user error is an `error:` line and a hint, never
a traceback. Exit codes: 0 success, 1 failure, 2 wrong usage, 130 interrupted.
"""
