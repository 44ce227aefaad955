"""Creates Spark sessions and starts Python workers.

- `session`: creates sessions, and sends the package to executors that do not have it
- `small_batches`: settings for frames of few rows
- `daemon`: the process from which Python workers are forked
- `extras`: checks that the extras `lake` and `spark` are installed
"""
