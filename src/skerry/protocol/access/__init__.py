"""How applications and nodes talk: the DOTS protocol, as pure machines for both ends."""
