package relay

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"
	"unicode/utf8"

	"parley/conversation"
	"parley/conversation/wire"
)

// Clients of this node follow sessions of other nodes.

// follow is a session that clients of this node follow. Sessions of this node are among them:
// they may become another's.
type follow struct {
	epoch  conversation.Epoch // of the newest writer that was seen
	head   conversation.Seq   // the last event that was shown here
	sites  []site             // the nodes that show it: first the one whose it is
	drafts map[conversation.DraftID]streaming
	begun  bool // a view was asked for: whoever is shown the next one may not be alone

	// unsure: something may have happened while it was noted nowhere. The store is asked
	// as soon as it is noted. Relay.unsure has those of which it is true.
	unsure bool
}

// site is a node that shows a session.
type site struct {
	at    conversation.Member
	first uint64 // the renewal that asked for it
	again bool   // it says that the session is not its own; it is asked again soon
}

// streaming is a draft that comes from another node.
type streaming struct {
	task conversation.TaskID
	end  int                 // code points that have come
	from conversation.Member // zero = it was seen in a view only
}

// asked is a view that was asked of another node.
type asked struct {
	to    conversation.Member
	key   conversation.SessionKey
	as    conversation.UserID
	first bool // since the session is followed here
	done  func(conversation.View, error)
	timer *time.Timer
}

// Followed says that a session has got its first follower here.
func (r *Relay) Followed(key conversation.SessionKey) {
	r.mu.Lock()
	defer r.mu.Unlock()
	f := &follow{}
	r.follows[key] = f
	delete(r.unsure, key)
	if owner, other := r.elsewhere(key); other {
		f.sites = []site{{at: owner, first: r.renewAt(owner, entry{key: key})}}
	}
}

// Unfollowed says that the last follower of a session has left.
func (r *Relay) Unfollowed(key conversation.SessionKey) {
	r.mu.Lock()
	defer r.mu.Unlock()
	f := r.follows[key]
	if f == nil {
		return
	}
	delete(r.follows, key)
	delete(r.unsure, key)
	if len(f.drafts) > 0 {
		r.streams.Add(-1)
	}
	for _, s := range f.sites {
		r.send(s.at, &message{kind: kindDrop, entries: []entry{{key: key}}})
	}
}

// Typing tells the other nodes that a user types here.
func (r *Relay) Typing(key conversation.SessionKey, after conversation.Seq, user conversation.UserID, on bool) {
	m := message{kind: kindTyping, key: key, seq: after, user: user, on: on}
	if owner, other := r.elsewhere(key); other {
		r.send(owner, &m)
		return
	}
	r.typing(&m, r.o.Self)
}

// View shows a followed session as the node has it that writes it: mostly its owner. If that one
// does not answer soon, it is read from the store: without the text that streams.
func (r *Relay) View(key conversation.SessionKey, as conversation.UserID, done func(conversation.View, error)) {
	here := r.holds(key) && r.o.Holds()
	r.mu.Lock()
	f := r.follows[key]
	first := f != nil && !f.begun
	if first {
		f.begun = true
	}
	owner, other := r.elsewhere(key)
	if other && f != nil && !slices.ContainsFunc(f.sites, func(s site) bool { return s.at == owner }) {
		r.noteAt(key, f, owner)
	}
	if at, streams := f.writer(r.o.Alive); here {
		other = false
	} else if streams {
		owner, other = at, true
	}
	if !other {
		r.mu.Unlock()
		r.viewHere(key, as, done)
		return
	}
	r.last++
	id := r.last
	a := &asked{to: owner, key: key, as: as, first: first, done: done}
	r.asked[id] = a
	a.timer = time.AfterFunc(viewWait, func() { r.viewFailed(id) })
	sent := r.send(owner, &message{kind: kindView, id: id, key: key, user: as})
	r.mu.Unlock()
	if !sent {
		r.viewFailed(id)
	}
}

// writer is the other node that a session's text comes from, if some streams. While the session
// moves it is not the owner, and the owner does not have that text. The caller holds mu of the relay.
func (f *follow) writer(alive func(conversation.Member) bool) (conversation.Member, bool) {
	if f != nil {
		for _, d := range f.drafts {
			if slices.ContainsFunc(f.sites, func(s site) bool { return s.at == d.from }) && alive(d.from) {
				return d.from, true
			}
		}
	}
	return conversation.Member{}, false
}

