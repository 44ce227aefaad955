"""What a running program reports: log lines and metrics.

logs              formats log lines and limits repeated warnings
events            logs the events of a node
metrics           metrics of a node for Prometheus
group_metrics     metrics of the multicast group of a node
system_metrics    metrics of a node in its system
number_metrics    makes metric families, and metrics of a program with a few numbers
recorder_metrics  metrics of a recorder
pipeline_metrics  metrics of the pipeline
"""
