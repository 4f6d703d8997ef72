package wire

import (
	"encoding/json"
	"fmt"
	"math"
	"time"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"parley/conversation"
	"parley/conversation/access"
	"parley/conversation/attached"
	"parley/conversation/listing"
	"parley/conversation/wire/internal/pb"
)

// The oracle: the same records and rows, read through the code that protoc-gen-go
// makes of the .proto files. The reader must give what it gives, for any bytes.

func oracleRecord(b []byte) (conversation.Record, error) {
	var in pb.Record
	if err := unmarshal(b, &in); err != nil {
		return conversation.Record{}, fmt.Errorf("record: %w", err)
	}
	if len(in.Events) == 0 {
		return conversation.Record{}, fmt.Errorf("record: %w: it holds no events", ErrCorrupt)
	}
	out := conversation.Record{ID: conversation.CommitID(in.Id), Events: make([]conversation.Event, len(in.Events))}
	for i, p := range in.Events {
		e, err := oracleEvent(p)
		if err != nil {
			return conversation.Record{}, fmt.Errorf("event %d: %w", p.Seq, err)
		}
		out.Events[i] = e
	}
	return out, nil
}

func unmarshal(b []byte, m proto.Message) error {
	if len(b) == 0 {
		return fmt.Errorf("%w: it is empty", ErrCorrupt)
	}
	if b[0] != format {
		return fmt.Errorf("%w: format %#02x", conversation.ErrTooNew, b[0])
	}
	if err := proto.Unmarshal(b[1:], m); err != nil {
		return fmt.Errorf("%w: %w", ErrCorrupt, err)
	}
	return nil
}

// unknownBody is the number of a body that this program does not know, or 0.
func unknownBody(e *pb.Event) protowire.Number {
	for b := e.ProtoReflect().GetUnknown(); len(b) > 0; {
		number, _, n := protowire.ConsumeField(b)
		if n < 0 {
			return 0
		}
		if number >= firstBody {
			return number
		}
		b = b[n:]
	}
	return 0
}

func oracleEvent(p *pb.Event) (conversation.Event, error) {
	if number := unknownBody(p); number != 0 {
		return conversation.Event{}, fmt.Errorf("%w: event kind %d", conversation.ErrTooNew, number-10)
	}
	var r oracle
	out := conversation.Event{Seq: conversation.Seq(p.Seq), At: oracleTime(p.At), Task: conversation.TaskID(p.Task)}
	switch b := p.Body.(type) {
	case *pb.Event_SessionCreated:
		out.Body = r.sessionCreated(b.SessionCreated)
	case *pb.Event_SessionUpdated:
		out.Body = r.sessionUpdated(b.SessionUpdated)
	case *pb.Event_SessionClosed:
		out.Body = r.sessionClosed(b.SessionClosed)
	case *pb.Event_MessageAccepted:
		out.Body = r.messageAccepted(b.MessageAccepted)
	case *pb.Event_MessageEdited:
		out.Body = r.messageEdited(b.MessageEdited)
	case *pb.Event_MessageWithdrawn:
		out.Body = r.messageWithdrawn(b.MessageWithdrawn)
	case *pb.Event_MessageMoved:
		out.Body = r.messageMoved(b.MessageMoved)
	case *pb.Event_MessageResolved:
		out.Body = r.messageResolved(b.MessageResolved)
	case *pb.Event_TaskStatus:
		out.Body = r.taskStatusChanged(b.TaskStatus)
	case *pb.Event_TaskCancelling:
		out.Body = r.taskCancelling(b.TaskCancelling)
	case *pb.Event_StepStarted:
		out.Body = r.stepStarted(b.StepStarted)
	case *pb.Event_StepFinished:
		out.Body = r.stepFinished(b.StepFinished)
	case *pb.Event_PartialResponse:
		out.Body = r.partialResponse(b.PartialResponse)
	case *pb.Event_Response:
		out.Body = r.response(b.Response)
	case *pb.Event_Question:
		out.Body = r.asked(b.Question)
	case *pb.Event_QuestionAnswered:
		out.Body = r.questionAnswered(b.QuestionAnswered)
	case *pb.Event_QuestionClosed:
		out.Body = r.questionClosed(b.QuestionClosed)
	case *pb.Event_ToolStarted:
		out.Body = r.toolStarted(b.ToolStarted)
	case *pb.Event_ToolFinished:
		out.Body = r.toolFinished(b.ToolFinished)
	case *pb.Event_DelegationStarted:
		out.Body = r.delegationStarted(b.DelegationStarted)
	case *pb.Event_DelegationFinished:
		out.Body = r.delegationFinished(b.DelegationFinished)
	case *pb.Event_CoverageNudge:
		out.Body = r.coverageNudge(b.CoverageNudge)
	case *pb.Event_ContextCompacted:
		out.Body = r.contextCompacted(b.ContextCompacted)
	case *pb.Event_RuntimeStatus:
		out.Body = r.runtimeStatus(b.RuntimeStatus)
	case *pb.Event_ContextCleared:
		out.Body = conversation.ContextCleared{By: conversation.UserID(b.ContextCleared.By)}
	default:
		return conversation.Event{}, fmt.Errorf("%w: the event says nothing", ErrCorrupt)
	}
	if r.err != nil {
		return conversation.Event{}, fmt.Errorf("%s: %w", out.Body.Kind(), r.err)
	}
	return out, nil
}