// noteAt has a session of which something may have been missed noted at its owner. The caller
// holds mu.
func (r *Relay) noteAt(key conversation.SessionKey, f *follow, owner conversation.Member) {
	r.unsure.add(key, f)
	f.sites = slices.Insert(f.sites, 0, site{at: owner, first: r.renewAt(owner, entry{key: key, epoch: f.epoch, head: f.head})})
	f.sites = f.sites[:min(len(f.sites), siteLimit)]
}

// doubts are the followed sessions that are unsure. Guarded by mu of the relay.
type doubts map[conversation.SessionKey]*follow

// add notes that something of a session may have been missed.
func (d doubts) add(key conversation.SessionKey, f *follow) {
	f.unsure = true
	d[key] = f
}

// settle notes that the store is asked for a session.
func (d doubts) settle(key conversation.SessionKey, f *follow) {
	f.unsure = false
	delete(d, key)
}

// renewAt tells an owner what is followed here, and gives the number of this renewal. The answer
// cannot come before the caller, who holds mu, has noted it.
func (r *Relay) renewAt(owner conversation.Member, all ...entry) uint64 {
	r.last++
	now := time.Now() // before it is sent: the answer says that the owner was there since
	if r.send(owner, &message{kind: kindRenew, id: r.last, entries: all}) {
		r.renewals[r.last] = now
	} else { // no answer will come
		r.o.Meter.Renewal(renewalNotSent)
	}
	return r.last
}

func (r *Relay) viewHere(key conversation.SessionKey, as conversation.UserID, done func(conversation.View, error)) {
	if source := r.source.Load(); source != nil {
		(*source).View(key, as, func(v conversation.View, err error) {
			from := nobody // it is of the store
			if r.holds(key) {
				from = r.o.Self
			}
			r.front.do(key, from, func() { done(r.shown(v), err) })
		})
		return
	}
	done(conversation.View{}, conversation.Errorf(conversation.Unavailable, "the server is starting"))
}

// shown is a view of this node's engine without the text that streams, if the node may have
// been replaced.
func (r *Relay) shown(v conversation.View) conversation.View {
	if !r.o.Holds() {
		v.Drafts = nil
	}
	return v
}

// take gives the view that was asked for; nil = it was answered already.
func (r *Relay) take(id uint64) *asked {
	r.mu.Lock()
	defer r.mu.Unlock()
	a := r.asked[id]
	delete(r.asked, id)
	if a != nil {
		a.timer.Stop()
	}
	return a
}

// viewFailed reads a view from the store that another node has not answered. What happens
// meanwhile may not be shown to this node: the store is asked once more when it is noted. The view
// is without the text that streams: if more of that comes, all of it is shown anew.
func (r *Relay) viewFailed(id uint64) {
	a := r.take(id)
	if a == nil {
		return
	}
	r.mu.Lock()
	if f := r.follows[a.key]; f != nil {
		r.unsure.add(a.key, f)
		for draft, s := range f.drafts {
			s.end = 0
			f.drafts[draft] = s
		}
	}
	r.mu.Unlock()
	r.viewHere(a.key, a.as, a.done)
}

// viewed takes the answer of another node.
func (r *Relay) viewed(m *message) {
	switch {
	case m.refused != nil:
		e, err := wire.DecodeError(m.refused)
		if err == nil && e.Code != conversation.Unavailable {
			if a := r.take(m.id); a != nil {
				a.done(conversation.View{}, e)
			}
			return
		}
	case m.body != nil:
		v, err := wire.DecodeView(m.body)
		if err == nil {
			if a := r.take(m.id); a != nil {
				r.know(a.key, 0, v.Head)
				if a.first {
					r.streaming(a.key, v.Drafts)
				}
				r.front.do(a.key, a.to, func() { a.done(v, nil) })
			}
			return
		}
	}
	r.viewFailed(m.id)
}

// renew tells all owners what is followed here.
func (r *Relay) renew() {
	r.mu.Lock()
	defer r.mu.Unlock()
	maps.DeleteFunc(r.renewals, func(_ uint64, sent time.Time) bool {
		lost := time.Since(sent) > forget
		if lost {
			r.o.Meter.Renewal(renewalLost)
		}
		return lost
	})
	entries, there := map[conversation.Member][]entry{}, 0
	for key, f := range r.follows {
		if len(f.sites) > 0 {
			there++
		}
		if f.unsure && len(f.sites) == 0 {
			r.unsure.settle(key, f)
			r.checks[key] = true
		}
		for i := range f.sites {
			at := f.sites[i].at
			entries[at] = append(entries[at], entry{key: key, epoch: f.epoch, head: f.head})
		}
	}
	r.ask(entries)
	r.wakeCheck()
	r.o.Meter.Follows(there, int(r.remote.Load()))
}

