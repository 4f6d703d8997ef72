package actors

import (
	"context"
	"fmt"
	"iter"
	"sync"
	"testing"

	"parley/conversation"
	"parley/persistence/persistencetest"
)

// heldModel answers at once when it was let go.
type heldModel struct {
	instantModel
	free chan struct{}
}

func (m heldModel) Stream(ctx context.Context, r conversation.Request) iter.Seq2[conversation.Output, error] {
	<-m.free
	return m.instantModel.Stream(ctx, r)
}

// BenchmarkQueued measures what a message costs that is put behind so many others of
// its session, and then its task.
func BenchmarkQueued(b *testing.B) {
	for _, queued := range []int{100, 500, 1000, 2000} {
		b.Run(fmt.Sprintf("waiting=%d", queued), func(b *testing.B) {
			for b.Loop() {
				var stored, ended sync.WaitGroup
				cfg := testConfig()
				cfg.Rules.Policy.MaxQueued = 0
				cfg.MaxWaiting, cfg.MaxPending = queued+1, queued+1 // else some are refused, and their tasks never end
				model := heldModel{free: make(chan struct{})}
				e, stop := benchEngine(b, cfg, persistencetest.NewMemory(), model, func(conversation.SessionKey) { ended.Done() })
				e.Create(session2(0), conversation.Create{Owner: ada}, func(conversation.SessionKey, bool, error) {})
				stored.Add(queued)
				ended.Add(queued)
				for i := range queued {
					e.Tell(session2(0), ada, conversation.Say{
						Author: ada, ClientMsgID: conversation.ClientMsgID(fmt.Sprint(i)), Text: "hello", Mode: conversation.ModeQueue,
					}, func(_ conversation.Receipt, err error) {
						if err != nil {
							b.Error(err)
							ended.Done() // there is no task
						}
						stored.Done()
					})
				}
				stored.Wait()
				close(model.free)
				ended.Wait()
				stop()
			}
			b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(b.N*queued), "us/task")
		})
	}
}
