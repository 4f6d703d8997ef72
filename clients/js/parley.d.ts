// Written by a program from gateway/protocol/asyncapi.yaml (go generate ./clients/js); do not edit.

/** Who may see it: its owner, or every user of the tenant. */
export type Access = 'private' | 'tenant';

export type AnswerReceipt = {
  duplicate: boolean;
  message: string;
  new_status?: TaskStatus;
  old_status?: TaskStatus;
  seq: Seq;
  task?: TaskId;
};

/** The question is whether this call may run. The text of the answer is yes or no in words, or a string of JSON: {"approve": true}, {"approve": false}, or {"approve": true, "args": {…}} to make the call with other arguments. An object without approve is such arguments itself, and so a yes. */
export type Approval = {
  args: Arguments;
  call: string;
  tool: string;
};

/** JSON as it is, a string if it is no JSON or was cut, or {"redacted": true}. */
export type Arguments = unknown;

export type Attachment = {
  /** SHA-256 of its bytes; GET /api/blobs/{hash} has them. */
  hash: string;
  name: string;
  size: number;
  type: string;
};

/** A file that was uploaded to this session (POST /api/sessions/{id}/blobs). */
export type AttachmentNamed = {
  hash: string;
  /** absent = as it was uploaded. */
  name?: string | null;
};

/** What the author is called; absent = by the user id alone. */
export type AuthorName = string;

export type CancelData = {
  reason?: string | null;
  /** Absent = the RUNNING one, else the newest AWAITING_RESPONSE. */
  task?: string | null;
  /** "drop": the messages that wait end with the task; alone if nothing runs. */
  waiting?: 'drop' | null;
};

export type Chat = {
  data: ChatEntry;
  type: 'chat';
};

/** What has happened in a chat of a platform. */
export type ChatEntry = {
  details: {
    /** The platform: slack, discord, telegram. */
    channel: string;
    /** The chat on its platform: "telegram:42". It is the client_session_id of its session. */
    chat: string;
    code?: string;
    error?: string;
    final?: boolean;
    in_reply_to?: string;
    /** What was said, or the part, as the session has it. */
    message?: string;
    seq?: Seq;
    session?: SessionId;
    /** Its beginning, if it is long; the session has the whole. */
    text?: string;
    /** It was perhaps sent twice. */
    uncertain?: boolean;
    user?: string;
  };
  /** Its place in the feed of the tenant, from 1; what was erased or is too old leaves a gap. */
  number: number;
  /** The tenant. */
  project: string;
  severity: 'info' | 'warning' | 'error';
  /** "chat:" and the channel. */
  source: string;
  /** For people, one line. */
  summary: string;
  timestamp: Time;
  /** Somebody has written; an answer, or a part of one, was generated and sent; one could not be generated, or not be sent. */
  topic: 'chat.message' | 'chat.response' | 'chat.error';
};

export type ChatsGone = {
  data: {
    reason: 'forbidden';
  };
  type: 'chats_gone';
};

export type ClaimData = {
  /** The sessions of this agent only. Absent = all outside sessions. */
  agent?: string | null;
  /** Messages at most; absent = 1. At most 100 are given. */
  limit?: number | null;
  /** The name of this process, and of no other that runs at the same time. What it was handed and gave no sign of yet, it is handed again. */
  runtime: string;
  /** How long to wait for a message, as "30s", which is also the longest. Absent = not at all. */
  wait?: string | null;
};

export type Claimed = {
  items: Array<{
    author: string;
    /** The conversation so far. */
    context_url: string;
    /** Of this hand-out: parts and signs of life name it. */
    generation: number;
    message: string;
    name?: AuthorName;
    /** The first part that is not stored yet. */
    next_part: number;
    session: SessionId;
    text: string;
    until?: Time;
  }>;
};

/** The author's own name of the message. */
export type ClientMsgId = string;

