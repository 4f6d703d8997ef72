-- +goose Up

-- The programs of which schema can still work with these tables: one row. A migration
-- that takes something away raises it.
create table schema_oldest (version bigint not null);
insert into schema_oldest values (1);

-- A number for each run of each node, never given twice in this database, so that an owner
-- of a session is found by it alone.
create sequence member_incarnations;

-- When somebody of a cluster was last here, and since when somebody is again after nobody
-- was: leases that ran out while nobody could renew them begin anew then.
create table member_clusters (
    name  text collate "C" primary key,
    heard timestamptz not null,
    back  timestamptz not null
);

create table members (
    cluster     text collate "C" not null references member_clusters (name),
    node        text collate "C" not null,
    incarnation bigint not null,
    address     text not null,
    sessions    boolean not null,
    version     text not null,
    feature     bigint not null,
    draining    boolean not null,
    owned       integer not null,
    lease       interval not null,
    renewed     timestamptz not null,
    primary key (cluster, node)
);
create unique index members_incarnation on members (incarnation);

-- The members as of now. An owner that is not here, or is dead, has lost its sessions; by
-- the clock of this server, which alone is asked.
create view members_now as
select m.cluster, m.node, m.incarnation, m.address, m.sessions, m.version, m.feature, m.draining, m.owned,
    greatest(clock_timestamp() - m.renewed, interval '0') as silent,
    clock_timestamp() > greatest(m.renewed, c.back) + m.lease as dead
from members m join member_clusters c on c.name = m.cluster;
