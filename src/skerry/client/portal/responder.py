"""Answers questions about a program's health, and requests to terminate it, on its connection."""

from __future__ import annotations

import os
from collections.abc import Callable

from skerry.client.portal.aio import AsyncPortalConnection
from skerry.client.portal.publications import OnPublication, PortalPublication
from skerry.protocol.portal.identifiers import Scheme
from skerry.protocol.portal.programs.program_answers import ProgramAnswers
from skerry.protocol.portal.programs.program_messages import (
    HEALTH_REQUEST,
    HEALTH_RESPONSE,
    TERMINATE_REQUEST,
    TERMINATE_RESPONSE,
    HealthState,
    ProgramTopic,
)


class ProgramResponder:
    """The answers of the program that has a connection."""

    def __init__(
        self,
        connection: AsyncPortalConnection,
        *,
        health: Callable[[], tuple[HealthState, str]],
        terminate: Callable[[], None] | None,
    ) -> None:
        """`health` returns the state and a text about it. `terminate` is called after the answer to
        each request to terminate the program; without it, such requests are not answered."""
        self._connection = connection
        self._health = health
        self._terminate = terminate
        self._answers = ProgramAnswers(name=connection.config.client_name, pid=os.getpid())
        if terminate is not None:
            self._subscribe(TERMINATE_REQUEST, self._asked_to_terminate)
        self._subscribe(HEALTH_REQUEST, self._asked_for_health)

    def _subscribe(self, topic: ProgramTopic, receive: OnPublication) -> None:
        self._connection.subscribe(receive, topic.group, Scheme.PROTOBUF, topic.type_name)

    def _asked_for_health(self, _publication: PortalPublication) -> None:
        state, message = self._health()
        publish_as(self._connection, HEALTH_RESPONSE, self._answers.health(state, message))

    def _asked_to_terminate(self, publication: PortalPublication) -> None:
        answer = self._answers.termination(publication.payload)
        if answer is not None and self._terminate is not None:
            publish_as(self._connection, TERMINATE_RESPONSE, answer)
            self._terminate()


def publish_as(connection: AsyncPortalConnection, topic: ProgramTopic, payload: bytes) -> None:
    """Publish an encoded message of a topic."""
    connection.publish(topic.group, payload, scheme=Scheme.PROTOBUF, type_name=topic.type_name)