export type CommandAnswer = {
  data: {
    client_msg_id: ClientMsgId;
    question: string;
    text: Spoken;
  };
  id: CommandId;
  session: SessionId;
  type: 'answer';
};

export type CommandCancel = {
  data?: null | CancelData;
  id: CommandId;
  session: SessionId;
  type: 'cancel';
};

export type CommandClaim = {
  data: ClaimData;
  id: CommandId;
  type: 'claim';
};

export type CommandClear = {
  data?: { [name: string]: unknown } | null;
  id: CommandId;
  session: SessionId;
  type: 'clear';
};

export type CommandCreate = {
  data?: null | CreateData;
  id: CommandId;
  type: 'create';
};

export type CommandEdit = {
  data: {
    message: string;
    text: Spoken;
  };
  id: CommandId;
  session: SessionId;
  type: 'edit';
};

export type CommandFollow = {
  data?: {
    /** The log that since belongs to. */
    log?: string | null;
    /** The last event that the client has; absent = begin with the tail. */
    since?: number | null;
    /** How many events to begin with; default 50. */
    tail?: number | null;
  } | null;
  id: CommandId;
  session: SessionId;
  type: 'follow';
};

export type CommandHello = {
  data: {
    /** "deltas", "html"; unknown ones are ignored. */
    caps?: Array<string> | null;
    client?: {
      name?: string | null;
      version?: string | null;
    } | null;
    proto: 1;
    token?: string | null;
  };
  id: CommandId;
  type: 'hello';
};

export type CommandId = string;

export type CommandMove = {
  data: {
    before?: string | null;
    message: string;
  };
  id: CommandId;
  session: SessionId;
  type: 'move';
};

export type CommandPing = {
  data?: {
    /** Anything, at most 512 bytes of JSON. */
    t?: unknown;
  } | null;
  id: CommandId;
  type: 'ping';
};

export type CommandPolicy = {
  data: Policy & unknown;
  id: CommandId;
  session: SessionId;
  type: 'policy';
};

export type CommandRefresh = {
  data: {
    token: string;
  };
  id: CommandId;
  type: 'refresh';
};

export type CommandSeen = {
  data: {
    seq: Seq;
  };
  id?: string | null;
  session: SessionId;
  type: 'seen';
};

export type CommandSend = {
  data: {
    attachments?: Array<AttachmentNamed> | null;
    client_msg_id: ClientMsgId;
    /** A message or part that this refers to, which is a hint; or an open question, which this answers. */
    in_reply_to?: string | null;
    mode?: null | Mode;
    text?: SaidText;
  };
  id: CommandId;
  session: SessionId;
  type: 'send';
};

export type CommandTyping = {
  data: {
    on: boolean;
  };
  id?: string | null;
  session: SessionId;
  type: 'typing';
};

export type CommandUnfollow = {
  data?: { [name: string]: unknown } | null;
  id: CommandId;
  session: SessionId;
  type: 'unfollow';
};

export type CommandUnwatch = {
  data?: { [name: string]: unknown } | null;
  id: CommandId;
  type: 'unwatch';
};

export type CommandUnwatchChats = {
  data?: { [name: string]: unknown } | null;
  id: CommandId;
  type: 'unwatch_chats';
};

export type CommandWatch = {
  data?: { [name: string]: unknown } | null;
  id: CommandId;
  type: 'watch';
};

export type CommandWatchChats = {
  data?: {
    /** The last entry that the client has; absent = from now on. */
    since?: number | null;
  } | null;
  id: CommandId;
  type: 'watch_chats';
};

export type CommandWithdraw = {
  data: {
    message: string;
  };
  id: CommandId;
  session: SessionId;
  type: 'withdraw';
};

export type CreateData = {
  access?: 'private' | 'tenant' | null;
  /** A profile of the configuration; absent = the default one. */
  agent?: string | null;
  /** Makes a retry harmless. */
  client_session_id?: string | null;
  policy?: null | Policy;
  title?: string | null;
};

