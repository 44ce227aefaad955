"""The clients that wait for a turn."""

from __future__ import annotations

from collections import OrderedDict

from skerry.engine.clients import Client


class TurnQueue:
    """Clients with queued input or unfinished tasks, in the order of their turns."""

    def __init__(self) -> None:
        self.busy: OrderedDict[int, Client] = OrderedDict()
        """Clients by id that wait for another turn."""
        self.fresh: OrderedDict[int, Client] = OrderedDict()
        """Clients whose input arrived when the time of the driver's loop iteration was used up.
        They have their turn before the busy ones."""

    def __bool__(self) -> bool:
        return bool(self.busy) or bool(self.fresh)

    def schedule(self, client: Client) -> None:
        """Give a client another turn if it has anything to do; otherwise remove it."""
        is_blocked = client.queue.is_paused or client.is_under_review
        has_task = bool(client.agenda or client.slots) and not is_blocked
        has_task = has_task or (client.writing is not None and not client.is_full)
        if client.is_present and (has_task or client.input.is_held):
            self.busy[client.client_id] = client
        else:
            self.busy.pop(client.client_id, None)

    def schedule_fresh(self, client: Client) -> None:
        """Give a client a turn before the busy ones."""
        self.fresh[client.client_id] = client

    def remove(self, client: Client) -> None:
        self.busy.pop(client.client_id, None)
        self.fresh.pop(client.client_id, None)
