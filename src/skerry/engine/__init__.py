"""What a node does, without doing any I/O: the current objects, and who is told of changes."""