export type Delta = {
  after: Seq;
  data: {
    /** Where text begins, in code points of the draft. */
    at: number;
    /** "<step>.<attempt>.<item>" */
    draft: string;
    text: string;
  };
  session: SessionId;
  task?: TaskId;
  type: 'delta';
};

/** What an accepted message did at once. */
export type Disposition = 'started' | 'queued' | 'joined' | 'answered';

export type DraftDropped = {
  after: Seq;
  data: {
    draft: string;
  };
  session: SessionId;
  task?: TaskId;
  type: 'draft_dropped';
};

export type DraftState = {
  after: Seq;
  data: {
    draft: string;
    text: string;
  };
  session: SessionId;
  task?: TaskId;
  type: 'draft_state';
};

export type Error = {
  error: {
    code: ErrorCode;
    /** To a runtime whose lease is over: the one that counts. */
    generation?: number;
    message: string;
    /** To a runtime that left a gap: the index that is expected. */
    next_part?: number;
    retry_after_ms?: number;
    /** True when the same command may succeed later. */
    retryable: boolean;
    task_status?: TaskStatus;
  };
  re: string | null;
  type: 'error';
};

export type ErrorCode = 'bad_request' | 'invalid_json' | 'unknown_type' | 'unauthenticated' | 'token_expired' | 'forbidden' | 'not_found' | 'method_not_allowed' | 'question_closed' | 'task_not_awaiting' | 'session_busy' | 'conflict' | 'session_closed' | 'too_large' | 'unsupported_media_type' | 'upgrade_required' | 'inbox_full' | 'rate_limited' | 'internal' | 'overloaded' | 'unavailable' | 'timeout' | 'storage_full';

export type EventContextCleared = {
  data: {
    by: string;
  };
  seq: EventSeq;
  session: SessionId;
  task?: TaskId;
  ts: Time;
  type: 'context_cleared';
};

export type EventContextCompacted = {
  data: {
    tokens_after: number;
    tokens_before: number;
    upto: Seq;
  };
  seq: EventSeq;
  session: SessionId;
  task?: TaskId;
  ts: Time;
  type: 'context_compacted';
};

export type EventCoverageNudge = {
  data: {
    form?: 'question' | 'closing' | 'alone' | 'judged';
    messages: Array<string>;
    nudge: number;
    questions?: Array<string>;
  };
  seq: EventSeq;
  session: SessionId;
  task?: TaskId;
  ts: Time;
  type: 'coverage_nudge';
};

export type EventDelegationFinished = {
  data: {
    delegation: string;
    ms: number;
    status: 'ok' | 'failed' | 'timeout' | 'cancelled';
    summary: string | Redacted;
  };
  seq: EventSeq;
  session: SessionId;
  task?: TaskId;
  ts: Time;
  type: 'delegation_finished';
};

export type EventDelegationStarted = {
  data: {
    agent: string;
    deadline: Time;
    delegation: string;
    objective: string | Redacted;
    session: SessionId;
  };
  seq: EventSeq;
  session: SessionId;
  task?: TaskId;
  ts: Time;
  type: 'delegation_started';
};

export type EventMessageAccepted = {
  data: {
    attachments?: Array<Attachment>;
    author: string;
    client_msg_id: string;
    disposition: Disposition;
    in_reply_to?: string;
    message: string;
    mode?: Mode;
    name?: AuthorName;
    /** With disposition answered: what it answers. */
    question?: string;
    text: string;
    via: Via;
  };
  seq: EventSeq;
  session: SessionId;
  task?: TaskId;
  ts: Time;
  type: 'message_accepted';
};

export type EventMessageEdited = {
  data: {
    message: string;
    text: string;
  };
  seq: EventSeq;
  session: SessionId;
  task?: TaskId;
  ts: Time;
  type: 'message_edited';
};

