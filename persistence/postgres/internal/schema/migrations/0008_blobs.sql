-- +goose Up

-- What is attached to messages. A file belongs to a root session: session is sessions.id, holder
-- its name. Times are milliseconds since 1970.
create table blobs (
    session bigint not null,
    hash    text collate "C" not null,
    tenant  text collate "C" not null,
    holder  text collate "C" not null,
    name    text not null,
    type    text not null,
    size    bigint not null,
    at      bigint not null,                 -- when its loan began
    named   boolean not null default false,  -- a message names it: it stays
    primary key (session, hash)
) with (autovacuum_vacuum_scale_factor = 0.05);
create index blobs_holders on blobs (tenant, hash, holder) include (size);
create index blobs_loans on blobs (at) where not named;

-- Their bytes, in pieces of 256 KiB: a value of PostgreSQL is sent, and kept in memory, as a
-- whole, at both ends, and a file may have tens of megabytes. Pictures are compressed already.
create table blob_chunks (
    session bigint not null,
    hash    text collate "C" not null,
    n       integer not null,
    body    bytea not null,
    primary key (session, hash, n)
);
alter table blob_chunks alter column body set storage external;

-- An erasure takes the files along, also one by a program that does not know these tables.
-- Who stores a file holds its session for key share, which an erasure waits for.
-- +goose StatementBegin
create function blobs_erased() returns trigger language plpgsql as $$
begin
    delete from blob_chunks where session = new.id;
    delete from blobs where session = new.id;
    return null;
end $$;
-- +goose StatementEnd
create trigger sessions_blobs_erased after update of erased on sessions
for each row when (old.erased is null and new.erased is not null) execute function blobs_erased();
