"""Storage of persistent objects, in SQLite or PostgreSQL.

contract        the configuration and the interface of a storage
open            opens the storage that a URL names
sqlite          a storage in an SQLite file
postgres        a storage in a PostgreSQL database
storage_writer  writes the journal to a storage, in a separate thread
"""