export type EventMessageMoved = {
  data: {
    before?: string;
    message: string;
  };
  seq: EventSeq;
  session: SessionId;
  task?: TaskId;
  ts: Time;
  type: 'message_moved';
};

export type EventMessageResolved = {
  data: {
    evidence?: Evidence;
    how: Resolution;
    message: string;
    /** The part that answered it. */
    part?: number;
    /** The question that it was merged into. */
    question?: string;
  };
  seq: EventSeq;
  session: SessionId;
  task?: TaskId;
  ts: Time;
  type: 'message_resolved';
};

export type EventMessageWithdrawn = {
  data: {
    heir?: string;
    message: string;
  };
  seq: EventSeq;
  session: SessionId;
  task?: TaskId;
  ts: Time;
  type: 'message_withdrawn';
};

export type EventPartialResponse = {
  /** A plain message of an outside runtime has neither source nor part. */
  data: {
    /** The text ended before its end. */
    cut?: true;
    draft?: string;
    /** The engine guessed in_reply_to, for display alone. */
    guessed?: true;
    in_reply_to?: string;
    message: string;
    part?: number;
    source?: string;
    text: string;
  };
  seq: EventSeq;
  session: SessionId;
  task?: TaskId;
  ts: Time;
  type: 'partial_response';
};

export type EventQuestion = {
  data: {
    /** The message that made the task ask. */
    about?: string;
    approval?: Approval;
    /** The task waits for the answer. */
    blocking: boolean;
    /** The call of a tool that asks. */
    call?: string;
    choices?: Array<string>;
    /** The answer if it expires. */
    default?: string;
    /** The delegation that asks. */
    delegation?: string;
    expires_at?: Time;
    question: string;
    text: string;
  };
  seq: EventSeq;
  session: SessionId;
  task?: TaskId;
  ts: Time;
  type: 'question';
};

export type EventQuestionAnswered = {
  data: {
    by: string;
    message?: string;
    question: string;
    text: string;
  };
  seq: EventSeq;
  session: SessionId;
  task?: TaskId;
  ts: Time;
  type: 'question_answered';
};

export type EventQuestionClosed = {
  data: {
    question: string;
    reason: 'expired' | 'superseded' | 'cancelled';
  };
  seq: EventSeq;
  session: SessionId;
  task?: TaskId;
  ts: Time;
  type: 'question_closed';
};

export type EventResponse = {
  data: {
    /** The text ended before its end. */
    cut?: true;
    draft?: string;
    final: true;
    /** The engine guessed in_reply_to, for display alone. */
    guessed?: true;
    in_reply_to?: string;
    kind?: ResponseKind;
    message: string;
    part?: number;
    promoted?: true;
    source?: string;
    text: string;
  };
  seq: EventSeq;
  session: SessionId;
  task?: TaskId;
  ts: Time;
  type: 'response';
};

export type EventRuntimeStatus = {
  data: {
    error?: string;
    /** Of the hand-out, from 1 for each message. */
    generation: number;
    message: string;
    runtime?: string;
    status: 'handed_out' | 'read' | 'alive' | 'failed';
    until?: Time;
  };
  seq: EventSeq;
  session: SessionId;
  task?: TaskId;
  ts: Time;
  type: 'runtime_status';
};

export type EventSeq = number;

export type EventSessionClosed = {
  data: {
    reason: string;
  };
  seq: EventSeq;
  session: SessionId;
  ts: Time;
  type: 'session_closed';
};

export type EventSessionCreated = {
  data: {
    access: Access;
    agent: string;
    owner: string;
    policy: Policy;
    title: string;
  };
  seq: EventSeq;
  session: SessionId;
  ts: Time;
  type: 'session_created';
};

