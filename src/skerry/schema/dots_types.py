"""The text of the types of the DOTS wire, with the fields that skerry adds to them.

An addition is marked. It is only transmitted if both sides announced that they know it.
"""

from __future__ import annotations

from typing import Final

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
    20: string reason;              //< addition: why the client is rejected, for now
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

/// Addition: what happens to a slow subscriber.
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

// -- status objects: a node and its clients

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

// -- authentication

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

/// What a container keeps beside each object; it is not transmitted.
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
"""
