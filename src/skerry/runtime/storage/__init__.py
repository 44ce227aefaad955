"""Where persistent objects are kept: SQLite or PostgreSQL, and the thread that writes them."""
