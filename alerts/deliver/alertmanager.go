package deliver

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/go-openapi/runtime"
	openapi "github.com/go-openapi/runtime/client"
	"github.com/go-openapi/strfmt"
	"github.com/prometheus/alertmanager/api/v2/client/alert"
	"github.com/prometheus/alertmanager/api/v2/models"
	"github.com/prometheus/common/config"
)

const (
	apiPath   = "/api/v2"
	userAgent = "tatara-ledger"
	// maxAnswer is more than any answer that an error message is made of.
	maxAnswer = 64 << 10
)

// errRefused says that the Alertmanager took what is valid of a request, and
// that something in it is not.
var errRefused = errors.New("refused as invalid")

// alertmanager posts to one Alertmanager.
type alertmanager struct {
	alerts  alert.ClientService
	http    *http.Client
	timeout time.Duration
}

func newAlertmanager(t *target) (*alertmanager, error) {
	transport, err := config.NewRoundTripperFromConfig(t.http, "alertmanager", config.WithUserAgent(userAgent))
	if err != nil {
		return nil, err
	}
	client := &http.Client{
		Transport: bounded{transport},
		// A redirected POST goes on as a GET, which lists alerts and is answered
		// 200: every alert would be lost.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	rt := openapi.NewWithClient(t.host, t.path+apiPath, []string{t.scheme}, client)
	rt.Debug = false // by $DEBUG, which may be meant for others, it prints requests
	// A page that answers 200 or 400 in front of the Alertmanager is not it.
	rt.Consumers = map[string]runtime.Consumer{runtime.JSONMime: runtime.JSONConsumer()}
	return &alertmanager{alerts: alert.New(rt, strfmt.Default), http: client, timeout: t.timeout}, nil
}

// post returns nil if the Alertmanager took all of the alerts. An error that
// wraps errRefused says that at least one of them is invalid.
func (m *alertmanager) post(ctx context.Context, alerts []Alert) error {
	out := make(models.PostableAlerts, len(alerts))
	for i, a := range alerts {
		out[i] = &models.PostableAlert{
			StartsAt: strfmt.DateTime(a.StartsAt), EndsAt: strfmt.DateTime(a.EndsAt), Annotations: a.Annotations,
			Alert: models.Alert{Labels: a.Labels, GeneratorURL: strfmt.URI(a.GeneratorURL)},
		}
	}
	ctx, cancel := context.WithTimeout(ctx, m.timeout)
	defer cancel()
	_, err := m.alerts.PostAlerts(alert.NewPostAlertsParamsWithContext(ctx).WithTimeout(m.timeout).WithAlerts(out))
	var invalid *alert.PostAlertsBadRequest
	var other *runtime.APIError
	switch {
	case errors.As(err, &invalid):
		return fmt.Errorf("%w: %s", errRefused, invalid.Payload)
	case !errors.As(err, &other):
		return err
	case other.Code == http.StatusUnprocessableEntity, other.Code == http.StatusRequestEntityTooLarge:
		return fmt.Errorf("%w: answered %d", errRefused, other.Code)
	case other.Code/100 == 3:
		return fmt.Errorf("answered %d, a redirect: give the URL that it leads to", other.Code)
	default:
		return fmt.Errorf("answered %d", other.Code)
	}
}

func (m *alertmanager) close() { m.http.CloseIdleConnections() }

// bounded cuts answers, which the client reads whole.
type bounded struct{ next http.RoundTripper }

func (b bounded) RoundTrip(req *http.Request) (*http.Response, error) {
	resp, err := b.next.RoundTrip(req)
	if err != nil {
		return nil, err
	}
	resp.Body = struct {
		io.Reader
		io.Closer
	}{io.LimitReader(resp.Body, maxAnswer), resp.Body}
	return resp, nil
}

// CloseIdleConnections is what http.Client looks for.
func (b bounded) CloseIdleConnections() {
	if c, ok := b.next.(interface{ CloseIdleConnections() }); ok {
		c.CloseIdleConnections()
	}
}
