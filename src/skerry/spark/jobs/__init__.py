"""Jobs: read recordings, call transforms, write tables."""