export type EventSessionUpdated = {
  /** What changed. */
  data: {
    access?: Access;
    /** Who answers, from the next step on. */
    agent?: string;
    /** The new roles of users; null: not a member any more. */
    members?: { [name: string]: 'reader' | 'approver' | 'writer' | 'owner' | null };
    policy?: Policy;
    title?: string;
  };
  seq: EventSeq;
  session: SessionId;
  ts: Time;
  type: 'session_updated';
};

export type EventStepFinished = {
  data: {
    attempt: number;
    decisions: Array<'ANSWER' | 'ASK' | 'DELEGATE' | 'TOOL'>;
    error?: Failure;
    model: string;
    ms: number;
    outcome: 'ok' | 'error' | 'cancelled' | 'unknown';
    step: number;
    /** Why the answer ended before its end. */
    stop?: 'length' | 'filtered';
    usage: Usage;
  };
  seq: EventSeq;
  session: SessionId;
  task?: TaskId;
  ts: Time;
  type: 'step_finished';
};

export type EventStepStarted = {
  data: {
    agent: string;
    attempt: number;
    /** Why there is another attempt. */
    cause?: 'error' | 'interrupted' | 'drain' | 'moved';
    error?: Failure;
    not_before?: Time;
    read: Array<string>;
    step: number;
    usage?: Usage;
  };
  seq: EventSeq;
  session: SessionId;
  task?: TaskId;
  ts: Time;
  type: 'step_started';
};

export type EventTaskCancelling = {
  data: {
    by: 'user' | 'interrupt' | 'error' | 'parent';
    reason?: string;
    task: TaskId;
    until: Time;
  };
  seq: EventSeq;
  session: SessionId;
  task: TaskId;
  ts: Time;
  type: 'task_cancelling';
};

export type EventTaskStatus = {
  data: {
    error?: Failure;
    /** Leftovers: the messages of the new task, trigger first. */
    messages?: Array<string>;
    new_status: TaskStatus;
    old_status?: TaskStatus;
    reason?: string;
    task: TaskId;
    trigger: string;
  };
  seq: EventSeq;
  session: SessionId;
  task: TaskId;
  ts: Time;
  type: 'task_status';
};

export type EventToolFinished = {
  /** A summary of more than 4 KiB is cut; whole at GET /api/sessions/{id}/calls/{call}. */
  data: {
    call: string;
    ms: number;
    status: 'ok' | 'error' | 'timeout' | 'cancelled' | 'denied' | 'unknown';
    summary: string | Redacted;
  };
  seq: EventSeq;
  session: SessionId;
  task?: TaskId;
  ts: Time;
  type: 'tool_finished';
};

export type EventToolStarted = {
  /** Arguments of more than 4 KiB are cut; whole at GET /api/sessions/{id}/calls/{call}. With caller there is no deadline: the caller of the session runs the tool, and the result is the answer to the question that names the call. */
  data: {
    args: Arguments;
    call: string;
    caller?: true;
    deadline?: Time;
    /** The delegation whose tool it is. */
    delegation?: string;
    tool: string;
  };
  seq: EventSeq;
  session: SessionId;
  task?: TaskId;
  ts: Time;
  type: 'tool_started';
};

/** With answered: how it is known. */
export type Evidence = 'named' | 'only' | 'asked' | 'words' | 'seen' | 'judged';

export type Failure = {
  code: ErrorCode;
  message: string;
};

export type FeedStart = {
  /** The first entry that follows, unless it is erased. */
  first: number;
  /** The newest entry; 0 = there was none yet. */
  head: number;
  /** Why not: entries behind since are too old and gone, or there never was such an entry. */
  reason?: 'trimmed' | 'ahead';
  /** True when it goes on right behind since. */
  resumed: boolean;
};

export type Goaway = {
  data: {
    code: number;
    reason: string;
    retry_in_ms: number;
  };
  type: 'goaway';
};

export type Gone = {
  after: Seq;
  data: {
    reason: string;
  };
  session: SessionId;
  type: 'gone';
};

