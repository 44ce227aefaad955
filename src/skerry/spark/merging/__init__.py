"""Recorded rows become files of tables, for all types of a batch at once.

In the order of a batch: `survey` looks at a few columns, `judging` decides what that means,
`work` says what the tasks do, `splitting` places rows in slots (by `hashing`), `slots` merges the
rows of a slot (by `identity`, `states`, `raw`) and writes them (by `files`); `running` does all of
it in this process or by tasks of Spark.
"""
