"""One-to-many delivery by IP multicast: the machines of the distributor, without sockets."""