func (r *oracle) sessionCreated(p *pb.SessionCreated) conversation.SessionCreated {
	return conversation.SessionCreated{
		Title:  p.Title,
		Agent:  conversation.AgentName(p.Agent),
		Owner:  conversation.UserID(p.Owner),
		Access: r.access(p.Access),
		Policy: oracleOverrides(p.Policy),
		Lifted: p.Lifted,
	}
}

func (r *oracle) sessionUpdated(p *pb.SessionUpdated) conversation.SessionUpdated {
	r.access(p.GetAccess())
	return conversation.SessionUpdated{
		Title:   oracleText(p.Title),
		Access:  oraclePointer[conversation.Access](p.Access),
		Policy:  oracleOverrides(p.Policy),
		Lifted:  p.Lifted,
		Members: r.members(p.Members),
		Agent:   conversation.AgentName(p.Agent),
	}
}

func (r *oracle) members(in map[string]uint32) map[conversation.UserID]access.Role {
	if len(in) == 0 {
		return nil
	}
	out := make(map[conversation.UserID]access.Role, len(in))
	for user, role := range in {
		if role > uint32(access.Owner) {
			r.fail(fmt.Errorf("%w: a member's role", conversation.ErrTooNew))
		}
		out[conversation.UserID(user)] = access.Role(min(role, 255))
	}
	return out
}

func (*oracle) sessionClosed(p *pb.SessionClosed) conversation.SessionClosed {
	return conversation.SessionClosed{Reason: p.Reason}
}

func (r *oracle) messageAccepted(p *pb.MessageAccepted) conversation.MessageAccepted {
	return conversation.MessageAccepted{
		Message:     conversation.MessageID(p.Message),
		ClientMsgID: conversation.ClientMsgID(p.ClientMsgId),
		Author:      conversation.UserID(p.Author),
		Text:        p.Text,
		Disposition: oracleEnum(r, p.Disposition, conversation.Answered),
		Via:         oracleEnum(r, p.Via, conversation.ViaA2A),
		Mode:        oracleEnum(r, p.Mode, conversation.ModeReject),
		InReplyTo:   conversation.MessageID(p.InReplyTo),
		Question:    conversation.QuestionID(p.Question),
		NotBefore:   oracleTime(p.NotBefore),
		Steer:       p.Steer,
		Preempts:    p.First,
		Deferred:    p.Kept,
		AuthorName:  p.AuthorName,
		Files:       r.files(p.Files),
	}
}

func (*oracle) files(in []*pb.AttachedFile) (out []attached.File) {
	for _, p := range in {
		out = append(out, attached.File{Hash: attached.Hash(p.Hash), Name: p.Name, Type: p.Type, Size: int64(p.Size)})
	}
	return out
}

func (*oracle) messageEdited(p *pb.MessageEdited) conversation.MessageEdited {
	return conversation.MessageEdited{Message: conversation.MessageID(p.Message), Text: p.Text}
}

