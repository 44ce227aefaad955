"""Everything that touches the world: files, sockets, clocks, processes."""
