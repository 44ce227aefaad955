"""Publishes rows of Spark as objects of a space.

- `sink`: the writers of the data source
- `row_objects`: converts rows to objects
"""
