"""What is told about a running program: log lines and metrics."""
