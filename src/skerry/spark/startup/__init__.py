"""Creates Spark sessions and starts Python workers.

- `session`: creates sessions with the settings of the pipeline
- `small_batches`: settings for frames of few rows
- `daemon`: the process from which Python workers are forked
- `shipping`: sends the package to executors that do not have it
- `extras`: checks that the extras `lake` and `spark` are installed
"""
