"""The internal types, which every program knows: those of the DOTS wire and those of skerry.

They are never described on the wire, so both sides must have the same ones. C++ programs do not
have the types of skerry. Those are only transmitted if both sides announced that they know them.
"""

from __future__ import annotations

from functools import cache
from typing import Final

from skerry.schema.check import define
from skerry.schema.dots_types import DOTS_TEXT
from skerry.schema.model import NamedType

LINK_TYPE: Final = "SkerryLink"
RAW_STATISTICS_TYPE: Final = "SkerryRawStatistics"
"""The type by which nodes and recorders publish the quality of their links. Recordings and tables
use it too."""


@cache
def internal_types() -> dict[str, NamedType]:
    checked = define(INTERNAL_TEXT, file="internal.dots", is_internal=True)
    return {type_.name: type_ for type_ in checked.types}


_SKERRY_TEXT: Final = """
// -- additions

/// Addition: the payload of a bare subject.
struct SkerryBytes [internal, cached=false] {
    1: bytes data;
}

/// Addition: the node refused a message of the client.
struct SkerryRefusal [internal, cached=false] {
    1: string what;
    2: string reason;
    3: string groupName;            //< group of a join that was refused
    4: int32 subscriptionId;        //< number of that join, if it had one
}

/// Addition: a client sent a definition of a type that is incompatible with those in use.
struct SkerryConflict [internal] {
    1: [key] string typeName;
    2: string known;                //< users of the other definition
    3: string offered;              //< the last client that sent this one
    4: string difference;           //< the first difference
}

/// Addition: a definition of a type that clients sent or that objects need. A node sends all of
/// them to a client that joins this, and then one without typeName.
struct SkerryDefinition [internal, cached=false] {
    1: string typeName;
    2: int64 fingerprint;
    3: bool isServed;               //< whether it is part of the definition that the node serves
    4: string text;                 //< in the type language
    5: vector<uint32> clients;      //< clients that sent it, the first hundred
    6: vector<string> clientNames;  //< names of these clients
    7: uint32 clientCount;          //< count of all clients that sent it
    8: string conflict;             //< why it is not served, if there is a conflict
}

/// Addition: messages of the site that this node and so its clients never receive. They were in
/// lost datagrams of the group, so their types are not known.
struct SkerryLoss [internal, cached=false] {
    1: string sender;               //< address and sender id in the group
    2: string application;          //< name of the sender, if it is known
    3: uint32 firstDatagram;        //< number of the first lost datagram
    4: uint32 datagramCount;        //< count of lost datagrams in a row
    5: string reason;               //< retries, nak, overflow, jump, removed or malformed
    6: bool isStopped;              //< the node is configured to receive no more of it
    7: timepoint time;              //< when the node gave them up
}

/// Addition: quality of the link from a sender to a receiver since the last SkerryLink. Receivers
/// of a group, nodes of a system, and clients that wait for responses, publish it every ten
/// seconds.
struct SkerryLink [internal, cached=false] {
    1: [key] string sender;         //< address and sender id in the group, or name of the client
    2: [key] string receiver;       //< the same of the receiver, or address of the node
    3: string application;          //< name of the sender in the group, if it is known
    4: string carrier;              //< distributor, link or access
    5: int64 senderNumber;          //< number of the sender in recordings
    6: uint32 datagrams;            //< received or given up
    7: uint32 requests;             //< repair requests
    8: uint32 retransmissions;      //< datagrams received after a repair request
    9: uint32 lost;                 //< datagrams that were never received
    10: uint32 roundTrips;          //< requests whose responses were timed
    11: duration roundTripTime;     //< average time of a response
}

/// Addition: what a client does with a claim.
enum SkerryClaimEvent {
    1: claim,                       //< become the holder, in place of another one
    2: standby,                     //< become the holder when there is no other
    3: release                      //< give up the claim
}

/// Addition: the state of a claim.
enum SkerryClaimState {
    1: held,
    2: standby,                     //< another client is the holder
    3: lost,                        //< another client became the holder; the claim ended
    4: refused                      //< it is not possible; the claim ended
}

/// Addition: a client claims to answer requests or to change objects.
struct SkerryClaim [internal, cached=false] {
    1: uint32 number;               //< chosen by the client
    2: SkerryClaimEvent event;
    3: string typeName;
    4: string handler;              //< name of the handler of requests; absent for objects
    5: bytes object;                //< an object with only its key; absent for all of them
}

/// Addition: the state of a claim, sent to its client on each change.
struct SkerryClaimed [internal, cached=false] {
    1: uint32 number;
    2: SkerryClaimState state;
    3: string reason;               //< why it was lost or refused
}

/// Addition: the kind of right that is claimed.
enum SkerryClaimKind {
    1: requests,
    2: objects
}

/// Addition: the holder of a claim, published to all.
struct SkerryHolder [internal] {
    1: [key] SkerryClaimKind kind;
    2: [key] string subject;        //< of the handler, of the object, or of the type
    3: string typeName;
    4: uint32 client;
    5: uint32 standbys;             //< count of standbys
}

/// Addition: a request to the handler of its type under a name.
struct SkerryRequest [internal, cached=false] {
    1: uint64 number;               //< chosen by the sender of this: the client, then the node
    2: string typeName;
    3: string handler;              //< absent for the handler without a name
    4: bytes object;
    5: duration timeout;            //< after which the request times out
    6: uint32 client;               //< the client that sent the request; set by the node
}

/// Addition: how a request ended.
enum SkerryOutcome {
    1: answered,
    2: failed,                      //< the handler failed
    3: not_registered,              //< there is no handler
    4: timed_out,                   //< it may or may not have been carried out
    5: refused,                     //< it is not permitted
    6: overflow                     //< too many requests of the client are open
}

/// Addition: the response to a request.
struct SkerryResponse [internal, cached=false] {
    1: uint64 number;               //< number of the request for the receiver of this
    2: SkerryOutcome outcome;
    3: string typeName;             //< type of the object; absent without an object
    4: bytes object;
    5: string reason;               //< why it was not answered
}

/// Addition: a finished request, published to clients that joined this.
struct SkerryCall [internal, cached=false] {
    1: uint64 number;               //< number of the request at the node
    2: string typeName;
    3: string handler;
    4: uint32 client;               //< the client that sent the request
    5: uint32 servedBy;             //< the client that handled it, if one did
    6: timepoint asked;
    7: duration took;
    8: SkerryOutcome outcome;
    9: bytes object;
    10: string answerType;
    11: bytes answer;
    12: string reason;
}

/// Addition: a node of the system.
struct SkerryNode [internal, substruct_only] {
    1: int64 id;                    //< new at each start
    2: string name;
    3: string kind;                 //< full, or light
    4: vector<string> endpoints;    //< endpoints at which it listens; only of the publishing node
    5: bool isDead;
    6: uint32 generation;           //< how often a light node has returned
    7: timepoint started;           //< only of the publishing node
    8: string nodeType;             //< name of its node type
    9: string control;              //< address of its control channel; absent without a system
    10: string data;                //< address of its data channel
    11: string reason;              //< why it is dead
}

/// Addition: the nodes of the system, made by the elected node and published by each node.
struct SkerryPicture [internal] {
    1: string system;
    2: int64 elected;               //< the elected node
    3: int64 election;              //< number of the election
    4: uint64 sequence;             //< rises by one with each change
    5: bool isDetached;
    6: vector<SkerryNode> nodes;
    7: uint64 digest;               //< hash of the nodes
    8: int64 node;                  //< the node that publishes the picture
    9: int64 incarnation;           //< number of the run of the system
}

/// Addition: what one node of the system observes of another one. A node publishes what it knows
/// of all pairs every second while it has subscribers.
struct SkerryRawStatistics [internal, cached=false] {
    1: [key] int64 observer;
    2: [key] int64 node;
    3: string observerName;
    4: string nodeName;
    5: bool isDead;                 //< whether the observer has excluded the node
    6: string reason;               //< why it has
    7: uint32 controlReceived;      //< datagrams received from the node, on the control channel
    8: uint32 controlDuplicates;
    9: uint32 controlRetransmissions;   //< datagrams sent again to the node
    10: uint32 dataReceived;
    11: uint32 dataDuplicates;
    12: uint32 dataRetransmissions;
    13: duration roundTripTime;
    14: duration lag;               //< how long the node has been behind the others
    15: uint64 backlogBytes;        //< bytes that wait for it
    16: duration clockOffset;       //< of its clock; only of the publishing node
    17: duration silence;           //< since its last datagram; only of the publishing node
}

/// Addition: a client wants dead nodes to be forgotten everywhere in the system.
struct SkerryForget [internal, cached=false] {
    1: vector<int64> nodes;
}

/// Addition: the account of the updates of a type, or of those due to a client. A node publishes
/// all of them every second while it has subscribers.
struct SkerryLedger [internal, cached=false] {
    1: [key] string kind;           //< type or client
    2: [key] string name;           //< name of the type, or number of the client
    3: uint64 accepted;
    4: uint64 due;
    5: uint64 delivered;
    6: uint64 filtered;
    7: uint64 conflated;
    8: uint64 expired;
    9: uint64 refused;
    10: uint64 queued;
    11: int64 unexplained;          //< always 0
    12: uint64 objectCount;
    13: uint32 memberCount;
    14: uint64 queuedBytes;
}
"""

INTERNAL_TEXT: Final = DOTS_TEXT + _SKERRY_TEXT
