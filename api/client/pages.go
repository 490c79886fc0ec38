package client

import (
	"errors"
	"iter"
)

// pageSize is how much the walks over all pages ask for at once, if they are
// not told.
const pageSize = 100

// pages are the rows of all pages from a cursor on. ask asks for one page: its
// rows, and the cursor of the next one, nil at the end. A page whose answer is
// too long is asked for again in halves. The first error ends them.
func pages[T any, C comparable](after C, limit int, ask func(after C, limit int) ([]T, *C, error)) iter.Seq2[T, error] {
	limit = orDefault(limit, pageSize)
	return func(yield func(T, error) bool) {
		after, limit := after, limit
		for {
			rows, next, err := ask(after, limit)
			if errors.Is(err, errAnswerTooLong) && limit > 1 {
				limit /= 2
				continue
			}
			if err != nil {
				var none T
				yield(none, err)
				return
			}
			for _, r := range rows {
				if !yield(r, nil) {
					return
				}
			}
			if next == nil || *next == after {
				return
			}
			after = *next
		}
	}
}
