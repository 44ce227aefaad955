"""What a running program reports: log lines and metrics.

logs            formats log lines and limits repeated warnings
events          logs the events of a node
system_log      logs the changes of a node's system, and its alarms
metrics         metrics of a node and its multicast group for Prometheus
system_metrics  metrics of a node in its system
portal_log      logs the events of a portal and its clients
portal_metrics  metrics of a portal
number_metrics  metrics of the recorder and the pipeline, and the maker of metric families
"""
