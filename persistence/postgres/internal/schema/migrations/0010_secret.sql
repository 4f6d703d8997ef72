-- +goose Up

-- What the nodes know and clients do not: cursors of lists are sealed with it. Each of the two
-- has 122 random bits.
alter table store add column secret text not null default gen_random_uuid()::text || gen_random_uuid()::text;
