-- +goose Up

-- What channels to chat platforms remember of each chat. Here and below session is the root
-- session with which something is erased; '' = none.
create table chat_rows (
    tenant   text collate "C" not null,
    channel  text collate "C" not null,
    chat     text collate "C" not null,
    revision bigint not null,
    session  text collate "C" not null,
    value    bytea not null,
    primary key (tenant, channel, chat)
) with (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.05);
create index chat_rows_session on chat_rows (tenant, session) where session <> '';

-- The newest number of each tenant's feed. Who appends to the feed holds the row.
create table chat_feeds (
    tenant text collate "C" primary key,
    last   bigint not null
) with (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.05);

create table chat_entries (
    tenant  text collate "C" not null,
    number  bigint not null,
    at      bigint not null,
    session text collate "C" not null,
    value   bytea not null,
    primary key (tenant, number)
);
create index chat_entries_session on chat_entries (tenant, session) where session <> '';

-- An erasure takes along what belongs to the session, also one by a program that does not
-- know these tables. Who writes what names a session holds the same lock, shared: so either
-- he sees the erasure, or it sees what he has written.
-- +goose StatementBegin
create function chats_erased() returns trigger language plpgsql as $$
begin
    perform pg_advisory_xact_lock(hashtextextended('parley chats ' || new.tenant || '/' || new.session, 0));
    delete from chat_rows where tenant = new.tenant and session = new.session;
    delete from chat_entries where tenant = new.tenant and session = new.session;
    return null;
end $$;
-- +goose StatementEnd
create trigger sessions_chats_erased after update of erased on sessions
for each row when (old.erased is null and new.erased is not null and new.session <> '') execute function chats_erased();
