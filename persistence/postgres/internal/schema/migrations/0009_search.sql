-- +goose Up

-- What can be found of root sessions, derived from their logs; session is sessions.id. Times are
-- milliseconds since 1970. A message or part, and its text, folded:
create table said (
    session bigint not null,
    at      bigint not null,
    seq     bigint not null,
    text    bigint not null,                 -- the event that has its text
    message bytea not null,
    folded  text not null,
    primary key (session, at, seq)
) with (autovacuum_vacuum_scale_factor = 0.05);

-- The words of some texts of a session. What waits to be sorted into the index is read by each
-- search, so it stays small.
create table said_words (
    session bigint not null,
    terms   tsvector not null
) with (autovacuum_vacuum_scale_factor = 0.05);
create index said_words_session on said_words (session);
create index said_words_terms on said_words using gin (terms) with (gin_pending_list_limit = 256);

-- Up to where the log of a session is in them, and who may read it: hashes of their names.
create table said_to (
    session bigint primary key,
    through bigint not null,
    version smallint not null,
    open    boolean not null,
    readers bigint[] not null
) with (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.05);

-- The node that brings them up to the logs.
create table said_by (
    one   boolean primary key default true check (one),
    node  text not null default '',
    until timestamptz not null default '-infinity'
);
insert into said_by default values;

-- An erasure takes it along, also one by a program that does not know these tables. Who writes
-- them holds the session for key share, which an erasure waits for.
-- +goose StatementBegin
create function said_erased() returns trigger language plpgsql as $$
begin
    delete from said where session = new.id;
    delete from said_words where session = new.id;
    delete from said_to where session = new.id;
    return null;
end $$;
-- +goose StatementEnd
create trigger sessions_said_erased after update of erased on sessions
for each row when (old.erased is null and new.erased is not null) execute function said_erased();
