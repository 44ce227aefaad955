"""Merges the recorded rows of a batch into files of tables, for all types at once.

In the order of a batch:

- `identity`: which counter numbers a row, and with which number
- `survey`: counts the rows of a batch per table and counter, from a few columns
- `duplicates`: decides which rows the tables already have, and the order of the others
- `work`: the work of the tasks, as the driver distributes it
- `hashing`: the hash of an object, equal to that of Spark
- `slots`: merges the rows of one slot and writes its files
- `states`: merges updates into states
- `raw`: writes the rows of `raw`
- `files`: reads and writes Parquet files with Arrow
- `runners`: divides rows into slots, and runs these steps in this process or as Spark tasks
"""