export type Hb = {
  data: {
    ts: Time;
  };
  type: 'hb';
};

/** 0 = none. */
export type Limits = {
  attachment_bytes: number;
  attachments_per_message: number;
  commands_burst: number;
  commands_per_second: number;
  /** TCP connections of the server; sockets are among them */
  connections: number;
  connections_before_hello: number;
  connections_before_hello_per_address: number;
  /** TCP connections of an IPv4 address or an IPv6 /64 */
  connections_per_address: number;
  connections_per_tenant: number;
  connections_per_user: number;
  control_frames_burst: number;
  control_frames_per_second: number;
  follows_per_connection: number;
  frame_bytes: number;
  members_per_session: number;
  replay_page: number;
  text_bytes: number;
};

export type Listed = {
  data: SessionSummary | {
    gone: true;
    session: SessionId;
  };
  type: 'listed';
};

/** Users with a role in the session, besides its owner. */
export type Members = { [name: string]: 'reader' | 'approver' | 'writer' | 'owner' };

/** What a message does that arrives while a task runs. */
export type Mode = 'steer' | 'queue' | 'collect' | 'interrupt' | 'reject';

export type OkAnswer = {
  data: AnswerReceipt;
  re: CommandId;
  type: 'ok';
};

export type OkCancel = {
  data: {
    old_status?: TaskStatus;
    task?: TaskId;
  };
  re: CommandId;
  type: 'ok';
};

export type OkClaim = {
  data: Claimed;
  re: CommandId;
  type: 'ok';
};

export type OkCreate = {
  data: {
    session: SessionId;
  };
  re: CommandId;
  type: 'ok';
};

export type OkEmpty = {
  data: {};
  re: CommandId;
  type: 'ok';
};

export type OkFollow = {
  data: {
    first: Seq;
    head: Seq;
    /** The identity of the log; a restore changes it. */
    log: string;
    /** Why not. */
    reason?: 'other_log' | 'ahead';
    /** True when the replay begins behind since. */
    resumed: boolean;
    session: SessionId;
    state: State;
  };
  re: CommandId;
  type: 'ok';
};

export type OkHello = {
  data: {
    /** whom a session may be made for, the default one first */
    agents: Array<{
      description?: string;
      /** the agent that this one is like, on another model */
      like?: string;
      /** its label */
      model: string;
      name: string;
    }>;
    conn: string;
    heartbeat_ms: number;
    limits: Limits;
    model: string;
    /** that a session or a message may choose */
    modes: Array<string>;
    node: string;
    proto: 1;
    /** texts to begin a conversation with */
    starters: Array<string>;
    tenant: string;
    user: string;
    version: string;
  };
  re: CommandId;
  type: 'ok';
};

export type OkPing = {
  data: {
    t?: unknown;
  };
  re: CommandId;
  type: 'ok';
};

export type OkPolicy = {
  data: {
    policy: Policy;
    seq: Seq;
  };
  re: CommandId;
  type: 'ok';
};

export type OkRefresh = {
  data: {
    expires_at?: Time;
  };
  re: CommandId;
  type: 'ok';
};

export type OkSend = {
  data: Receipt;
  re: CommandId;
  type: 'ok';
};

export type OkSeq = {
  data: {
    seq: Seq;
  };
  re: CommandId;
  type: 'ok';
};

export type OkWatchChats = {
  data: FeedStart;
  re: CommandId;
  type: 'ok';
};

export type OpenQuestion = {
  /** The message that made the task ask. */
  about?: string;
  approval?: Approval;
  asked_at?: Time;
  blocking: boolean;
  /** The call of a tool that asks. */
  call?: string;
  choices?: Array<string>;
  default?: string;
  delegation?: string;
  expires_at?: Time;
  question: string;
  task?: TaskId;
  text: string;
};

