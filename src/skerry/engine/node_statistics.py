"""Collects the counters of a node: for its program, for status objects and for the ledger."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from skerry.engine.connections.connections import Connections
from skerry.engine.dispatch.dispatcher import Dispatcher
from skerry.engine.dispatch.ledger import NodeStatistics, client_row, ledger_object, type_row
from skerry.engine.dispatch.routing import Routing
from skerry.engine.persistence import Journal
from skerry.engine.services.node_services import NodeServices
from skerry.engine.types.type_table import TypeTable
from skerry.objects.base import Struct
from skerry.objects.times import seconds_of_ns


class StatisticsCollector:
    def __init__(
        self,
        dispatcher: Dispatcher,
        routing: Routing,
        types: TypeTable,
        services: NodeServices,
        connections: Connections,
        journal: Journal | None,
    ) -> None:
        self._dispatcher = dispatcher
        self._routing = routing
        self._types = types
        self._services = services
        self._connections = connections
        self._journal = journal

    def collect(self) -> NodeStatistics:
        """All counters, and the ledger."""
        connections, cache, routing = self._connections, self._dispatcher.cache, self._routing
        clients, topics = connections.clients.values(), self._dispatcher.all_topics()
        journal = None if self._journal is None else self._journal.statistics()
        return NodeStatistics(
            started_ns=connections.clock.started_ns,
            client_count=len(clients),
            type_count=len(self._types.registry),
            group_count=routing.group_count,
            object_count=int(cache.object_count),
            payload_bytes=int(cache.payload_bytes),
            received_count=connections.intake.count,
            received_bytes=connections.received_bytes,
            sent_count=connections.output.sent_count,
            sent_bytes=connections.output.sent_bytes,
            accepted_count=int(self._dispatcher.position),
            conflict_count=self._types.registry.conflict_count,
            storage_waiting_count=0 if journal is None else journal.waiting_count,
            storage_trouble="" if journal is None else journal.trouble,
            held_count=self._services.ownership.held_count,
            backpressure_count=connections.backpressure.count,
            requests=self._services.requests.counts,
            refusals=dict(connections.disconnection.refusals),
            ends=dict(connections.disconnection.ends),
            clients=tuple(client_row(client) for client in clients),
            types=tuple(type_row(topic, routing.member_count(topic.name)) for topic in topics),
        )

    def ledger_objects(self) -> Iterator[Struct] | None:
        """The ledger as objects, each with the counters at the time when the iterator returns it.

        None if no client subscribes to it.
        """
        if not self._routing.member_count("SkerryLedger"):
            return None
        return self._ledger_objects()

    def _ledger_objects(self) -> Iterator[Struct]:
        for topic in self._dispatcher.all_topics():
            yield ledger_object(type_row(topic, self._routing.member_count(topic.name)))
        for client in list(self._connections.clients.values()):
            if client.is_present:
                yield ledger_object(client_row(client))

    def status(self) -> Mapping[str, Any]:
        """The counters that are published in DotsDaemonStatus."""
        connections = self._connections
        return {
            "started_s": seconds_of_ns(connections.clock.started_ns),
            "received": (connections.intake.count, connections.received_bytes),
            "sent": (connections.output.sent_count, connections.output.sent_bytes),
        }