func (*oracle) messageWithdrawn(p *pb.MessageWithdrawn) conversation.MessageWithdrawn {
	return conversation.MessageWithdrawn{
		Message:    conversation.MessageID(p.Message),
		NewTrigger: conversation.MessageID(p.Heir),
	}
}

func (*oracle) messageMoved(p *pb.MessageMoved) conversation.MessageMoved {
	return conversation.MessageMoved{
		Message: conversation.MessageID(p.Message),
		Before:  conversation.MessageID(p.Before),
		Report:  p.Report,
	}
}

func (r *oracle) messageResolved(p *pb.MessageResolved) conversation.MessageResolved {
	return conversation.MessageResolved{
		Message:  conversation.MessageID(p.Message),
		How:      oracleEnum(r, p.How, conversation.ResolvedUnanswered),
		Part:     oraclePointer[conversation.PartIndex](p.Part),
		Question: conversation.QuestionID(p.Question),
		Evidence: oracleEnum(r, p.Evidence, conversation.EvidenceJudged),
	}
}

func (r *oracle) taskStatusChanged(p *pb.TaskStatusChanged) conversation.TaskStatusChanged {
	return conversation.TaskStatusChanged{
		Trigger:  conversation.MessageID(p.Trigger),
		Old:      r.taskStatus(p.Old),
		New:      r.taskStatus(p.New),
		Messages: oracleStrings[conversation.MessageID](p.Messages),
		Reason:   p.Reason,
		Error:    oracleFailure(p.Error),
	}
}

func (r *oracle) taskCancelling(p *pb.TaskCancelling) conversation.TaskCancelling {
	return conversation.TaskCancelling{
		By:     oracleEnum(r, p.By, conversation.ByParent),
		Until:  oracleTime(p.Until),
		Reason: p.Reason,
		Error:  oracleFailure(p.Error),
		Drop:   p.Drop,

		Author:      conversation.UserID(p.Author),
		ClientMsgID: conversation.ClientMsgID(p.ClientMsgId),
	}
}

func (r *oracle) stepStarted(p *pb.StepStarted) conversation.StepStarted {
	out := conversation.StepStarted{
		Step:      conversation.StepNumber(p.Step),
		Attempt:   int(p.Attempt),
		Agent:     conversation.AgentName(p.Agent),
		Read:      oracleStrings[conversation.MessageID](p.Read),
		Cause:     oracleEnum(r, p.Cause, conversation.CauseMoved),
		Error:     oracleFailure(p.Error),
		NotBefore: oracleTime(p.NotBefore),
		WrapUp:    p.WrapUp,
	}
	if p.Usage != nil {
		usage := oracleUsage(p.Usage)
		out.Usage = &usage
	}
	return out
}

func (r *oracle) stepFinished(p *pb.StepFinished) conversation.StepFinished {
	return conversation.StepFinished{
		Step:       conversation.StepNumber(p.Step),
		Attempt:    int(p.Attempt),
		Outcome:    oracleEnum(r, p.Outcome, conversation.StepUnknown),
		Decisions:  r.decisions(p.Decisions),
		Model:      p.Model,
		Usage:      oracleUsage(p.Usage),
		Took:       r.duration(p.Took),
		Error:      oracleFailure(p.Error),
		ResponseID: p.ResponseId,
		Stop:       oracleEnum(r, p.Stop, conversation.StopRefused),
		Items:      r.items(p.Items),
		Results:    oracleResults(p.Results),
	}
}

func (r *oracle) decisions(in []uint32) []conversation.Decision {
	if len(in) == 0 {
		return nil
	}
	out := make([]conversation.Decision, len(in))
	for i, d := range in {
		out[i] = oracleEnum(r, d, conversation.DecisionTool)
	}
	return out
}

func (r *oracle) coverageNudge(p *pb.CoverageNudge) conversation.CoverageNudge {
	return conversation.CoverageNudge{
		Messages:  oracleStrings[conversation.MessageID](p.Messages),
		Nudge:     int(p.Nudge),
		Questions: oracleStrings[conversation.QuestionID](p.Questions),
		Form:      oracleEnum(r, p.Form, conversation.NudgeQuestion),
	}
}

