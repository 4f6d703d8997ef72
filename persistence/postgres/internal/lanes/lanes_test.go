package lanes

import (
	"fmt"
	"sync"
	"testing"
)

func TestOneAfterTheOtherInOrder(t *testing.T) {
	var l Lanes[string]
	var order string
	for i := range 3 {
		l.Enter("a", func() { order += fmt.Sprintf("a%d ", i) })
	}
	l.Enter("b", func() { order += "b0 " })
	l.Leave("a")
	l.Leave("b")
	l.Leave("a")
	if order != "a0 b0 a1 a2 " {
		t.Errorf("order %q", order)
	}
	if l.Leave("a"); l.Used() != 0 {
		t.Errorf("%d keys are still in use", l.Used())
	}
}

func TestNoTwoAtOnce(t *testing.T) {
	var l Lanes[int]
	var all sync.WaitGroup
	counts := [3]int{} // each guarded by its lane
	for i := range 300 {
		all.Go(func() {
			free := make(chan struct{})
			l.Enter(i%3, func() { close(free) })
			<-free
			counts[i%3]++
			l.Leave(i % 3)
		})
	}
	all.Wait()
	if counts != [3]int{100, 100, 100} || l.Used() != 0 {
		t.Errorf("counted %v, %d keys in use", counts, l.Used())
	}
}
