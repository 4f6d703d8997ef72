package wire

import (
	"fmt"

	"parley/conversation"
	"parley/conversation/access"
	"parley/conversation/listing"
)

// commandNumber is the number of a command that crosses between nodes: those that clients
// and runtimes say. It is 0 for the others, which a session is told by its own node.
// The numbers are those of peer.proto, and are never used again.
func commandNumber(c conversation.Command) fieldNumber {
	switch c := c.(type) {
	case conversation.Create:
		return 1
	case conversation.Say:
		if len(c.Files) > 0 {
			return 17 // a program that knows no files must not take the text alone
		}
		return 2
	case conversation.Answer:
		return 3
	case conversation.Reply:
		return 4
	case conversation.Edit:
		return 5
	case conversation.Withdraw:
		return 6
	case conversation.Move:
		return 7
	case conversation.Cancel:
		return 8
	case conversation.Update:
		if c.Agent != "" {
			return 18 // nor say that it is done when it was passed over
		}
		return 9
	case conversation.Close:
		return 10
	case conversation.Seen:
		return 11
	case conversation.Clear:
		return 12
	case conversation.AddPart:
		return 13
	case conversation.HandOut:
		return 14
	case conversation.RuntimeSays:
		return 15
	case conversation.Mark:
		return 16
	default:
		return 0
	}
}

// Crosses is true for a command that AppendCommand takes.
func Crosses(c conversation.Command) bool { return commandNumber(c) != 0 }

// AppendCommand adds the encoding of a command that crosses between nodes to dst, without
// what its owner finds out itself (Duplicate, NextFree). A command that does not cross is a mistake of
// the caller's, and panics.
func AppendCommand(dst []byte, c conversation.Command) []byte {
	n := commandNumber(c)
	if n == 0 {
		panic(fmt.Sprintf("wire: %T does not cross between nodes", c))
	}
	w := newWriter(dst)
	at := w.begin(n)
	crossing(fields{w: &w}, n, c)
	w.end(at)
	return w.b
}

// DecodeCommand reads what AppendCommand wrote. Errors wrap conversation.ErrTooNew, also
// for a command that this program does not know, or ErrCorrupt.
func DecodeCommand(b []byte) (conversation.Command, error) {
	var (
		c      conversation.Command
		damage error
	)
	r := newReader(b, &damage)
	for r.next() {
		in, ok := r.message()
		if !ok {
			continue
		}
		n := r.number
		c = crossing(fields{r: &in}, n, nil)
		for _, wrong := range in.refused {
			r.refuse("%w", wrong.err)
		}
	}
	err := r.end()
	if err == nil && c == nil {
		err = fmt.Errorf("%w: it is none that this program knows", conversation.ErrTooNew)
	}
	if err != nil {
		return nil, fmt.Errorf("command: %w", err)
	}
	return c, nil
}

// crossing writes c, or reads a command of the number n; nil for one that is not known.
func crossing(f fields, n fieldNumber, c conversation.Command) conversation.Command {
	switch n {
	case 1:
		return crossingAs(f, c, commandCreate)
	case 2:
		return crossingAs(f, c, commandSay)
	case 3:
		return crossingAs(f, c, commandAnswer)
	case 4:
		return crossingAs(f, c, commandReply)
	case 5:
		return crossingAs(f, c, commandEdit)
	case 6:
		return crossingAs(f, c, commandWithdraw)
	case 7:
		return crossingAs(f, c, commandMove)
	case 8:
		return crossingAs(f, c, commandCancel)
	case 9:
		return crossingAs(f, c, commandUpdate)
	case 10:
		return crossingAs(f, c, commandClose)
	case 11:
		return crossingAs(f, c, commandSeen)
	case 12:
		return crossingAs(f, c, commandClear)
	case 13:
		return crossingAs(f, c, commandAddPart)
	case 14:
		return crossingAs(f, c, commandHandOut)
	case 15:
		return crossingAs(f, c, commandRuntimeSays)
	case 16:
		return crossingAs(f, c, commandMark)
	case 17:
		return crossingAs(f, c, commandSay)
	case 18:
		return crossingAs(f, c, commandUpdate)
	default:
		return nil
	}
}

// crossingAs writes a command of the type C, or reads one.
func crossingAs[C conversation.Command](f fields, c conversation.Command, each func(fields, *C)) conversation.Command {
	v, _ := c.(C)
	if f.w != nil {
		each(f, &v)
		return v
	}
	for f.r.next() {
		each(f, &v)
	}
	return v
}

