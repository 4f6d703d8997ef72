-- +goose Up

-- The highest feature (conversation/member) that all members have ever known: from then on
-- there may be what needs it, and programs that know a lower one stay out.
alter table store add column feature bigint not null default 0;
