"""The command line: a thin face over the client (and, for `serve`, over the broker).

    main        the `ottla` command; loads its sub-commands only when they are used
    serve       run a broker                      banner    what it says when it is ready
                serve_cluster: several at once    start_problems: why it did not start
    topic       create, list, describe, alter, delete topics
    produce     records from lines or JSON        lines     standard input without blocking the loop
    consume     records to people, JSON, lines    start     where to begin and to end: --offset
                reading: the work of it           record_view  a record on a terminal
    records     how records are written as text: templates and JSON
    group, txn, cluster, zookeeper, log, config, bench     each with its *_view
    doctor      find out what is wrong            checks/   what it looks at
    demo/       orders, a pipeline, live results
    explain     the text behind an error's code   problem_kinds  all codes, declared once
    completion  for shells                        completing  names of topics and groups for them
    options     what commands share: -b, --profile, -X, --format      profiles  named clusters
    session     connect, run, and turn what goes wrong into words
    problems    those words: what happened, why, what to type next
    output, progress   tables, JSON, bars

Data goes to standard output, talk to standard error. A user's mistake is an `error:` line and a
hint, never a traceback. Exit codes: 0 done, 1 failed, 2 wrong usage, 130 interrupted.
"""
