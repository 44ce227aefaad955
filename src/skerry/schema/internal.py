"""The internal types, which every program knows: those of the DOTS wire and those of skerry.

They are never described on the wire, so both sides must have the same ones. C++ programs do not
have the types of skerry, nor the fields that it adds to theirs, which are marked as additions.
Those are only transmitted if both sides announced that they know them.
"""

from __future__ import annotations

from functools import cache
from typing import Final

from skerry.schema.check import define
from skerry.schema.model import NamedType

LINK_TYPE: Final = "SkerryLink"
PROBE_TYPE: Final = "SkerryProbe"
RAW_STATISTICS_TYPE: Final = "SkerryRawStatistics"
"""The type by which nodes and recorders publish the quality of their links. Recordings and tables
use it too."""


@cache
def internal_types() -> dict[str, NamedType]:
    checked = define(INTERNAL_TEXT, file="internal.dots", is_internal=True)
    return {type_.name: type_ for type_ in checked.types}


DOTS_TEXT: Final = """\
// -- every transmission

/// Precedes every object on a connection.
struct DotsHeader [internal, cached=false] {
    1: string typeName;             //< type of the object that follows
    2: timepoint sentTime;          //< when its publisher sent it
    7: timepoint serverSentTime;    //< when the node sent it on
    3: property_set attributes;     //< property set of the update
    5: uint32 sender;               //< client that published it; 1 is the node itself
    8: uint32 fromCache;            //< cache replay: objects that follow; absent when live
    4: bool removeObj;              //< the object is removed
    6: bool isFromMyself;           //< set by the receiver; ignored on the wire
    9: uint32 subscriptionId;       //< the filtered subscription it is for
    20: string subject;             //< addition: if it is not the default subject
    21: uint64 sequence;            //< addition: accepted updates of this client
    22: uint64 position;            //< addition: accepted updates of that node
    23: int64 node;                 //< addition: node that accepted it first
}

/// Header of the older framing, around the header proper.
struct DotsTransportHeader [internal, cached=false] {
    1: string nameSpace; 2: string destinationGroup; 3: DotsHeader dotsHeader;
    4: uint32 payloadSize; 5: uint32 destinationClientId;
}

// -- connection

/// What a server can do beyond the base protocol.
struct DotsServerCapabilities [internal, cached=false] {
    1: bool filteredSubscriptions;
    20: uint32 skerry;              //< addition: version of the additions
}

struct DotsMsgHello [internal, cached=false] {
    1: string serverName; 2: uint64 authChallenge; 3: bool authenticationRequired;
    4: DotsServerCapabilities capabilities;
}

struct DotsMsgConnect [internal, cached=false] {
    1: string clientName; 2: bool preloadCache; 3: bool preloadClientFinished;
    4: string authChallengeResponse; 5: string cnonce;
    20: uint32 extensions;          //< addition: mask of additions the client understands
}

struct DotsMsgConnectResponse [internal, cached=false] {
    1: string serverName; 5: uint32 clientId; 2: bool accepted; 3: bool preload;
    4: bool preloadFinished;
    20: string reason;              //< addition: why the client is rejected, for now
}

struct DotsMsgError [internal, cached=false] { 1: int32 errorCode; 2: string errorText; }

enum DotsConnectionState {
    1: connecting, 2: early_subscribe, 3: connected, 4: suspended, 5: closed
}

// -- groups

enum DotsMemberEvent { 1: join, 2: leave, 3: kill }

enum DotsPredicateKind { 1: leaf, 2: andOp, 3: orOp, 4: notOp }

enum DotsCompareOp {
    1: eq, 2: neq, 3: lt, 4: le, 5: gt, 6: ge, 7: isIn, 8: notIn, 9: isNull, 10: notNull,
    20: like                        //< addition: % any run, _ one character, \\ escapes
}

struct DotsPredicateValue [internal, cached=false] {
    1: bool boolVal; 2: int64 intVal; 3: uint64 uintVal; 4: float64 floatVal; 5: string stringVal;
    6: timepoint timepointVal; 7: duration durationVal; 8: uuid uuidVal;
    20: vector<int64> intList; 21: vector<uint64> uintList; 22: vector<float64> floatList;
    23: vector<string> stringList; 24: vector<timepoint> timepointList; 25: vector<uuid> uuidList;
}

struct DotsPredicateLeaf [internal, cached=false] {
    1: uint32 propertyTag; 2: DotsCompareOp op; 3: DotsPredicateValue value;
}

struct DotsPredicateNode [internal, cached=false] {
    1: DotsPredicateKind kind; 2: DotsPredicateLeaf leaf; 3: uint32 arity;
}

/// A condition as nodes in pre-order; the first is the root.
struct DotsPredicate [internal, cached=false] { 1: vector<DotsPredicateNode> nodes; }

struct DotsFilter [internal, cached=false] {
    1: DotsPredicate predicate; 2: property_set propertyMask;
}

/// Addition: what happens to a slow subscriber.
enum SkerrySlow { 1: disconnect, 2: conflate }

struct DotsMember [internal, cached=false] {
    1: string groupName; 2: DotsMemberEvent event; 3: uint32 client; 4: uint32 subscriptionId;
    5: DotsFilter filter;
    20: SkerrySlow slow;            //< addition
}

struct DotsCacheInfo [internal, cached=false] {
    1: string typeName; 2: bool startTransmission; 3: bool endTransmission;
    4: bool endDescriptorRequest;
}

struct DotsClearCache [internal, cached=false] { 1: vector<string> typeNames; }

struct DotsDescriptorRequest [internal, cached=false] {
    1: vector<string> whitelist; 2: vector<string> blacklist;
}

struct DotsEcho [internal, cached=false] {
    1: bool request; 2: uint32 identifier; 3: uint32 sequenceNumber; 4: string data;
}

// -- descriptions of types

enum DotsStructScope { 1: program, 2: server, 3: site, 4: global }

struct DotsStructFlags [internal, cached=false] {
    1: bool cached; 2: bool internal; 3: bool persistent; 4: bool cleanup; 5: bool local;
    6: bool substructOnly;
}

struct StructDocumentation [internal, cached=false] { 1: string description; 2: string comment; }

struct StructPropertyData [internal, cached=false] {
    1: string name; 2: uint32 tag; 3: bool isKey; 4: string type; 5: uint32 typeId;
}

struct StructDescriptorData [internal, cached=false] {
    1: [key] string name; 2: vector<StructPropertyData> properties;
    3: StructDocumentation documentation; 4: DotsStructScope scope; 5: DotsStructFlags flags;
    6: uint32 publisherId;
}

struct EnumElementDescriptor [internal, cached=false] {
    1: int32 enum_value; 2: string name; 3: uint32 tag;
}

struct EnumDescriptorData [internal, cached=false] {
    1: [key] string name; 2: vector<EnumElementDescriptor> elements; 4: uint32 publisherId;
}

// -- status objects: a node and its clients

struct DotsClient [internal] {
    1: [key] uint32 id; 2: string name; 3: bool running; 4: vector<string> publishedTypes;
    5: vector<string> subscribedTypes; 6: DotsConnectionState connectionState;
}

struct DotsStatistics [internal] { 1: uint64 bytes; 2: uint64 packages; }

struct DotsCacheStatus [internal] { 1: uint32 nrTypes; 2: uint64 size; }

struct DotsResourceUsage [internal] {
    1: int32 minorFaults; 2: int32 majorFaults; 3: int32 inBlock; 4: int32 outBlock;
    5: int32 nrSignals; 6: int32 nrSwaps; 7: int32 nrVoluntaryContextSwitches;
    8: int32 nrInvoluntaryContextSwitches; 9: int32 maxRss; 10: duration userCpuTime;
    11: duration systemCpuTime;
}

struct DotsDaemonStatus [internal] {
    1: [key] string serverName; 2: timepoint startTime; 3: DotsStatistics received;
    4: DotsStatistics sent; 5: DotsCacheStatus cache; 6: DotsResourceUsage resourceUsage;
}

struct DotsClientStatistics [internal] {
    1: [key] uint32 clientId; 2: DotsStatistics sent; 3: DotsStatistics received;
    4: uint64 drainerWakeups; 5: uint64 peakQueuedBytes; 6: uint32 peakQueuedFrames;
    7: uint64 currentQueuedBytes; 8: bool overflowDisconnected;
}

// -- authentication

struct DotsNetwork [internal, substruct_only] { 1: [key] string network; 2: [key] uint8 prefix; }

struct DotsAuthentication [internal] {
    1: [key] string nameSpace; 2: [key] DotsNetwork network; 3: [key] string clientName;
    6: [key] uint16 priority; 4: string secret; 5: bool accept;
}

struct DotsAuthenticationPolicy [internal] { 1: [key] string nameSpace; 2: bool accept; }

// -- containers and recordings

enum DotsMt { 1: create, 2: update, 3: remove }

/// What a container keeps beside each object; it is not transmitted.
struct DotsCloneInformation [internal, cached=false] {
    1: DotsMt lastOperation; 2: uint32 lastUpdateFrom; 3: timepoint created;
    4: uint32 createdFrom; 5: timepoint modified; 6: timepoint localUpdateTime;
}

enum DotsContinuousRecorderState { 1: idle, 2: recording, 3: dumping }

struct DotsDumpContinuousRecorder [internal, cached=false] {
    1: string recorderId; 2: string fileName;
}

struct DotsContinuousRecorderStatus [internal, cleanup] {
    1: [key] string recorderId; 2: uint32 bufferSize; 3: uint32 bufferSizeUsed;
    4: timepoint startTime; 5: DotsContinuousRecorderState state;
}

struct DotsRecordHeader [internal, cached=false] {
    1: [key] string name; 2: timepoint startTime; 3: vector<string> whitelist;
}
"""

