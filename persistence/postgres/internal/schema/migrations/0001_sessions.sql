-- +goose Up

-- The identity of the logs in this database: one row. It has to be changed when a backup
-- was brought back: the logs of before go on differently then.
create table store (
    log text not null,
    one boolean primary key default true check (one)
);
insert into store (log) values (replace(gen_random_uuid()::text, '-', ''));

-- Heads of sessions, and what lists show. An erased session stays as a tombstone. Times are
-- milliseconds since 1970. Only what changes about once a second, or seldom, has an index:
-- PostgreSQL writes a row over in its page then, and touches no index.
create table sessions (
    tenant            text collate "C" not null,
    session           text collate "C" not null,
    id                bigint generated always as identity,
    epoch             bigint not null,
    last_seq          bigint not null default 0,
    last_commit       bytea not null default '',
    owner             bigint,                -- the incarnation of a member; null = nobody's
    owner_node        text,
    prior             bigint,                -- the owner before this one
    prior_node        text,
    root              boolean not null,
    stored            bigint not null default 512,
    snapshot_at       bigint not null default 0,
    summary           bytea,                 -- null = nothing was ever committed
    activity          bigint,
    listed            bigint,                -- activity >> 10, of root sessions: what lists are searched by
    wake              bigint,                -- null = nothing to do; also in due
    claim             bytea,
    claim_since       bigint,
    erased            timestamptz,
    primary key (tenant, session)
) with (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.05);
create index sessions_newest on sessions (tenant, listed desc) where listed is not null;
create index sessions_oldest on sessions (listed) where listed is not null;
create index sessions_claim on sessions (tenant, claim_since, session) where claim_since is not null;

-- What is to be done, apart from sessions: it changes twice in each turn.
create table due (
    wake    bigint not null,
    tenant  text collate "C" not null,
    session text collate "C" not null,
    primary key (wake, tenant, session)
) with (autovacuum_vacuum_scale_factor = 0.05);

-- One row for each commit with events; session is sessions.id.
create table records (
    session   bigint not null,
    last_seq  bigint not null,
    first_seq bigint not null,
    body      bytea not null,
    primary key (session, last_seq)
);

create table event_keys (
    session bigint not null,
    key     bytea not null,
    seq     bigint not null,
    primary key (session, key)
);

create table snapshots (
    session bigint primary key,
    body    bytea not null
) with (autovacuum_vacuum_scale_factor = 0.05);

create table tasks (
    session bigint not null,
    task    text collate "C" not null,
    tenant  text collate "C" not null,
    created bigint not null,
    ordinal bigint not null,
    status  smallint not null,
    root    boolean not null,
    body    bytea not null,
    primary key (session, task)
) with (fillfactor = 70);
create index tasks_newest on tasks (tenant, created desc, ordinal desc, task) where root;

create table read_cursors (
    session bigint not null,
    reader  bytea not null,
    seq     bigint not null,
    primary key (session, reader)
) with (fillfactor = 70);
