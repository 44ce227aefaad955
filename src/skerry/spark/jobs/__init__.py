"""The jobs of the pipeline, and the batches they run.

- `run`: merges everything recorded, then ends
- `follow`: keeps tables up to date with recordings that are being written
- `loop`: runs batches one after the other, and reports progress
- `batch`: one batch, from segments to committed tables
- `definitions`: assigns each definition of a type to a table
- `late_type`: merges one type with Spark jobs, if its rows may precede known ones
- `lateness`: rebuilds updates and states when new rows precede known ones
- `derived_tables`: builds the derived tables
- `maintenance`: snapshots, compaction and vacuum after a batch
- `compact`: compacts small files
- `vacuum`: deletes files that no table names
"""