_SKERRY_TEXT: Final = """
// -- additions

/// Addition: the payload of a bare subject.
struct SkerryBytes [internal, cached=false] { 1: bytes data; }

/// Addition: the node refused a message of the client.
struct SkerryRefusal [internal, cached=false] {
    1: string what; 2: string reason;
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
    1: string typeName; 2: int64 fingerprint;
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
/// seconds. Both ends of a link between nodes publish it: the receiver counts what it receives, and
/// the sender what it sends and sends again, the round trips and the lag.
struct SkerryLink [internal, cached=false] {
    1: [key] string sender;         //< address and sender id in the group, or a client or node
    2: [key] string receiver;       //< the same of the receiver, or address of the node
    3: string application;          //< name of the sender, if it is known
    4: string carrier;              //< distributor, link or access
    5: int64 senderNumber;          //< number of the sender in recordings
    6: uint32 datagrams;            //< received or given up; sent, if the sender publishes it
    7: uint32 requests;             //< repair requests
    8: uint32 retransmissions;      //< datagrams received after a repair request
    9: uint32 lost;                 //< datagrams that were never received
    10: uint32 roundTrips;          //< requests whose responses were timed
    11: duration roundTripTime;     //< average time of a response
    12: int64 receiverNumber;       //< number of the receiving node; only between nodes
    13: uint64 bytes;               //< bytes of the datagrams; only between nodes
    14: duration lag;               //< how long the receiver is behind the others; between nodes
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
    2: SkerryClaimEvent event; 3: string typeName;
    4: string handler;              //< name of the handler of requests; absent for objects
    5: bytes object;                //< an object with only its key; absent for all of them
}

/// Addition: the state of a claim, sent to its client on each change.
struct SkerryClaimed [internal, cached=false] {
    1: uint32 number; 2: SkerryClaimState state;
    3: string reason;               //< why it was lost or refused
}

/// Addition: the kind of right that is claimed.
enum SkerryClaimKind { 1: requests, 2: objects }

/// Addition: the holder of a claim, published to all.
struct SkerryHolder [internal] {
    1: [key] SkerryClaimKind kind;
    2: [key] string subject;        //< of the handler, of the object, or of the type
    3: string typeName; 4: uint32 client;
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
    7: string trace;                //< context of its trace, a traceparent of W3C Trace Context
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
    2: string typeName; 3: string handler;
    4: uint32 client;               //< the client that sent the request
    5: uint32 servedBy;             //< the client that handled it, if one did
    6: timepoint asked; 7: duration took; 8: SkerryOutcome outcome; 9: bytes object;
    10: string answerType; 11: bytes answer; 12: string reason;
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
    12: duration clockOffset;       //< of its clock to that of the publishing node, if measured
    13: vector<int64> unheardBy;    //< nodes that receive nothing of it, although it receives them
}

/// Addition: the nodes of the system, made by the elected node and published by each node.
struct SkerryPicture [internal] {
    1: string system;
    2: int64 elected;               //< the elected node
    3: int64 election;              //< number of the election
    4: uint64 sequence;             //< rises by one with each change
    5: bool isDetached; 6: vector<SkerryNode> nodes;
    7: uint64 digest;               //< hash of the nodes
    8: int64 node;                  //< the node that publishes the picture
    9: int64 incarnation;           //< number of the run of the system
}

/// Addition: what one node of the system observes of another one. A node publishes what it knows
/// of all pairs every second while it has subscribers.
struct SkerryRawStatistics [internal, cached=false] {
    1: [key] int64 observer; 2: [key] int64 node; 3: string observerName; 4: string nodeName;
    5: bool isDead;                 //< whether the observer has excluded the node
    6: string reason;               //< why it has
    7: uint32 controlReceived;      //< datagrams received from the node, on the control channel
    8: uint32 controlDuplicates;
    9: uint32 controlRetransmissions;   //< datagrams sent again to the node
    10: uint32 dataReceived; 11: uint32 dataDuplicates; 12: uint32 dataRetransmissions;
    13: duration roundTripTime;
    14: duration lag;               //< how long the node has been behind the others
    15: uint64 backlogBytes;        //< bytes that wait for it
    16: duration clockOffset;       //< of its clock; only of the publishing node
    17: duration silence;           //< since its last datagram; only of the publishing node
}

/// Addition: whether another node answers. While it has subscribers, a node asks all others every
/// second, with a small datagram and with one of the full size that the network may not divide.
struct SkerryProbe [internal, cached=false] {
    1: [key] int64 node;
    2: string control;              //< address that was asked
    3: duration roundTripTime;      //< of the small datagram; absent without an answer
    4: duration wholeRoundTripTime; //< of that of the full size; absent without an answer
    5: uint32 datagramBytes;        //< the full size
    6: uint32 mtu;                  //< of the interface of the node that asks
}

/// Addition: a client wants dead nodes to be forgotten everywhere in the system.
struct SkerryForget [internal, cached=false] { 1: vector<int64> nodes; }

/// Addition: the account of the updates of a type, or of those due to a client. A node publishes
/// all of them every second while it has subscribers.
struct SkerryLedger [internal, cached=false] {
    1: [key] string kind;           //< type or client
    2: [key] string name;           //< name of the type, or number of the client
    3: uint64 accepted; 4: uint64 due; 5: uint64 delivered; 6: uint64 filtered;
    7: uint64 conflated; 8: uint64 expired; 9: uint64 refused; 10: uint64 queued;
    11: int64 unexplained;          //< always 0
    12: uint64 objectCount; 13: uint32 memberCount; 14: uint64 queuedBytes;
}
"""

INTERNAL_TEXT: Final = DOTS_TEXT + _SKERRY_TEXT