// ask sends a renewal to each node that shows something here. A large one is sent in parts, each
// with a number of its own: the answer to one says nothing of those behind it. The caller
// holds mu.
func (r *Relay) ask(entries map[conversation.Member][]entry) {
	for at, all := range entries {
		for some := range slices.Chunk(all, perRenew) {
			id := r.renewAt(at, some...)
			for i := range some {
				if f := r.follows[some[i].key]; f != nil {
					f.asks(at, id)
				}
			}
		}
	}
}

// asks notes the renewal that asks a node for the first time to show the session.
func (f *follow) asks(at conversation.Member, id uint64) {
	for i := range f.sites {
		if s := &f.sites[i]; s.at == at && s.first == 0 {
			s.first = id
		}
	}
}

// renewed takes what an owner says to a renewal.
func (r *Relay) renewed(from conversation.Member, m *message) {
	type known struct {
		key   conversation.SessionKey
		epoch conversation.Epoch
		head  conversation.Seq
	}
	var stored []known
	r.mu.Lock()
	if sent, waits := r.renewals[m.id]; waits {
		delete(r.renewals, m.id)
		r.o.Meter.Renewal(renewalAnswered)
		if sent.After(r.answered[from]) {
			r.answered[from] = sent
		}
	}
	for i := range m.entries {
		e := &m.entries[i]
		f := r.follows[e.key]
		if f == nil {
			continue
		}
		at := slices.IndexFunc(f.sites, func(s site) bool { return s.at == from })
		if at < 0 {
			continue
		}
		if e.state == stateElsewhere {
			r.elsewhereSays(e, f, at)
			r.checks[e.key] = true
			continue
		}
		if e.state == stateNew && m.id != f.sites[at].first {
			r.unsure.add(e.key, f)
		}
		if e.head > f.head || e.epoch > f.epoch {
			stored = append(stored, known{e.key, e.epoch, e.head})
		}
	}
	for key, f := range r.unsure { // it was noted there before this answer
		if slices.ContainsFunc(f.sites, func(s site) bool { return s.at == from && s.first != 0 && s.first <= m.id }) {
			r.unsure.settle(key, f)
			r.checks[key] = true
		}
	}
	r.mu.Unlock()
	for _, k := range stored {
		r.replaced(k.key, k.epoch)
		r.know(k.key, k.epoch, k.head)
		r.front.stored(from, k.key, k.epoch, k.head)
	}
	r.lookUp()
}

// elsewhereSays deals with a session that is not where it was looked for. While this node
// believes that it is, it goes on asking; meanwhile the log is read. The caller holds mu.
func (r *Relay) elsewhereSays(e *entry, f *follow, at int) {
	from := f.sites[at].at
	r.unsure.add(e.key, f)
	if owner, _ := r.o.Owner(rootOf(e.key)); owner != from {
		f.sites = slices.Delete(f.sites, at, at+1)
		return // whom it names is not asked: two that name each other would be asked for ever
	}
	f.sites[at].again = true
	r.askSoon()
	if e.at != (conversation.Member{}) && e.at != r.o.Self && r.o.Alive(e.at) && len(f.sites) < siteLimit &&
		!slices.ContainsFunc(f.sites, func(s site) bool { return s.at == e.at }) {
		id := r.renewAt(e.at, entry{key: e.key, epoch: f.epoch, head: f.head})
		f.sites = append(f.sites, site{at: e.at, first: id})
	}
}

// askSoon has those asked again that say that a session is not their own. They see another ring
// than this node: mostly for a moment only. The caller holds mu.
func (r *Relay) askSoon() {
	if !r.asking {
		r.asking = true
		time.AfterFunc(askAgain, r.askAgain)
	}
}

func (r *Relay) askAgain() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.asking = false
	entries := map[conversation.Member][]entry{}
	for key, f := range r.follows {
		for i := range f.sites {
			if s := &f.sites[i]; s.again {
				s.again = false
				entries[s.at] = append(entries[s.at], entry{key: key, epoch: f.epoch, head: f.head})
			}
		}
	}
	r.ask(entries)
}

