package receive

import (
	"net/http"

	"github.com/szymonrychu/tatara-ledger/collector/usage"
)

const (
	feedAnnotation = "annotation"
	maxTags        = 32
	tagBytes       = 128
)

// Annotations receives remarks on the timeline: one JSON object, an array, or
// one object per line, answered as calls are. The same annotation counts once,
// as an outcome does.
func (r *Receiver) Annotations(w http.ResponseWriter, req *http.Request) {
	post(r, w, req, posting[usage.Annotation]{
		feed: feedAnnotation, plural: "annotations", reader: r.annotationReader,
		facts: func(annotations []usage.Annotation) *usage.Facts { return &usage.Facts{Annotations: annotations} },
	})
}

func (r *Receiver) annotationReader() func(value []byte, to *usage.Annotation) error {
	in, fields := r.objects("an annotation"), quoted("id", "ts", "project", "text", "tags")
	return func(value []byte, to *usage.Annotation) error {
		*to = usage.Annotation{Arrived: in.arrived}
		var source string
		err := in.object(value, fields, func(name string) error {
			switch name {
			case "id":
				return in.text(name, &source, r.cfg.LabelBytes)
			case "ts":
				return in.time(name, &to.Time)
			case "project":
				return in.text(name, &to.Project, r.cfg.LabelBytes)
			case "text":
				return in.text(name, &to.Text, textBytes)
			default:
				return in.texts(name, &to.Tags, maxTags, tagBytes)
			}
		})
		switch {
		case err != nil:
			return err
		case to.Time.IsZero():
			return refuse("missing_ts", "ts", "is missing", "say when it was, in RFC 3339")
		case to.Text == "":
			return refuse("missing_text", "text", "is missing", "say what happened")
		}
		to.Identify(source)
		return nil
	}
}