func (r *oracle) runtimeStatus(p *pb.RuntimeStatus) conversation.RuntimeStatus {
	return conversation.RuntimeStatus{
		Message:    conversation.MessageID(p.Message),
		Status:     oracleEnum(r, p.Status, conversation.RuntimeFailed),
		Generation: p.Generation,
		Runtime:    conversation.RuntimeName(p.Runtime),
		Until:      oracleTime(p.Until),
		Error:      p.Error,
		Permanent:  p.Permanent,
		NotBefore:  oracleTime(p.NotBefore),
	}
}

func (*oracle) contextCompacted(p *pb.ContextCompacted) conversation.ContextCompacted {
	return conversation.ContextCompacted{
		Upto:         conversation.Seq(p.Upto),
		TokensBefore: int(p.TokensBefore),
		TokensAfter:  int(p.TokensAfter),
		Summary:      p.Summary,
	}
}

func (*oracle) partialResponse(p *pb.PartialResponse) conversation.PartialResponse {
	return conversation.PartialResponse{Part: oraclePart(p.Part)}
}

func (r *oracle) response(p *pb.Response) conversation.Response {
	return conversation.Response{
		Part:         oraclePart(p.Part),
		ResponseKind: oracleEnum(r, p.Kind, conversation.ResponseEmpty),
		Promoted:     p.Promoted,
	}
}

func (*oracle) asked(p *pb.Asked) conversation.Asked {
	return conversation.Asked{
		Question:   conversation.QuestionID(p.Question),
		Text:       p.Text,
		Blocking:   p.Blocking,
		Choices:    oracleStrings[string](p.Choices),
		ExpiresAt:  oracleTime(p.ExpiresAt),
		Default:    oracleText(p.Default),
		Delegation: conversation.CallID(p.Delegation),
		Approval:   oracleApproval(p.Approval),
		ModelCall:  p.ModelCall,
		About:      conversation.MessageID(p.About),
		Call:       conversation.CallID(p.Call),
	}
}

func (*oracle) questionAnswered(p *pb.QuestionAnswered) conversation.QuestionAnswered {
	return conversation.QuestionAnswered{
		Question: conversation.QuestionID(p.Question),
		Message:  conversation.MessageID(p.Message),
		Text:     p.Text,
		By:       p.By,
	}
}

func (r *oracle) questionClosed(p *pb.QuestionClosed) conversation.QuestionClosed {
	return conversation.QuestionClosed{
		Question: conversation.QuestionID(p.Question),
		Reason:   oracleEnum(r, p.Reason, conversation.QuestionCancelled),
	}
}

func (*oracle) toolStarted(p *pb.ToolStarted) conversation.ToolStarted {
	return conversation.ToolStarted{
		Call:       conversation.CallID(p.Call),
		Tool:       p.Tool,
		Args:       p.Args,
		Deadline:   oracleTime(p.Deadline),
		Delegation: conversation.CallID(p.Delegation),
		ModelCall:  p.ModelCall,
		Idempotent: p.Idempotent,
		Caller:     p.Caller,
	}
}

func (r *oracle) toolFinished(p *pb.ToolFinished) conversation.ToolFinished {
	return conversation.ToolFinished{
		Call:    conversation.CallID(p.Call),
		Status:  r.callStatus(p.Status),
		Summary: p.Summary,
		Took:    r.duration(p.Took),
	}
}

func (*oracle) delegationStarted(p *pb.DelegationStarted) conversation.DelegationStarted {
	return conversation.DelegationStarted{
		Delegation: conversation.CallID(p.Delegation),
		Agent:      conversation.AgentName(p.Agent),
		Objective:  p.Objective,
		Session:    conversation.SessionID(p.Session),
		Deadline:   oracleTime(p.Deadline),
		ModelCall:  p.ModelCall,
	}
}

func (r *oracle) delegationFinished(p *pb.DelegationFinished) conversation.DelegationFinished {
	return conversation.DelegationFinished{
		Delegation: conversation.CallID(p.Delegation),
		Status:     r.callStatus(p.Status),
		Summary:    p.Summary,
		Took:       r.duration(p.Took),
	}
}