// Changed says that the list of members or the ring has changed: what is followed here is noted
// with its new owners. Those of before are asked until they say that they have it no more.
func (r *Relay) Changed() {
	type stopped struct {
		key    conversation.SessionKey
		after  conversation.Seq
		drafts map[conversation.DraftID]streaming
	}
	var ended []stopped
	var failed []uint64
	r.mu.Lock()
	entries := map[conversation.Member][]entry{}
	for key, f := range r.follows {
		before := len(f.sites)
		f.sites = slices.DeleteFunc(f.sites, func(s site) bool { return !r.o.Alive(s.at) })
		if len(f.sites) < before { // what it has stored, and shown to nobody, is in the log
			r.unsure.add(key, f)
			if len(f.drafts) > 0 {
				ended = append(ended, stopped{key, f.head, f.drafts})
				r.endDrafts(f)
			}
		}
		owner, other := r.elsewhere(key)
		i := slices.IndexFunc(f.sites, func(s site) bool { return s.at == owner })
		if other && i < 0 {
			r.unsure.add(key, f)
			f.sites = slices.Insert(f.sites, 0, site{at: owner})
			f.sites = f.sites[:min(len(f.sites), siteLimit)]
			entries[owner] = append(entries[owner], entry{key: key, epoch: f.epoch, head: f.head})
		}
		if f.unsure { // and once more when it is noted
			r.checks[key] = true
		}
	}
	for at := range r.answered {
		if !r.o.Alive(at) {
			delete(r.answered, at)
		}
	}
	for id, a := range r.asked {
		if !r.o.Alive(a.to) {
			failed = append(failed, id)
		}
	}
	r.mu.Unlock()
	for _, e := range ended { // before anything of the next owner's
		r.showEnded(e.key, e.after, e.drafts)
	}
	r.mu.Lock()
	r.ask(entries)
	r.wakeCheck()
	r.mu.Unlock()
	for _, id := range failed {
		r.viewFailed(id)
	}
}

// show takes what an owner shows of a session.
func (r *Relay) show(from conversation.Member, m *message) error {
	switch m.kind {
	case kindEvents:
		record, err := wire.DecodeRecord(m.body)
		if err != nil {
			return err
		}
		events := record.Events
		r.replaced(m.key, m.epoch)
		r.know(m.key, m.epoch, events[len(events)-1].Seq)
		r.written(m.key, events)
		r.front.publish(from, m.key, m.epoch, events)
	case kindEphemeral:
		e, err := wire.DecodeEphemeral(m.body)
		if err != nil || e == nil { // nil = of a newer version
			return err
		}
		r.replaced(m.key, m.epoch)
		take, missed := r.takes(from, m, e)
		if missed {
			r.o.Meter.Gap(gapOfText)
			r.o.Hub.Missed(m.key)
		}
		if take {
			r.o.Hub.Show(m.key, m.epoch, m.seq, e)
		}
	case kindAudience:
		now, err := wire.DecodeSummary(m.body)
		if err != nil {
			return err
		}
		r.o.Hub.Audience(m.key, m.epoch, now)
	case kindGone:
		r.o.Hub.Gone(m.key, m.text)
	}
	return nil
}

// know notes how far a followed session has got.
func (r *Relay) know(key conversation.SessionKey, epoch conversation.Epoch, head conversation.Seq) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if f := r.follows[key]; f != nil {
		f.epoch, f.head = max(f.epoch, epoch), max(f.head, head)
	}
}

// streaming notes the drafts that the first view shows. Of a later one they are not noted: it is for
// one follower, and others may have missed that text. The next delta says so.
func (r *Relay) streaming(key conversation.SessionKey, drafts []conversation.DraftView) {
	r.mu.Lock()
	defer r.mu.Unlock()
	f := r.follows[key]
	if f == nil {
		return
	}
	for _, d := range drafts {
		r.beginDrafts(f)
		known := f.drafts[d.Draft]
		f.drafts[d.Draft] = streaming{d.Task, max(known.end, utf8.RuneCountInString(d.Text)), known.from}
	}
}

// takes is true for an ephemeral thing of a node that shows the session and was alive a moment ago.
// missed is true when text before it was lost.
func (r *Relay) takes(from conversation.Member, m *message, e conversation.Ephemeral) (take, missed bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	f := r.follows[m.key]
	reason := ""
	switch {
	case f == nil || !slices.ContainsFunc(f.sites, func(s site) bool { return s.at == from }):
		reason = droppedStranger
	case m.epoch < f.epoch && m.epoch != 0:
		reason = droppedReplaced
	case time.Since(r.answered[from]) > r.o.Lease:
		reason = droppedSilent
	}
	if reason != "" {
		r.o.Meter.Dropped(reason)
		return false, false
	}
	f.epoch = max(f.epoch, m.epoch)
	switch e := e.(type) {
	case conversation.Delta:
		r.beginDrafts(f)
		end := f.drafts[e.Draft].end
		missed = e.At > end
		f.drafts[e.Draft] = streaming{e.Task, max(end, e.At+utf8.RuneCountInString(e.Text)), from}
	case conversation.DraftDropped:
		r.endDraft(f, e.Draft)
	}
	return true, missed
}

