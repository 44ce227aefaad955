"""The tables of a lake: columns, files, logs and plans.

- `lake`: the tables, and how a batch is committed exactly once
- `plans`: the changes of a batch and the state after it, as files
- `catalog`: the columns of all tables
- `schema`: types as columns, over all definitions of a type
- `buckets`: hours, days and buckets by which tables are partitioned
- `data_files`: the files of a table, and the changes of a commit
- `delta`: one table: reading, writing and committing its files
- `delta_log`: reads and writes the Delta log of a table
- `store`: the folder of the lake, local or remote
- `state_lookup`: finds the files that a query about an instant needs
- `retention_limits`: the instant from which rows of each type are kept
"""