/** Policies of a session that differ from the configuration. In a change, null takes an override back. */
export type Policy = {
  'ask.detect'?: 'off' | 'question' | null;
  'cancel.grace'?: string | null;
  'coverage.max_nudges'?: number | null;
  'coverage.mode'?: 'strict' | 'seen' | 'off' | null;
  cut_answer?: 'continue' | 'mark' | null;
  'delegation.max_depth'?: number | null;
  'delegation.max_parallel'?: number | null;
  'delegation.timeout'?: string | null;
  empty_answer?: 'apologise' | 'silent' | 'retry' | null;
  'inbox.collect_window'?: string | null;
  'inbox.max_queued'?: number | null;
  'inbox.mode'?: 'steer' | 'queue' | 'collect' | 'interrupt' | 'reject' | null;
  'inbox.read'?: 'auto' | 'one' | 'all' | null;
  'inbox.triage_agent'?: string | null;
  /** A text behind the system prompt, as the wish of the owner. */
  instructions?: string | null;
  'no_reply.fallback'?: boolean | null;
  'no_reply.sentinels'?: Array<string> | null;
  'outside.lease'?: string | null;
  'parts.enabled'?: boolean | null;
  'reply.on_busy'?: 'conflict' | 'queue' | null;
  'retry.backoff_max'?: string | null;
  'retry.backoff_min'?: string | null;
  'retry.max_attempts'?: number | null;
  'retry.max_interrupted'?: number | null;
  'retry.max_moved'?: number | null;
  'task.max_steps'?: number | null;
  /** Tools that whoever talks to the session runs itself. Each call of one is a question that names the call; the answer is its result. */
  'tools.caller'?: Array<{
    description?: string;
    name: string;
    /** A JSON Schema of the type object; without it, an object. */
    parameters?: { [name: string]: unknown } | null;
  }> | null;
  'tools.max_parallel'?: number | null;
  'tools.max_questions'?: number | null;
  'tools.timeout'?: string | null;
};

export type Progress = {
  after: Seq;
  data: {
    call: string;
    note: string | Redacted;
    percent?: number;
  };
  session: SessionId;
  task?: TaskId;
  type: 'progress';
};

export type Receipt = {
  disposition: Disposition;
  duplicate: boolean;
  message: string;
  seq: Seq;
  task?: TaskId;
};

export type Redacted = {
  redacted: true;
};

export type Rendered = {
  after: Seq;
  data: {
    html: string;
    message: string;
  };
  session: SessionId;
  type: 'rendered';
};

/** What became of a message. */
export type Resolution = 'answered' | 'merged' | 'dismissed' | 'withdrawn' | 'cancelled' | 'failed' | 'unanswered';

/** A response that is not the model's own final answer. */
export type ResponseKind = 'error' | 'limit' | 'empty';

/** At most limits.text_bytes bytes; may be blank or absent only with attachments. */
export type SaidText = string | null;

export type Seq = number;

/** A root session: 16 characters. A delegation of it: "<root>/<call>". */
export type SessionId = string;

export type SessionSummary = {
  access: Access;
  activity_at: Time;
  agent: string;
  /** The reader has put it out of the list. */
  archived: boolean;
  /** Questions that are open. */
  awaiting: number;
  awaiting_tasks: number;
  closed: boolean;
  created_at: Time;
  head: Seq;
  last_at: Time;
  last_seq: Seq;
  open_tasks: number;
  owner: string;
  /** The reader has it on top. */
  pinned: boolean;
  seen: Seq;
  session: SessionId;
  /** What the session does: the first of these that a task of it is; "" = nothing. */
  status: 'RUNNING' | 'AWAITING_RESPONSE' | 'QUEUED' | '';
  title: string;
  /** Parts behind the reader's seen; of more than 99, 99. */
  unread: number;
};

/** Must not be blank; at most limits.text_bytes bytes. */
export type Spoken = string;

