"""Messages of Protocol Buffers by name, from the descriptors of the files that define them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Final

from google.protobuf import (
    any_pb2,
    descriptor_pb2,
    descriptor_pool,
    duration_pb2,
    empty_pb2,
    field_mask_pb2,
    message_factory,
    struct_pb2,
    timestamp_pb2,
    wrappers_pb2,
)
from google.protobuf.message import DecodeError as ProtobufDecodeError
from google.protobuf.message import EncodeError as ProtobufEncodeError

from skerry.errors import DecodeError, EncodeError, SchemaCheckError

PROTOBUF_FILE_COUNT_MAX: Final = 10_000
"""Descriptors of files, of which a large system has hundreds. A log may contain any number."""

_STANDARD: Final = {
    module.DESCRIPTOR.name: module.DESCRIPTOR
    for module in (
        *(any_pb2, descriptor_pb2, duration_pb2, empty_pb2),
        *(field_mask_pb2, struct_pb2, timestamp_pb2, wrappers_pb2),
    )
}
"""The files that come with Protocol Buffers, which a descriptor set may leave out."""


class ProtobufTypes:
    """Messages by their full name. Each file is used after those that it imports."""

    def __init__(self) -> None:
        self._pool = descriptor_pool.DescriptorPool()
        self._files: dict[str, bytes] = {}
        self._waiting: dict[str, descriptor_pb2.FileDescriptorProto] = {}
        """Files of which an import is missing."""
        self._classes: dict[str, Any] = {}

    def add_set(self, data: bytes) -> None:
        """Add the files of a descriptor set. Raises DecodeError or SchemaCheckError."""
        for file in _parsed(descriptor_pb2.FileDescriptorSet, data).file:
            self._add(file)

    def add_file(self, data: bytes) -> None:
        """Add the descriptor of one file. Raises DecodeError or SchemaCheckError."""
        self._add(_parsed(descriptor_pb2.FileDescriptorProto, data))

    def names(self) -> Iterator[str]:
        """The full names of all messages that are not nested in others."""
        for data in self._files.values():
            file = descriptor_pb2.FileDescriptorProto.FromString(data)
            for message in file.message_type:
                yield f"{file.package}.{message.name}" if file.package else message.name

    def missing_imports(self) -> list[str]:
        """The files that others import and that were not added."""
        imported = {name for file in self._waiting.values() for name in file.dependency}
        return sorted(imported - self._files.keys() - self._waiting.keys())

    def find(self, name: str) -> Any | None:
        """The class of a message; None if no file defines it."""
        found = self._classes.get(name)
        if found is None:
            try:
                descriptor = self._pool.FindMessageTypeByName(name)
            except KeyError:
                return None
            found = self._classes[name] = message_factory.GetMessageClass(descriptor)
        return found

    def files_of(self, name: str) -> Iterable[tuple[str, bytes]]:
        """Name and descriptor of each file that a message needs, each after its imports."""
        found = self.find(name)
        if found is None:
            return []
        needed: dict[str, bytes] = {}
        stack = [(found.DESCRIPTOR.file, False)]
        while stack:
            file, is_done = stack.pop()
            if file.name in needed:
                continue
            if is_done:
                needed[file.name] = self._files[file.name]
                continue
            stack.append((file, True))
            stack += [(imported, False) for imported in file.dependencies]
        return needed.items()

    def _add(self, file: descriptor_pb2.FileDescriptorProto) -> None:
        known = self._files.get(file.name)
        data = file.SerializeToString(deterministic=True)
        if known == data:
            return
        if known is not None:
            raise SchemaCheckError(
                f"the file {file.name:.200} has two definitions; give only one of them"
            )
        if len(self._files) + len(self._waiting) >= PROTOBUF_FILE_COUNT_MAX:
            raise _faulty(f"more than {PROTOBUF_FILE_COUNT_MAX} files")
        self._waiting[file.name] = file
        self._use_waiting()

    def _use_waiting(self) -> None:
        """Use the files of which all imports are there."""
        is_changed = True
        while is_changed:
            is_changed = False
            for name, file in list(self._waiting.items()):
                for imported in file.dependency:
                    if imported not in self._files and imported in _STANDARD:
                        self._use_standard(imported)
                if all(imported in self._files for imported in file.dependency):
                    del self._waiting[name]
                    self._use(file)
                    is_changed = True

    def _use_standard(self, name: str) -> None:
        made = descriptor_pb2.FileDescriptorProto()
        _STANDARD[name].CopyToProto(made)
        for imported in made.dependency:
            if imported not in self._files:
                self._use_standard(imported)
        self._use(made)

    def _use(self, file: descriptor_pb2.FileDescriptorProto) -> None:
        data = file.SerializeToString(deterministic=True)
        try:
            self._pool.AddSerializedFile(data)
        except (TypeError, ValueError) as error:
            raise _faulty(f"{file.name:.200}: {error}") from None
        self._files[file.name] = data


def parse_message(cls: Any, data: bytes) -> Any:
    """The message of a class in its encoding. Raises DecodeError."""
    message = cls()
    try:
        message.ParseFromString(data)
    except (ProtobufDecodeError, UnicodeDecodeError) as error:
        raise DecodeError(type_name=cls.DESCRIPTOR.full_name, detail=str(error)) from None
    return message


def serialize_message(message: Any) -> bytes:
    """The encoding of a message. Raises EncodeError if a required field is missing."""
    try:
        data: bytes = message.SerializeToString(deterministic=True)
    except ProtobufEncodeError as error:
        name = message.DESCRIPTOR.full_name
        raise EncodeError(type_name=name, field="", detail=str(error)) from None
    return data


def _parsed(cls: Any, data: bytes) -> Any:
    try:
        return cls.FromString(data)
    except (ProtobufDecodeError, UnicodeDecodeError) as error:
        raise _faulty(str(error)) from None


def _faulty(detail: str) -> DecodeError:
    return DecodeError(type_name="descriptor of Protocol Buffers", detail=detail)
