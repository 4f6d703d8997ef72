-- +goose Up

-- What only one member of a cluster may have at a time, and who has it. An incarnation that
-- members_now does not show, or shows as dead, has it no more.
create table singletons (
    cluster     text collate "C" not null,
    name        text collate "C" not null,
    incarnation bigint not null, -- 0 = nobody
    node        text collate "C" not null,
    primary key (cluster, name)
);