/** What is open in a session. */
export type State = {
  access: Access;
  agent: string;
  /** Calls without a result yet. */
  calls: Array<{
    agent?: string;
    call: string;
    /** The caller of the session runs the tool. */
    caller?: true;
    deadline?: Time;
    session?: SessionId;
    task?: TaskId;
    tool?: string;
  }>;
  closed?: true;
  /** Accepted messages that no model call has seen yet. */
  inbox: Array<{
    accepted_at: Time;
    attachments?: Array<Attachment>;
    author: string;
    excerpt: string;
    message: string;
    task?: TaskId;
  }>;
  members?: Members;
  owner: string;
  policy: Policy;
  questions: Array<OpenQuestion>;
  /** In the order in which they will run. */
  tasks: Array<{
    cancelling?: true;
    created_at: Time;
    status: 'QUEUED' | 'RUNNING' | 'AWAITING_RESPONSE';
    steps: number;
    task: TaskId;
    trigger: string;
  }>;
  title: string;
};

export type Synced = {
  data: {
    head: Seq;
  };
  session: SessionId;
  type: 'synced';
};

/** "t4-<session>" */
export type TaskId = string;

export type TaskStatus = 'QUEUED' | 'RUNNING' | 'AWAITING_RESPONSE' | 'COMPLETE' | 'ERROR' | 'CANCELLED';

export type Thinking = {
  after: Seq;
  data: {
    agent: string;
    step: number;
  };
  session: SessionId;
  task?: TaskId;
  type: 'thinking';
};

/** RFC 3339, milliseconds, UTC. */
export type Time = string;

export type Usage = {
  cached_tokens?: number;
  estimated?: true;
  input_tokens: number;
  output_tokens: number;
};

export type UserTyping = {
  after: Seq;
  data: {
    on: boolean;
    user: string;
  };
  session: SessionId;
  type: 'typing';
};

export type Via = 'websocket' | 'http' | 'slack' | 'discord' | 'telegram' | 'openai' | 'runtime' | 'delegation' | 'ui_stream' | 'ag_ui' | 'acp' | 'mcp' | 'a2a';

/** What a client sends. */
export type Command =
  | CommandAnswer
  | CommandCancel
  | CommandClaim
  | CommandClear
  | CommandCreate
  | CommandEdit
  | CommandFollow
  | CommandHello
  | CommandMove
  | CommandPing
  | CommandPolicy
  | CommandRefresh
  | CommandSeen
  | CommandSend
  | CommandTyping
  | CommandUnfollow
  | CommandUnwatch
  | CommandUnwatchChats
  | CommandWatch
  | CommandWatchChats
  | CommandWithdraw;

/** What a command is answered with. */
export type Answer =
  | Error
  | OkAnswer
  | OkCancel
  | OkClaim
  | OkCreate
  | OkEmpty
  | OkFollow
  | OkHello
  | OkPing
  | OkPolicy
  | OkRefresh
  | OkSend
  | OkSeq
  | OkWatchChats;

/** What is in the log of a session; it has a seq. */
export type DurableEvent =
  | EventContextCleared
  | EventContextCompacted
  | EventCoverageNudge
  | EventDelegationFinished
  | EventDelegationStarted
  | EventMessageAccepted
  | EventMessageEdited
  | EventMessageMoved
  | EventMessageResolved
  | EventMessageWithdrawn
  | EventPartialResponse
  | EventQuestion
  | EventQuestionAnswered
  | EventQuestionClosed
  | EventResponse
  | EventRuntimeStatus
  | EventSessionClosed
  | EventSessionCreated
  | EventSessionUpdated
  | EventStepFinished
  | EventStepStarted
  | EventTaskCancelling
  | EventTaskStatus
  | EventToolFinished
  | EventToolStarted;

/** What a session shows without storing it. */
export type EphemeralEvent =
  | Delta
  | DraftDropped
  | DraftState
  | Gone
  | Progress
  | Rendered
  | Synced
  | Thinking
  | UserTyping;
