package given

import (
	"parley/conversation"
	"parley/conversation/attached"
)

// place is a file of an entry.
type place struct{ entry, file int }

// room is for so many files of so many bytes.
type room struct {
	files int
	bytes int64
}

// taken is a place that has been given room.
type taken struct {
	at   place
	size int64
}

// newest are the files that there is room for: the newest. What a file takes says size, 0 = it
// does not count. Where one entry's files go beyond the room, those before them go until half
// of it is free: what is left stays the same for the entries that follow.
func newest(entries []*conversation.Entry, all room, size func(attached.File) int64) map[place]bool {
	var kept []taken
	var bytes int64
	fit := func(more []taken, sum int64, r room) bool {
		return len(kept)+len(more) <= r.files && bytes+sum <= r.bytes
	}
	for i, e := range entries {
		var own []taken
		var sum int64
		for k, f := range e.Files {
			if n := size(f); n > 0 {
				own, sum = append(own, taken{place{i, k}, n}), sum+n
			}
		}
		if !fit(own, sum, all) {
			for half := (room{all.files / 2, all.bytes / 2}); len(kept) > 0 && !fit(own, sum, half); kept = kept[1:] {
				bytes -= kept[0].size
			}
			for len(own) > 0 && !fit(own, sum, all) { // more than there is room for, alone
				sum, own = sum-own[0].size, own[1:]
			}
		}
		kept, bytes = append(kept, own...), bytes+sum
	}
	list := make(map[place]bool, len(kept))
	for _, t := range kept {
		list[t.at] = true
	}
	return list
}
