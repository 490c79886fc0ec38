package journal

import (
	"fmt"
	"log/slog"
	"sync"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
)

// BenchmarkAppend measures callers in parallel with a consumer that drains at the
// same time. fsyncs/op shows how many callers one fsync serves.
func BenchmarkAppend(b *testing.B) {
	for _, size := range []int{300, 64 << 10, 1 << 20} {
		for _, callers := range []int{1, 64, 512} {
			if size*callers > 64<<20 {
				continue
			}
			b.Run(fmt.Sprintf("bytes=%d/callers=%d", size, callers), func(b *testing.B) {
				benchmarkAppend(b, size, callers)
			})
		}
	}
}

func benchmarkAppend(b *testing.B, size, callers int) {
	j, err := Open(DefaultConfig(b.TempDir()), slog.New(slog.DiscardHandler), prometheus.NewRegistry())
	if err != nil {
		b.Fatal(err)
	}
	var consumer sync.WaitGroup
	consumer.Go(func() {
		for {
			batch, err := j.Next(b.Context())
			if err != nil {
				return
			}
			if err := j.Commit(batch.Last); err != nil {
				return
			}
		}
	})
	record := make([]byte, size)
	work := make(chan struct{})
	var wg sync.WaitGroup
	for range callers {
		wg.Go(func() {
			for range work {
				if err := j.Append(b.Context(), record); err != nil {
					b.Error(err)
				}
			}
		})
	}
	b.SetBytes(int64(size))
	b.ReportAllocs()
	for b.Loop() {
		work <- struct{}{}
	}
	close(work)
	wg.Wait()
	var m dto.Metric
	if err := j.metrics.fsyncDuration.Write(&m); err != nil {
		b.Fatal(err)
	}
	b.ReportMetric(float64(m.GetHistogram().GetSampleCount())/float64(b.N), "fsyncs/op")
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "records/s")
	if err := j.Close(); err != nil {
		b.Error(err)
	}
	consumer.Wait()
}

// BenchmarkNext drains a backlog, one batch per operation.
func BenchmarkNext(b *testing.B) {
	for _, size := range []int{300, 64 << 10} {
		b.Run(fmt.Sprintf("bytes=%d", size), func(b *testing.B) {
			j := openTest(b, DefaultConfig(b.TempDir()), osDisk{})
			const backlog = 128 << 20
			var wg sync.WaitGroup
			for range 256 {
				wg.Go(func() {
					for range backlog / 256 / size {
						if err := j.Append(b.Context(), make([]byte, size)); err != nil {
							b.Error(err)
						}
					}
				})
			}
			wg.Wait()
			var records, bytes int
			b.ReportAllocs()
			for b.Loop() {
				if j.Stats().Last == Position(j.reader.next-1) {
					j.reader.next, j.reader.off, j.reader.at = 1, 0, 1 // again
					j.reader.index = 0
				}
				batch, err := j.Next(b.Context())
				if err != nil {
					b.Fatal(err)
				}
				records += len(batch.Records)
				bytes += len(batch.Records) * size
			}
			b.ReportMetric(float64(records)/b.Elapsed().Seconds(), "records/s")
			b.ReportMetric(float64(bytes)/b.Elapsed().Seconds()/1e6, "MB/s")
		})
	}
}