// written notes the drafts that have become parts.
func (r *Relay) written(key conversation.SessionKey, events []conversation.Event) {
	if r.streams.Load() == 0 {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	f := r.follows[key]
	if f == nil {
		return
	}
	for i := range events {
		switch b := events[i].Body.(type) {
		case conversation.PartialResponse:
			r.endDraft(f, b.Part.Draft)
		case conversation.Response:
			r.endDraft(f, b.Part.Draft)
		case conversation.StepStarted: // of another attempt
			r.endDrafts(f)
		}
	}
}

// beginDrafts makes room for a draft. The caller holds mu, as of the two below.
func (r *Relay) beginDrafts(f *follow) {
	if len(f.drafts) == 0 {
		f.drafts = map[conversation.DraftID]streaming{}
		r.streams.Add(1)
	}
}

func (r *Relay) endDraft(f *follow, draft conversation.DraftID) {
	if _, streams := f.drafts[draft]; streams {
		if delete(f.drafts, draft); len(f.drafts) == 0 {
			r.streams.Add(-1)
		}
	}
}

func (r *Relay) endDrafts(f *follow) {
	if len(f.drafts) > 0 {
		f.drafts = nil
		r.streams.Add(-1)
	}
}

// replaced drops the drafts of a writer that another one has replaced, before anything of
// the new one is shown.
func (r *Relay) replaced(key conversation.SessionKey, epoch conversation.Epoch) {
	if epoch == 0 || r.streams.Load() == 0 {
		return
	}
	r.mu.Lock()
	f := r.follows[key]
	if f == nil || epoch <= f.epoch || len(f.drafts) == 0 || f.epoch == 0 { // 0 = of the first one that is seen
		r.mu.Unlock()
		return
	}
	drafts, after := f.drafts, f.head
	f.epoch = epoch
	r.endDrafts(f)
	r.mu.Unlock()
	r.showEnded(key, after, drafts)
}

func (r *Relay) showEnded(key conversation.SessionKey, after conversation.Seq, drafts map[conversation.DraftID]streaming) {
	for draft, s := range drafts {
		r.o.Hub.Show(key, 0, after, conversation.DraftDropped{Task: s.task, Draft: draft})
	}
}

// lookUp has the store asked for sessions.
func (r *Relay) lookUp(keys ...conversation.SessionKey) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, key := range keys {
		r.checks[key] = true
	}
	r.wakeCheck()
}

// wakeCheck has the store asked, if that is wanted. The caller holds mu.
func (r *Relay) wakeCheck() {
	if len(r.checks) > 0 {
		select {
		case r.kick <- struct{}{}:
		default:
		}
	}
}

// check asks the store for sessions of which something may have been missed, until ctx ends.
func (r *Relay) check(ctx context.Context) {
	var work sync.WaitGroup
	defer work.Wait()
	slots := make(chan struct{}, checkers)
	for {
		select {
		case <-ctx.Done():
			return
		case <-r.kick:
		}
		r.mu.Lock()
		keys := slices.Collect(maps.Keys(r.checks))
		clear(r.checks)
		r.mu.Unlock()
		for _, key := range keys {
			r.o.Meter.Gap(gapOfEvents)
			select {
			case <-ctx.Done():
				return
			case slots <- struct{}{}:
			}
			work.Go(func() {
				defer func() { <-slots }()
				r.checkOne(ctx, key)
			})
		}
	}
}

// checkOne brings the followers of one session to where the store is: its log, who may read
// it, and whether it is there at all.
func (r *Relay) checkOne(ctx context.Context, key conversation.SessionKey) {
	source := r.source.Load()
	if source == nil {
		return
	}
	root := rootOf(key)
	now, err := (*source).Summary(ctx, key)
	if err == nil {
		r.know(key, 0, now.Last)
		r.front.stored(nobody, key, 0, now.Last)
		if root != key {
			now, err = (*source).Summary(ctx, root)
		}
	}
	switch {
	case err == nil:
		r.o.Hub.Audience(root, 0, now)
	case errors.Is(err, conversation.ErrNotFound):
		r.o.Hub.Gone(key, "erased")
	default: // with the next renewal again
		r.mu.Lock()
		if f := r.follows[key]; f != nil {
			r.unsure.add(key, f)
		}
		r.mu.Unlock()
	}
}
