"""Spaces as applications use them, with asyncio and blocking.

sync
    The blocking space; its docstrings are the reference for both.
aio
    The asyncio space.
space_base
    Operations of both kinds that do not wait, such as publishing.
subscription
    Subscriptions of both kinds: callbacks, and events for iterators.
container
    A live mapping of the objects of a type.
service_handles
    Handles of claims: services and ownership of objects.
request_handling
    Calls the handler of a service, and sends its responses.
picture
    The picture of the system, live.
"""
