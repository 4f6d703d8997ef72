-- +goose Up

-- Tickets that nobody has used yet: each lets its bearer in once, at any node.
create table tickets (
    hash    bytea primary key,
    tenant  text collate "C" not null,
    bearer  text collate "C" not null,
    who     bytea not null,
    expires timestamptz not null
);
create index tickets_bearer on tickets (tenant, bearer);
create index tickets_expires on tickets (expires);
