"""Spark sessions that start fast and have short batches.

Reading order:

    builder             `session` and `builder`: the settings
    spark_home          a SPARK_HOME of links with another spark-submit and Python
    active_session      writing from threads
    app_cds             an AppCDS archive of Spark's classes; cds_training_job loads them
    warm_python         a Python that forks Spark's processes; python_launcher is what Spark starts
    daemon              the worker daemon without a warm Python
    early_connection    a Python that connects to Spark before its slow imports
    shipping            the package as a zip file, for executors on other machines
"""
