"""The files that `ottla generate` writes, one module per program.

prometheus     a scrape configuration and alert rules
grafana        a dashboard, from the tables in grafana_panels
systemd        a unit for one broker
compose        a Compose file
kubernetes     manifests: ZooKeepers and brokers as StatefulSets
yaml_text      writes YAML with comments
"""