func commandCreate(f fields, c *conversation.Create) {
	fText(f, 1, &c.Title)
	fText(f, 2, &c.Agent)
	fText(f, 3, &c.Owner)
	fEnum(f, 4, &c.Access, conversation.AccessTenant)
	fOverrides(f, 5, &c.Policy)
	fBool(f, 6, &c.Admin)
}

func commandSay(f fields, c *conversation.Say) {
	fText(f, 1, &c.Author)
	fText(f, 2, &c.AuthorName)
	fEnum(f, 3, &c.Via, conversation.ViaA2A)
	fText(f, 4, &c.ClientMsgID)
	fText(f, 5, &c.Text)
	fText(f, 6, &c.InReplyTo)
	fEnum(f, 7, &c.Mode, conversation.ModeReject)
	fFiles(f, 8, &c.Files)
	fText(f, 9, &c.TraceParent)
}

func commandAnswer(f fields, c *conversation.Answer) {
	fText(f, 1, &c.Author)
	fText(f, 2, &c.AuthorName)
	fEnum(f, 3, &c.Via, conversation.ViaA2A)
	fText(f, 4, &c.ClientMsgID)
	fText(f, 5, &c.Question)
	fText(f, 6, &c.Text)
}

func commandReply(f fields, c *conversation.Reply) {
	fText(f, 1, &c.Author)
	fText(f, 2, &c.AuthorName)
	fEnum(f, 3, &c.Via, conversation.ViaA2A)
	fText(f, 4, &c.ClientMsgID)
	fText(f, 5, &c.Task)
	fText(f, 6, &c.Text)
}

func commandEdit(f fields, c *conversation.Edit) {
	fText(f, 1, &c.By)
	fText(f, 2, &c.Message)
	fText(f, 3, &c.Text)
}

func commandWithdraw(f fields, c *conversation.Withdraw) {
	fText(f, 1, &c.By)
	fText(f, 2, &c.Message)
}

func commandMove(f fields, c *conversation.Move) {
	fText(f, 1, &c.By)
	fText(f, 2, &c.Message)
	fText(f, 3, &c.Before)
}

func commandCancel(f fields, c *conversation.Cancel) {
	fText(f, 1, &c.Task)
	fEnum(f, 2, &c.By, conversation.ByParent)
	fText(f, 3, &c.Author)
	fText(f, 4, &c.ClientMsgID)
	fText(f, 5, &c.Reason)
	fBool(f, 6, &c.Drop)
}

func commandUpdate(f fields, c *conversation.Update) {
	fText(f, 1, &c.By)
	fOptionalText(f, 2, &c.Title)
	switch {
	case f.w != nil && c.Access != nil:
		f.w.optionalUint(3, uint64(*c.Access))
	case f.reads(3):
		c.Access = new(conversation.Access)
		enum(f.r, c.Access, conversation.AccessTenant)
	}
	fOverrides(f, 4, &c.Policy)
	fMembers(f, 5, &c.Members)
	fBool(f, 6, &c.Admin)
	fText(f, 7, &c.Agent)
	fBool(f, 8, &c.Unnamed)
}

func commandClose(f fields, c *conversation.Close) { fText(f, 1, &c.Reason) }

func commandSeen(f fields, c *conversation.Seen) {
	fText(f, 1, &c.User)
	fUint(f, 2, &c.Seq)
}

func commandMark(f fields, c *conversation.Mark) {
	fText(f, 1, &c.User)
	fEnum(f, 2, &c.Set, listing.AllMarks)
	fEnum(f, 3, &c.Unset, listing.AllMarks)
}

func commandClear(f fields, c *conversation.Clear) { fText(f, 1, &c.By) }

func commandAddPart(f fields, c *conversation.AddPart) {
	fText(f, 1, &c.Author)
	fText(f, 2, &c.Source)
	fUint(f, 3, &c.Index)
	fBool(f, 4, &c.Indexed)
	fUint(f, 5, &c.Generation)
	fText(f, 6, &c.ClientMsgID)
	fText(f, 7, &c.Text)
	fBool(f, 8, &c.Final)
}

func commandHandOut(f fields, c *conversation.HandOut) { fText(f, 1, &c.Runtime) }

func commandRuntimeSays(f fields, c *conversation.RuntimeSays) {
	fText(f, 1, &c.Message)
	fEnum(f, 2, &c.Status, conversation.RuntimeFailed)
	fUint(f, 3, &c.Generation)
	fText(f, 4, &c.Error)
	fBool(f, 5, &c.Permanent)
}

func fMembers(f fields, n fieldNumber, v *map[conversation.UserID]access.Role) {
	if f.w != nil {
		f.w.members(n, *v)
	} else if f.reads(n) {
		f.r.members(v)
	}
}
