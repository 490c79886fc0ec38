package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"time"
)

// crossed is the alert of what a runaway task reaches.
const (
	crossedAlert     = "TaskCostCeiling"
	crossedThreshold = "100"
)

// alertPatience is far more than an alert may take.
const alertPatience = 30 * time.Second

// cross lets tasks run away, one after the other, at moments that have nothing
// to do with any period of the service. Before, the same number of alerts goes
// to Alertmanager the same way, directly: less is not possible.
func (b *bench) cross(ctx context.Context) error {
	var direct, through []time.Duration
	for i := range b.crossings {
		begun, task := time.Now(), fmt.Sprint("direct-", i)
		if err := b.raise(ctx, task); err != nil {
			return err
		}
		direct = append(direct, b.recorder.await(alert{task, crossedAlert, "0"}, alertPatience).Sub(begun))
	}
	for i := range b.crossings {
		time.Sleep(rand.N(time.Second))
		task := fmt.Sprint("runaway-", i)
		if err := b.post(ctx, call(nil, task, task, runaway)); err != nil {
			return err
		}
		acknowledged := time.Now()
		taken := b.recorder.await(alert{task, crossedAlert, crossedThreshold}, alertPatience)
		if taken.IsZero() {
			return fmt.Errorf("%s crossed its ceiling %v ago, and Alertmanager has no alert", task, time.Since(acknowledged))
		}
		through = append(through, taken.Sub(acknowledged))
	}
	if n, err := b.manager.count(ctx, crossedAlert, crossedThreshold); err != nil || n != b.crossings {
		return fmt.Errorf("Alertmanager shows %d alerts of %d crossings, error %w", n, b.crossings, err) //nolint:staticcheck // its name
	}
	spread("alertmanager_direct", direct)
	spread("crossing_to_alertmanager", through)
	return nil
}

// raise posts an alert to Alertmanager as the service does, without the service.
func (b *bench) raise(ctx context.Context, task string) error {
	body, err := json.Marshal([]map[string]any{{
		"labels":      map[string]string{"alertname": crossedAlert, "task": task, "threshold": "0", "severity": "warning", "project": "demo", "repo": "acme/widgets"},
		"annotations": map[string]string{"summary": "A task ran away", "description": "What it cost."},
		"startsAt":    time.Now(), "endsAt": time.Now().Add(time.Minute),
	}})
	if err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, b.recorder.url()+"/api/v2/alerts", bytes.NewReader(body))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	return send(req, "posting an alert")
}
