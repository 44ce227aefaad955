"""How programs talk: pure machines that turn bytes, time and chance into events and bytes."""
