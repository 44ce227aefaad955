"""The command line: `skerry <thing> <verb>`, one module per command."""
