-- +goose Up

-- What a reader has marked a session with, as bits: 1 pinned, 2 archived.
alter table read_cursors add column marks smallint not null default 0;
