package deliver

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/common/model"
	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"
)

// ErrRefused is that of a webhook that answers with a 4xx: it may be so for
// good.
var ErrRefused = errors.New("the webhook refuses it")

// webhookName is what the webhook is called in metrics.
const webhookName = "webhook"

// Webhook posts transitions to one URL. It is safe for concurrent use.
type Webhook struct {
	url     string
	signers []*standardwebhooks.Webhook
	timeout time.Duration
	http    *http.Client
	metrics receiverMetrics
}

// Transition is an alert that began or ended.
type Transition struct {
	// ID is the same in every attempt to tell of it, and in no other transition's:
	// receivers know repetitions by it. Required.
	ID string
	// Resolved is false when it began, true when it ended.
	Resolved bool
	// Alert is what began or ended. Its EndsAt counts only if Resolved.
	Alert Alert
}

// message is the body of Alertmanager's webhooks, version 4, with one alert
// that is a group of its own.
type message struct {
	Version           string            `json:"version"`
	GroupKey          string            `json:"groupKey"`
	TruncatedAlerts   int               `json:"truncatedAlerts"`
	Status            string            `json:"status"`
	Receiver          string            `json:"receiver"`
	GroupLabels       map[string]string `json:"groupLabels"`
	CommonLabels      map[string]string `json:"commonLabels"`
	CommonAnnotations map[string]string `json:"commonAnnotations"`
	ExternalURL       string            `json:"externalURL"`
	Alerts            []messageAlert    `json:"alerts"`
}

type messageAlert struct {
	Status       string            `json:"status"`
	Labels       map[string]string `json:"labels"`
	Annotations  map[string]string `json:"annotations"`
	StartsAt     time.Time         `json:"startsAt"`
	EndsAt       time.Time         `json:"endsAt"` // zero while it fires
	GeneratorURL string            `json:"generatorURL"`
	Fingerprint  string            `json:"fingerprint"`
}

func newWebhook(cfg *Config, m receiverMetrics) (*Webhook, error) {
	signers, err := readSigners(cfg.WebhookSecretFile)
	if err != nil {
		return nil, fmt.Errorf("--alert-webhook-secret-file %s: %w", cfg.WebhookSecretFile, err)
	}
	return &Webhook{
		url: cfg.Webhook, signers: signers, timeout: cfg.Timeout, metrics: m,
		// A redirected POST goes on as a GET without its body.
		http: &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }},
	}, nil
}

// The specification's bounds of a secret.
const (
	secretPrefix                   = "whsec_"
	minSecretBytes, maxSecretBytes = 24, 64
)

func readSigners(path string) ([]*standardwebhooks.Webhook, error) {
	content, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var signers []*standardwebhooks.Webhook
	for i, line := range strings.Split(strings.TrimSpace(string(content)), "\n") {
		encoded, ok := strings.CutPrefix(strings.TrimSpace(line), secretPrefix)
		key, err := base64.StdEncoding.DecodeString(encoded)
		if !ok || err != nil || len(key) < minSecretBytes || len(key) > maxSecretBytes {
			return nil, fmt.Errorf("line %d is not %s and %d to %d bytes in base64: make one with echo %[2]s$(openssl rand -base64 32)",
				i+1, secretPrefix, minSecretBytes, maxSecretBytes)
		}
		signer, err := standardwebhooks.NewWebhookRaw(key)
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", i+1, err)
		}
		signers = append(signers, signer)
	}
	return signers, nil
}

// Post tells of one transition, in one attempt that Timeout bounds. It returns
// nil if the answer was a 2xx, [ErrRefused] if it was a 4xx but 408 and 429. The same transition is the same body and
// webhook-id each time; webhook-timestamp and the signature are the attempt's.
func (w *Webhook) Post(ctx context.Context, t Transition) error {
	err := w.post(ctx, &t)
	if err != nil {
		w.metrics.failures.Inc()
		return fmt.Errorf("posting to the webhook: %w", err)
	}
	w.metrics.delivered.Inc()
	return nil
}

func (w *Webhook) post(ctx context.Context, t *Transition) error {
	if t.ID == "" {
		return errors.New("the transition has no id")
	}
	body, err := json.Marshal(t.message())
	if err != nil {
		return fmt.Errorf("encoding the transition: %w", err)
	}
	now := time.Now()
	signature, err := w.sign(t.ID, now, body)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, w.timeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, w.url, bytes.NewReader(body))
	if err != nil {
		return withoutURL(err)
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("User-Agent", userAgent)
	req.Header.Set(standardwebhooks.HeaderWebhookID, t.ID)
	req.Header.Set(standardwebhooks.HeaderWebhookTimestamp, strconv.FormatInt(now.Unix(), 10))
	req.Header.Set(standardwebhooks.HeaderWebhookSignature, signature)
	resp, err := w.http.Do(req)
	if err != nil {
		return withoutURL(err)
	}
	defer resp.Body.Close()
	// Read so that the connection is used again. The status has said all: a body
	// that breaks off takes nothing back.
	_, _ = io.Copy(io.Discard, io.LimitReader(resp.Body, maxAnswer))
	switch code := resp.StatusCode; {
	case code/100 == 2:
		return nil
	case code/100 == 4 && code != http.StatusRequestTimeout && code != http.StatusTooManyRequests:
		return fmt.Errorf("%w: answered %d", ErrRefused, code)
	default:
		return fmt.Errorf("answered %d", code)
	}
}

// GaveUp counts a transition that will not be posted any more.
func (w *Webhook) GaveUp() { w.metrics.refused.Inc() }

func (w *Webhook) sign(id string, now time.Time, body []byte) (string, error) {
	signatures := make([]string, len(w.signers))
	for i, s := range w.signers {
		var err error
		if signatures[i], err = s.Sign(id, now, body); err != nil {
			return "", fmt.Errorf("signing: %w", err)
		}
	}
	return strings.Join(signatures, " "), nil
}

func (t *Transition) message() message {
	status, end := "firing", time.Time{}
	if t.Resolved {
		status, end = "resolved", t.Alert.EndsAt.UTC()
	}
	labels, annotations := make(model.LabelSet, len(t.Alert.Labels)), t.Alert.Annotations
	for name, value := range t.Alert.Labels {
		labels[model.LabelName(name)] = model.LabelValue(value)
	}
	if annotations == nil {
		annotations = map[string]string{}
	}
	return message{
		Version: "4", GroupKey: "{}:" + labels.String(), Status: status, Receiver: userAgent,
		GroupLabels: t.Alert.Labels, CommonLabels: t.Alert.Labels, CommonAnnotations: annotations,
		Alerts: []messageAlert{{
			Status: status, Labels: t.Alert.Labels, Annotations: annotations,
			StartsAt: t.Alert.StartsAt.UTC(), EndsAt: end, GeneratorURL: t.Alert.GeneratorURL,
			Fingerprint: labels.Fingerprint().String(),
		}},
	}
}

// withoutURL takes the URL out of an error: it may hold a token.
func withoutURL(err error) error {
	var withURL *url.Error
	if errors.As(err, &withURL) {
		return withURL.Err
	}
	return err
}
