"""Spaces as applications use them, with asyncio and blocking.

sync              the blocking space; its docstrings are the reference for both kinds
aio               the asyncio space
space_base        operations of both kinds that do not wait, such as publishing
subscription      subscriptions of both kinds: callbacks, and events for iterators
container         a live mapping of the objects of a type
service_handles   services and ownership of objects: handlers, their responses, handles of claims
picture           the picture of the system, live
"""
