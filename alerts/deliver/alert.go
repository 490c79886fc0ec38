package deliver

import (
	"time"

	"github.com/prometheus/common/model"
)

// Alert is one alert. Its maps must not be changed once it was given away.
type Alert struct {
	// Labels are what Alertmanager knows an alert by. Required.
	Labels map[string]string
	// Annotations may change from one sending to the next.
	Annotations map[string]string
	// StartsAt is when it began to fire. It should be the same in every sending.
	StartsAt time.Time
	// EndsAt is in the future while it fires: when it counts as resolved unless
	// it is sent again before. In the past, it is resolved.
	EndsAt time.Time
	// GeneratorURL is where to see what it was raised from; may be empty.
	GeneratorURL string
}

// fingerprint is the identity that Alertmanager gives it.
func (a *Alert) fingerprint() uint64 { return model.LabelsToSignature(a.Labels) }
