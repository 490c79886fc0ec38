package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/url"
	"time"

	"golang.org/x/sync/errgroup"
)

// clients is how many ask at once.
const clients = 8

// answers asks how random tasks stand, and before that whether the service
// lives, which is what a request costs that has nothing to do.
func (b *bench) answers(ctx context.Context) error {
	for _, of := range []struct {
		name string
		path func() string
	}{
		{"healthz", func() string { return "/healthz" }},
		{"task", func() string { return "/v1/tasks/" + url.PathEscape(taskName(rand.IntN(b.tasks))) }},
	} {
		delays, err := b.ask(ctx, of.path)
		if err != nil {
			return fmt.Errorf("asking for %s: %w", of.name, err)
		}
		spread("get_"+of.name, delays)
	}
	return nil
}

// ask sends requests that are due at random moments, whether or not the one
// before was answered, and late from then on.
func (b *bench) ask(ctx context.Context, path func() string) ([]time.Duration, error) {
	perClient := make([][]time.Duration, clients)
	begun := time.Now()
	end := begun.Add(time.Duration(b.seconds) * time.Second)
	g, ctx := errgroup.WithContext(ctx)
	for i := range perClient {
		client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 1}}
		g.Go(func() error {
			defer client.CloseIdleConnections()
			for due := begun; ; {
				due = due.Add(time.Duration(rand.ExpFloat64() * clients / b.rate * float64(time.Second)))
				if due.After(end) {
					return nil
				}
				time.Sleep(time.Until(due))
				if err := b.askOnce(ctx, client, path()); err != nil {
					return err
				}
				perClient[i] = append(perClient[i], time.Since(due))
			}
		})
	}
	if err := g.Wait(); err != nil {
		return nil, err
	}
	var all []time.Duration
	for _, delays := range perClient {
		all = append(all, delays...)
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("nothing was asked in %d s at %v per second", b.seconds, b.rate)
	}
	return all, nil
}

func (b *bench) askOnce(ctx context.Context, client *http.Client, path string) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+b.service.Addr+path, nil)
	if err != nil {
		return err
	}
	return sendBy(client, req, "asking")
}
