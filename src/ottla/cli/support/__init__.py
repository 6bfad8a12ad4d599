"""What commands share.

Reading order:

    options         -b, --profile, -X, --format; client settings of a command
    session         connect, run a command, turn errors into messages
    problems        the error message: what happened, why, what to type next
    problem_kinds   all error codes, declared once; problem_docs writes docs/problems.md
    not_authorized, start_problems      messages for authorization and start-up errors
    output, progress                    tables, JSON, progress bars
    records         records as text: templates and JSON
    offset_range, partition_choice      the values of --offset and --topic
    profiles        named clusters
    completing      shell completion of names
    lazy_group, plugins     sub-commands that are imported when they are used; commands of other packages
    line_input, input_template, table_input     what `ottla produce` reads
    schemas         keys and values with a schema registry
    http_client, http_options, http_service     requests to services; running one
    child_processes     `ottla` commands as child processes
"""