// oracle turns messages into the vocabulary's values and keeps the first thing
// that was wrong, so that the code for each body is one literal.
type oracle struct{ err error }

func (r *oracle) fail(err error) {
	if r.err == nil {
		r.err = err
	}
}

// oracleEnum reads a stored number whose largest known value is last.
func oracleEnum[E ~uint8](r *oracle, v uint32, last E) E {
	if v > uint32(last) {
		r.fail(fmt.Errorf("%w: %T %d", conversation.ErrTooNew, last, v))
		return 0
	}
	return E(v)
}

func (r *oracle) access(v uint32) conversation.Access {
	return oracleEnum(r, v, conversation.AccessTenant)
}

func (r *oracle) taskStatus(v uint32) conversation.TaskStatus {
	return oracleEnum(r, v, conversation.TaskCancelled)
}

func (r *oracle) callStatus(v uint32) conversation.CallStatus {
	return oracleEnum(r, v, conversation.CallFailed)
}

func oracleTime(ms int64) time.Time {
	if ms == 0 {
		return time.Time{}
	}
	return time.UnixMilli(ms).UTC()
}

func (r *oracle) duration(ms int64) time.Duration {
	const most = math.MaxInt64 / int64(time.Millisecond)
	if ms > most || ms < -most {
		r.fail(fmt.Errorf("%w: a duration of %d ms", ErrCorrupt, ms))
		return 0
	}
	return time.Duration(ms) * time.Millisecond
}

// oracleStrings changes the type of a list of names; nil for none.
func oracleStrings[S ~string](in []string) []S {
	if len(in) == 0 {
		return nil
	}
	out := make([]S, len(in))
	for i, s := range in {
		out[i] = S(s)
	}
	return out
}

// oraclePointer changes the type of a value that may be absent.
func oraclePointer[To, From ~uint32 | ~uint8](in *From) *To {
	if in == nil {
		return nil
	}
	out := To(*in)
	return &out
}

func oracleText(in *string) *string {
	if in == nil {
		return nil
	}
	out := *in
	return &out
}

func oracleOverrides(in map[string]string) conversation.Overrides {
	if len(in) == 0 {
		return nil
	}
	out := make(conversation.Overrides, len(in))
	for key, value := range in {
		if value == "" {
			out[key] = nil
			continue
		}
		out[key] = json.RawMessage(value)
	}
	return out
}

func oracleFailure(in *pb.Failure) *conversation.Failure {
	if in == nil {
		return nil
	}
	return &conversation.Failure{Code: conversation.Code(in.Code), Message: in.Message}
}

func oracleUsage(in *pb.Usage) conversation.Usage {
	return conversation.Usage{
		InputTokens:  int(in.GetInputTokens()),
		OutputTokens: int(in.GetOutputTokens()),
		CachedTokens: int(in.GetCachedTokens()),
		Estimated:    in.GetEstimated(),
	}
}

func (r *oracle) items(in []*pb.Item) []conversation.Item {
	if len(in) == 0 {
		return nil
	}
	out := make([]conversation.Item, len(in))
	for i, item := range in {
		out[i] = conversation.Item{
			Kind:     oracleEnum(r, item.Kind, conversation.ItemCall),
			ID:       item.Id,
			Text:     item.Text,
			Tool:     item.Tool,
			Args:     item.Args,
			Streamed: item.Streamed,
			Opaque:   string(item.Opaque),
			OpaqueBy: item.OpaqueBy,

			OpaqueStays: item.OpaqueStays,
		}
	}
	return out
}

func oracleResults(in []*pb.CallResult) []conversation.CallResult {
	if len(in) == 0 {
		return nil
	}
	out := make([]conversation.CallResult, len(in))
	for i, result := range in {
		out[i] = conversation.CallResult{ID: result.Id, Text: result.Text}
	}
	return out
}

