"""The types every program knows: those of the DOTS wire and our additions to it.

They are never described on the wire, so both sides must have the same ones. What the C++ programs
do not have is marked: it only travels where both sides said that they know it.
"""

from __future__ import annotations

from functools import cache
from typing import Final

from skerry.schema.check import define
from skerry.schema.model import NamedType

__all__ = ["INTERNAL_TEXT", "LINK_TYPE", "internal_types"]

LINK_TYPE: Final = "SkerryLink"
"""By which nodes and recorders tell how well updates arrive; recordings and tables know it, too."""


@cache
def internal_types() -> dict[str, NamedType]:
    """All internal types by name."""
    checked = define(INTERNAL_TEXT, file="internal.dots", is_internal=True)
    return {type_.name: type_ for type_ in checked.types}


INTERNAL_TEXT = """\
// -- every transmission

/// Stands before every object on a connection.
struct DotsHeader [internal, cached=false] {
    1: string typeName;             //< type of the object that follows
    2: timepoint sentTime;          //< when its publisher sent it
    7: timepoint serverSentTime;    //< when the node sent it on
    3: property_set attributes;     //< what the publisher speaks of
    5: uint32 sender;               //< client it came from; 1 is the node itself
    8: uint32 fromCache;            //< replay: objects still to come; absent when live
    4: bool removeObj;              //< the object is removed
    6: bool isFromMyself;           //< computed by the receiver, never believed
    9: uint32 subscriptionId;       //< the filtered subscription it is for
    20: string subject;             //< addition: where it differs from the default subject
    21: uint64 sequence;            //< addition: accepted updates of this client
    22: uint64 position;            //< addition: accepted updates of that node
    23: int64 node;                 //< addition: where it entered the system
}

/// Header of the older framing, around the header proper.
struct DotsTransportHeader [internal, cached=false] {
    1: string nameSpace;
    2: string destinationGroup;
    3: DotsHeader dotsHeader;
    4: uint32 payloadSize;
    5: uint32 destinationClientId;
}

// -- connection

/// What a server can do beyond the base protocol.
struct DotsServerCapabilities [internal, cached=false] {
    1: bool filteredSubscriptions;
    20: uint32 skerry;              //< addition: version of the additions
}

struct DotsMsgHello [internal, cached=false] {
    1: string serverName;
    2: uint64 authChallenge;
    3: bool authenticationRequired;
    4: DotsServerCapabilities capabilities;
}

struct DotsMsgConnect [internal, cached=false] {
    1: string clientName;
    2: bool preloadCache;
    3: bool preloadClientFinished;
    4: string authChallengeResponse;
    5: string cnonce;
    20: uint32 extensions;          //< addition: mask of additions the client understands
}

struct DotsMsgConnectResponse [internal, cached=false] {
    1: string serverName;
    5: uint32 clientId;
    2: bool accepted;
    3: bool preload;
    4: bool preloadFinished;
    20: string reason;              //< addition: why the client is not let in, for now
}

struct DotsMsgError [internal, cached=false] {
    1: int32 errorCode;
    2: string errorText;
}

enum DotsConnectionState {
    1: connecting,
    2: early_subscribe,
    3: connected,
    4: suspended,
    5: closed
}

// -- groups

enum DotsMemberEvent {
    1: join,
    2: leave,
    3: kill
}

enum DotsPredicateKind {
    1: leaf,
    2: andOp,
    3: orOp,
    4: notOp
}

enum DotsCompareOp {
    1: eq,
    2: neq,
    3: lt,
    4: le,
    5: gt,
    6: ge,
    7: isIn,
    8: notIn,
    9: isNull,
    10: notNull,
    20: like                        //< addition: % any run, _ one character, \\ escapes
}

struct DotsPredicateValue [internal, cached=false] {
    1: bool boolVal;
    2: int64 intVal;
    3: uint64 uintVal;
    4: float64 floatVal;
    5: string stringVal;
    6: timepoint timepointVal;
    7: duration durationVal;
    8: uuid uuidVal;
    20: vector<int64> intList;
    21: vector<uint64> uintList;
    22: vector<float64> floatList;
    23: vector<string> stringList;
    24: vector<timepoint> timepointList;
    25: vector<uuid> uuidList;
}

struct DotsPredicateLeaf [internal, cached=false] {
    1: uint32 propertyTag;
    2: DotsCompareOp op;
    3: DotsPredicateValue value;
}

struct DotsPredicateNode [internal, cached=false] {
    1: DotsPredicateKind kind;
    2: DotsPredicateLeaf leaf;
    3: uint32 arity;
}

/// A condition as nodes in pre-order; the first is the root.
struct DotsPredicate [internal, cached=false] {
    1: vector<DotsPredicateNode> nodes;
}

struct DotsFilter [internal, cached=false] {
    1: DotsPredicate predicate;
    2: property_set propertyMask;
}

/// Addition: what happens to a subscriber that does not keep up.
enum SkerrySlow {
    1: disconnect,
    2: conflate
}

struct DotsMember [internal, cached=false] {
    1: string groupName;
    2: DotsMemberEvent event;
    3: uint32 client;
    4: uint32 subscriptionId;
    5: DotsFilter filter;
    20: SkerrySlow slow;            //< addition
}

struct DotsCacheInfo [internal, cached=false] {
    1: string typeName;
    2: bool startTransmission;
    3: bool endTransmission;
    4: bool endDescriptorRequest;
}

struct DotsClearCache [internal, cached=false] {
    1: vector<string> typeNames;
}

struct DotsDescriptorRequest [internal, cached=false] {
    1: vector<string> whitelist;
    2: vector<string> blacklist;
}

struct DotsEcho [internal, cached=false] {
    1: bool request;
    2: uint32 identifier;
    3: uint32 sequenceNumber;
    4: string data;
}

// -- descriptions of types

enum DotsStructScope {
    1: program,
    2: server,
    3: site,
    4: global
}

struct DotsStructFlags [internal, cached=false] {
    1: bool cached;
    2: bool internal;
    3: bool persistent;
    4: bool cleanup;
    5: bool local;
    6: bool substructOnly;
}

struct StructDocumentation [internal, cached=false] {
    1: string description;
    2: string comment;
}

struct StructPropertyData [internal, cached=false] {
    1: string name;
    2: uint32 tag;
    3: bool isKey;
    4: string type;
    5: uint32 typeId;
}

struct StructDescriptorData [internal, cached=false] {
    1: [key] string name;
    2: vector<StructPropertyData> properties;
    3: StructDocumentation documentation;
    4: DotsStructScope scope;
    5: DotsStructFlags flags;
    6: uint32 publisherId;
}

struct EnumElementDescriptor [internal, cached=false] {
    1: int32 enum_value;
    2: string name;
    3: uint32 tag;
}

struct EnumDescriptorData [internal, cached=false] {
    1: [key] string name;
    2: vector<EnumElementDescriptor> elements;
    4: uint32 publisherId;
}

// -- what a node tells about itself and its clients

struct DotsClient [internal] {
    1: [key] uint32 id;
    2: string name;
    3: bool running;
    4: vector<string> publishedTypes;
    5: vector<string> subscribedTypes;
    6: DotsConnectionState connectionState;
}

struct DotsStatistics [internal] {
    1: uint64 bytes;
    2: uint64 packages;
}

struct DotsCacheStatus [internal] {
    1: uint32 nrTypes;
    2: uint64 size;
}

struct DotsResourceUsage [internal] {
    1: int32 minorFaults;
    2: int32 majorFaults;
    3: int32 inBlock;
    4: int32 outBlock;
    5: int32 nrSignals;
    6: int32 nrSwaps;
    7: int32 nrVoluntaryContextSwitches;
    8: int32 nrInvoluntaryContextSwitches;
    9: int32 maxRss;
    10: duration userCpuTime;
    11: duration systemCpuTime;
}

struct DotsDaemonStatus [internal] {
    1: [key] string serverName;
    2: timepoint startTime;
    3: DotsStatistics received;
    4: DotsStatistics sent;
    5: DotsCacheStatus cache;
    6: DotsResourceUsage resourceUsage;
}

struct DotsClientStatistics [internal] {
    1: [key] uint32 clientId;
    2: DotsStatistics sent;
    3: DotsStatistics received;
    4: uint64 drainerWakeups;
    5: uint64 peakQueuedBytes;
    6: uint32 peakQueuedFrames;
    7: uint64 currentQueuedBytes;
    8: bool overflowDisconnected;
}

// -- who may connect

struct DotsNetwork [internal, substruct_only] {
    1: [key] string network;
    2: [key] uint8 prefix;
}

struct DotsAuthentication [internal] {
    1: [key] string nameSpace;
    2: [key] DotsNetwork network;
    3: [key] string clientName;
    6: [key] uint16 priority;
    4: string secret;
    5: bool accept;
}

struct DotsAuthenticationPolicy [internal] {
    1: [key] string nameSpace;
    2: bool accept;
}

// -- containers and recordings

enum DotsMt {
    1: create,
    2: update,
    3: remove
}

/// What a container keeps beside each object; it does not travel.
struct DotsCloneInformation [internal, cached=false] {
    1: DotsMt lastOperation;
    2: uint32 lastUpdateFrom;
    3: timepoint created;
    4: uint32 createdFrom;
    5: timepoint modified;
    6: timepoint localUpdateTime;
}

enum DotsContinuousRecorderState {
    1: idle,
    2: recording,
    3: dumping
}

struct DotsDumpContinuousRecorder [internal, cached=false] {
    1: string recorderId;
    2: string fileName;
}

struct DotsContinuousRecorderStatus [internal, cleanup] {
    1: [key] string recorderId;
    2: uint32 bufferSize;
    3: uint32 bufferSizeUsed;
    4: timepoint startTime;
    5: DotsContinuousRecorderState state;
}

struct DotsRecordHeader [internal, cached=false] {
    1: [key] string name;
    2: timepoint startTime;
    3: vector<string> whitelist;
}

// -- additions

/// Addition: the payload of a bare subject.
struct SkerryBytes [internal, cached=false] {
    1: bytes data;
}

/// Addition: something was not permitted.
struct SkerryRefusal [internal, cached=false] {
    1: string what;
    2: string reason;
    3: string groupName;            //< of a join that was refused
    4: int32 subscriptionId;        //< of that join, if it had one
}

/// Addition: a client brought a definition of a type that is incompatible with those in use.
struct SkerryConflict [internal] {
    1: [key] string typeName;
    2: string known;                //< who uses the other definition
    3: string offered;              //< the last client that brought this one
    4: string difference;           //< the first thing in which they differ
}

/// Addition: a definition of a type that clients brought or that objects need. A node sends all of
/// them to a client that joins this, and then one without typeName.
struct SkerryDefinition [internal, cached=false] {
    1: string typeName;
    2: int64 fingerprint;
    3: bool isServed;               //< whether it is part of the definition that the node serves
    4: string text;                 //< in the type language
    5: vector<uint32> clients;      //< clients that brought it, the first hundred
    6: vector<string> clientNames;  //< names of these clients
    7: uint32 clientCount;          //< all clients that brought it
    8: string conflict;             //< why it is not served, if it should be
}

/// Addition: messages of the site that this node never heard, so that its clients will not either.
/// They were in datagrams of the group, from which nobody can tell what types they were of.
struct SkerryLoss [internal, cached=false] {
    1: string sender;               //< address and sender id of who sent them to the group
    2: string application;          //< its name, if it was heard
    3: uint32 firstDatagram;        //< number of the first datagram that is lost
    4: uint32 datagramCount;        //< and how many in a row are
    5: string reason;               //< retries, nak, overflow, jump, removed or malformed
    6: bool isStopped;              //< nothing more of this sender is told, as the node is set up
    7: timepoint time;              //< when the node gave them up
}

/// Addition: how well what is sent by one arrives at another, since that was told before. Who
/// receives in a group, or waits for an answer, tells it every ten seconds.
struct SkerryLink [internal, cached=false] {
    1: [key] string sender;         //< address and sender id in the group, or name of the client
    2: [key] string receiver;       //< the same of who receives, or the address of the node
    3: string application;          //< name of the sender in the group, if it was heard
    4: string carrier;              //< distributor or access
    5: int64 senderNumber;          //< by which recordings know the sender
    6: uint32 datagrams;            //< that came or were given up
    7: uint32 requests;             //< by which some were asked for again
    8: uint32 retransmissions;      //< datagrams that came after they were asked for
    9: uint32 lost;                 //< datagrams that never came
    10: uint32 roundTrips;          //< questions whose answers were timed
    11: duration roundTripTime;     //< how long an answer took, on average
}

/// Addition: what a client wants of a claim.
enum SkerryClaimEvent {
    1: claim,                       //< it is the client's from now on, whoever had it
    2: standby,                     //< the client's when nobody has it, now or later
    3: release                      //< the client's no more
}

/// Addition: how a claim stands.
enum SkerryClaimState {
    1: held,
    2: standby,                     //< somebody else holds it
    3: lost,                        //< somebody else has taken it, and the claim is over
    4: refused                      //< it cannot be, and the claim is over
}

/// Addition: a client wants to be the one who answers requests, or the one who changes objects.
struct SkerryClaim [internal, cached=false] {
    1: uint32 number;               //< of the client's choice
    2: SkerryClaimEvent event;
    3: string typeName;
    4: string handler;              //< name under which it answers requests; absent for objects
    5: bytes object;                //< an object with nothing but its key; absent for all of them
}

/// Addition: how a claim stands now, told to its client on each change.
struct SkerryClaimed [internal, cached=false] {
    1: uint32 number;
    2: SkerryClaimState state;
    3: string reason;               //< why it was lost or refused
}

/// Addition: what a claim is for.
enum SkerryClaimKind {
    1: requests,
    2: objects
}

/// Addition: who holds what can be claimed, told to all.
struct SkerryHolder [internal] {
    1: [key] SkerryClaimKind kind;
    2: [key] string subject;        //< of the handler, of the object, or of the type
    3: string typeName;
    4: uint32 client;
    5: uint32 standbys;             //< how many wait for it
}

/// Addition: a question to whoever answers those of its type under a name.
struct SkerryRequest [internal, cached=false] {
    1: uint64 number;               //< of who sends this: the client that asks, then the node
    2: string typeName;
    3: string handler;              //< absent for the one without a name
    4: bytes object;
    5: duration timeout;            //< after which nobody waits for the answer
    6: uint32 client;               //< who asks, as the node tells it
}

/// Addition: how a request ended.
enum SkerryOutcome {
    1: answered,
    2: failed,                      //< its handler could not answer
    3: not_registered,              //< nobody answers such requests
    4: timed_out,                   //< it may have been carried out, or not
    5: refused,                     //< it is not permitted
    6: overflow                     //< too many of this client wait for their answers
}

/// Addition: the one answer to a request.
struct SkerryResponse [internal, cached=false] {
    1: uint64 number;               //< of the request, as who gets this knows it
    2: SkerryOutcome outcome;
    3: string typeName;             //< of the object; absent for an answer without one
    4: bytes object;
    5: string reason;               //< of any other outcome
}

/// Addition: a request and what came of it, told to those who joined this when it is over.
struct SkerryCall [internal, cached=false] {
    1: uint64 number;               //< by which the node knows it
    2: string typeName;
    3: string handler;
    4: uint32 client;               //< who asked
    5: uint32 servedBy;             //< whom it was given to, if anybody
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
    4: vector<string> endpoints;    //< where it listens
    5: bool isDead;
    6: uint32 generation;           //< how often it came back
    7: timepoint started;
}

/// Addition: the nodes of the system, as the one that was elected sees them.
struct SkerryPicture [internal] {
    1: string system;
    2: int64 elected;               //< the node that made it
    3: int64 election;              //< by which it was elected
    4: uint64 sequence;             //< rises by one with each change
    5: bool isDetached;
    6: vector<SkerryNode> nodes;
    7: uint64 digest;               //< equal for equal nodes, whoever tells of them
}

/// Addition: what became of the updates of a type, or of those that were due to a client. A node
/// tells all of it every second to those who joined it.
struct SkerryLedger [internal, cached=false] {
    1: [key] string kind;           //< type or client
    2: [key] string name;           //< of the type, or number of the client
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
