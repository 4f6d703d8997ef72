package blobtable

import (
	"strings"

	"parley/conversation/attached"
)

// Naming is a statement that writes commits, made one that also keeps the files which they
// name. $session and $hash are arrays: of the numbers of commits, and of what each names. The
// statement has these places, with found, the commits by n and their sessions by id, and good,
// those that are written:
//
//	/*named*/   a further query
//	/*fits*/    behind the conditions of good: nothing that a commit names is missing
//	/*kept*/    a further query behind good
//	/*gone*/    in place of "false": something that the commit f names is missing
//
// The session of each commit is held already (see the package), so what is found here stays.
func Naming(statement, n, hash string) string {
	return strings.NewReplacer(
		"/*named*/", `, named as materialized (
  select f.n, f.id, k.hash, b.size is null as gone from unnest(`+n+`::bigint[], `+hash+`::text[]) as k(n, hash) join found f on f.n = k.n
  left join lateral (select b.size from blobs b where b.session = f.id and b.hash = k.hash limit 1) b on true
)`,
		"/*fits*/", ` and not exists (select from named a where a.n = f.n and a.gone)`,
		"/*kept*/", `, kept as (
  update blobs b set named = true from named a join good g on g.n = a.n where b.session = a.id and b.hash = a.hash and not b.named
)`,
		"false/*gone*/", `exists (select from named a where a.n = f.n and a.gone)`,
	).Replace(statement)
}

// Names are the columns of Naming for the nth commit, from 1.
type Names struct {
	N    []int64
	Hash []string
}

// Add adds what a commit names.
func (a *Names) Add(n int64, hashes []attached.Hash) {
	for _, h := range hashes {
		a.N, a.Hash = append(a.N, n), append(a.Hash, string(h))
	}
}
