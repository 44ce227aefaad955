"""The jobs of the pipeline, and the batches they run.

- `loop`: the jobs `run_all` and `follow`, which run batches one after the other
- `batch`: one batch, from segments to committed tables
- `definitions`: assigns each definition of a type to a table
- `derived_tables`: builds the derived tables
- `maintenance`: snapshots, compaction and vacuum after a batch
"""