func oraclePart(in *pb.Part) conversation.Part {
	return conversation.Part{
		Message:   conversation.MessageID(in.GetMessage()),
		Source:    conversation.SourceID(in.GetSource()),
		Index:     conversation.PartIndex(in.GetIndex()),
		Text:      in.GetText(),
		InReplyTo: conversation.MessageID(in.GetInReplyTo()),
		Guessed:   in.GetGuessed(),
		Cut:       in.GetCut(),
		Draft:     conversation.DraftID(in.GetDraft()),

		Author:      conversation.UserID(in.GetAuthor()),
		ClientMsgID: conversation.ClientMsgID(in.GetClientMsgId()),
	}
}

func oracleApproval(in *pb.Approval) *conversation.Approval {
	if in == nil {
		return nil
	}
	return &conversation.Approval{Call: conversation.CallID(in.Call), Tool: in.Tool, Args: in.Args}
}

func oracleTaskRow(b []byte) (conversation.TaskRow, error) {
	var p pb.TaskRow
	if err := unmarshal(b, &p); err != nil {
		return conversation.TaskRow{}, fmt.Errorf("task row: %w", err)
	}
	var r oracle
	row := conversation.TaskRow{
		Key:       oracleKey(p.Tenant, p.Session),
		Task:      conversation.TaskID(p.Task),
		Status:    r.taskStatus(p.Status),
		Agent:     conversation.AgentName(p.Agent),
		Owner:     conversation.UserID(p.Owner),
		Trigger:   conversation.MessageID(p.Trigger),
		CreatedAt: oracleTime(p.CreatedAt),
		UpdatedAt: oracleTime(p.UpdatedAt),
		First:     conversation.Seq(p.First),
		Last:      conversation.Seq(p.Last),
		Error:     oracleFailure(p.Error),
	}
	if r.err != nil {
		return conversation.TaskRow{}, fmt.Errorf("task row: %w", r.err)
	}
	return row, nil
}

func oracleSummary(b []byte) (conversation.Summary, error) {
	var p pb.Summary
	if err := unmarshal(b, &p); err != nil {
		return conversation.Summary{}, fmt.Errorf("summary: %w", err)
	}
	var r oracle
	s := conversation.Summary{
		Key:       oracleKey(p.Tenant, p.Session),
		Title:     p.Title,
		Agent:     conversation.AgentName(p.Agent),
		Owner:     conversation.UserID(p.Owner),
		Access:    r.access(p.Access),
		Closed:    p.Closed,
		CreatedAt: oracleTime(p.CreatedAt),
		Activity:  oracleTime(p.Activity),
		Last:      conversation.Seq(p.Last),
		Open:      int(p.Open),
		Awaiting:  int(p.Awaiting),
		Members:   r.members(p.Members),
		Work:      listing.Work{Running: int(p.Running), Asking: int(p.Asking), Parts: oracleBytes(p.Parts)},
	}
	if r.err != nil {
		return conversation.Summary{}, fmt.Errorf("summary: %w", r.err)
	}
	return s, nil
}

func oracleBytes(b []byte) listing.Parts {
	if len(b) == 0 {
		return nil
	}
	return b
}

func oracleHead(b []byte) (HeadRow, error) {
	var p pb.HeadRow
	if err := unmarshal(b, &p); err != nil {
		return HeadRow{}, fmt.Errorf("head: %w", err)
	}
	return HeadRow{
		Epoch:      conversation.Epoch(p.Epoch),
		Last:       conversation.Seq(p.Last),
		LastCommit: conversation.CommitID(p.LastCommit),
		SnapshotAt: conversation.Seq(p.SnapshotAt),
		WakeAt:     oracleTime(p.WakeAt),
		Erased:     p.Erased,
		Claim:      oracleClaim(p.Claim),
		Stored:     p.Stored,
	}, nil
}

func oracleClaim(p *pb.Claim) *conversation.Claimable {
	if p == nil {
		return nil
	}
	return &conversation.Claimable{
		Task: conversation.TaskID(p.Task), Agent: conversation.AgentName(p.Agent), Since: oracleTime(p.Since), Runtime: conversation.RuntimeName(p.Runtime), From: oracleTime(p.From),
	}
}

func oracleKey(tenant, session string) conversation.SessionKey {
	return conversation.SessionKey{
		Tenant:  conversation.TenantID(tenant),
		Session: conversation.SessionID(session),
	}
}
