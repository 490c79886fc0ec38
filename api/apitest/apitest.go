// Package apitest checks answers of the API against its OpenAPI document, for
// tests: every status, header and field that a client sees must be described.
package apitest

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"mime"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/pb33f/libopenapi"
	validator "github.com/pb33f/libopenapi-validator"
	"github.com/pb33f/libopenapi-validator/config"
	"github.com/pb33f/libopenapi-validator/errors"
	"github.com/pb33f/libopenapi-validator/helpers"
	"github.com/pb33f/libopenapi-validator/responses"
	v3 "github.com/pb33f/libopenapi/datamodel/high/v3"
)

// T is what a failure is reported to: a *testing.T.
type T interface {
	Helper()
	Errorf(format string, args ...any)
}

// Document is an OpenAPI document to check answers against. It is safe for
// concurrent use.
type Document struct {
	paths []path // the most specific first

	mu        sync.Mutex
	responses responses.ResponseBodyValidator
}

type path struct {
	template string
	matches  *regexp.Regexp
	item     *v3.PathItem
}

// Parse reads a document, and reports one that is not valid OpenAPI.
func Parse(document []byte) (*Document, error) {
	doc, err := libopenapi.NewDocument(document)
	if err != nil {
		return nil, fmt.Errorf("reading the OpenAPI document: %w", err)
	}
	model, err := doc.BuildV3Model()
	if err != nil {
		return nil, fmt.Errorf("resolving the OpenAPI document: %w", err)
	}
	all, errs := validator.NewValidator(doc, config.WithFormatAssertions(), config.WithStrictMode(),
		config.WithStrictIgnoredHeadersExtra("X-Content-Type-Options", "Allow"),
		// The document itself, whose form another document describes.
		config.WithStrictIgnorePaths("$.body.openapi", "$.body.info", "$.body.paths", "$.body.components", "$.body.servers", "$.body.tags", "$.body.security",
			// Names that are data.
			"$.body.rows[*].keys.*", "$.body.checks.*"))
	if len(errs) > 0 {
		return nil, fmt.Errorf("reading the OpenAPI document: %v", errs)
	}
	if ok, invalid := all.ValidateDocument(); !ok {
		return nil, fmt.Errorf("the document is not valid OpenAPI: %s", describe(invalid))
	}
	d := &Document{responses: all.GetResponseBodyValidator()}
	for template, item := range model.Model.Paths.PathItems.FromOldest() {
		d.paths = append(d.paths, path{template, regexp.MustCompile("^" + pattern(template) + "$"), item})
	}
	slices.SortFunc(d.paths, func(a, b path) int { return literals(b.template) - literals(a.template) })
	return d, nil
}

var parameter = regexp.MustCompile(`\{[^}]+\}`)

// pattern matches the paths of a template. The key of a handoff and the name of
// a task may have slashes: a proxy may have decoded them.
func pattern(template string) string {
	var b strings.Builder
	last := 0
	for _, at := range parameter.FindAllStringIndex(template, -1) {
		b.WriteString(regexp.QuoteMeta(template[last:at[0]]))
		if name := template[at[0]:at[1]]; name == "{key}" || name == "{task}" {
			b.WriteString(".+")
		} else {
			b.WriteString("[^/]+")
		}
		last = at[1]
	}
	b.WriteString(regexp.QuoteMeta(template[last:]))
	return b.String()
}

func literals(template string) int { return len(parameter.ReplaceAllString(template, "")) }

// Transport is a round tripper that checks every answer that it brings.
func (d *Document) Transport(t T, base http.RoundTripper) http.RoundTripper {
	return roundTripper(func(r *http.Request) (*http.Response, error) {
		resp, err := base.RoundTrip(r)
		if err != nil {
			return nil, err
		}
		body, err := io.ReadAll(resp.Body)
		_ = resp.Body.Close()
		if err != nil {
			return nil, fmt.Errorf("reading an answer: %w", err)
		}
		t.Helper()
		d.Check(t, r, resp, body)
		resp.Body = io.NopCloser(bytes.NewReader(body))
		return resp, nil
	})
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// Check checks an answer whose body was read.
func (d *Document) Check(t T, r *http.Request, resp *http.Response, body []byte) {
	t.Helper()
	if err := d.check(r, resp, body); err != nil {
		const most = 2000
		t.Errorf("%s %s: %d: %v\n%s", r.Method, r.URL, resp.StatusCode, err, body[:min(len(body), most)])
	}
}

func (d *Document) check(r *http.Request, resp *http.Response, body []byte) error {
	if resp.StatusCode >= http.StatusBadRequest && r.Method != http.MethodHead {
		if err := envelope(r, resp, body); err != nil {
			return err
		}
	}
	if resp.StatusCode == http.StatusNotFound && bytes.Contains(body, []byte(`"error":"no such route"`)) {
		return nil // the other listener has it, or none
	}
	// As the router sees it: EscapedPath escapes a path that is not quite right
	// anew, and an escaped slash becomes a plain one.
	p, ok := d.find(cmp.Or(r.URL.RawPath, r.URL.EscapedPath()))
	if !ok {
		return mustBe(resp.StatusCode, "the path is not in the document", http.StatusForbidden, http.StatusUnauthorized)
	}
	asked := r
	if r.Method == http.MethodHead {
		asked = r.Clone(r.Context())
		asked.Method = http.MethodGet
	}
	operation := helpers.ExtractOperation(asked, p.item)
	if operation == nil {
		return mustBe(resp.StatusCode, "the method is not in the document", http.StatusMethodNotAllowed, http.StatusForbidden, http.StatusUnauthorized)
	}
	if r.Method == http.MethodHead {
		if operation.Responses.Codes.GetOrZero(strconv.Itoa(resp.StatusCode)) == nil {
			return fmt.Errorf("the status is not in the document")
		}
		return nil
	}
	copied := *resp
	copied.Body = io.NopCloser(bytes.NewReader(body))
	d.mu.Lock()
	defer d.mu.Unlock()
	if ok, errs := d.responses.ValidateResponseBodyWithPathItem(asked, &copied, p.item, p.template); !ok {
		return fmt.Errorf("%s", describe(errs))
	}
	return nil
}

// find is the path of the document that a request was for.
func (d *Document) find(escaped string) (path, bool) {
	if rest, ok := strings.CutPrefix(escaped, "/api/v1/chat"); ok && (strings.HasPrefix(rest, "/rooms") || strings.HasPrefix(rest, "/handoffs")) {
		escaped = rest
	}
	for _, p := range d.paths {
		if p.matches.MatchString(escaped) {
			return p, true
		}
	}
	return path{}, false
}

// envelope checks what every error must be, also where there is no operation.
func envelope(r *http.Request, resp *http.Response, body []byte) error {
	posted := []string{"/v1/calls", "/v1/outcomes", "/v1/annotations"}
	if r.URL.Path == "/readyz" || resp.StatusCode == http.StatusBadRequest && slices.Contains(posted, r.URL.Path) {
		return nil // these have more to say
	}
	if typ, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type")); typ != "application/json" {
		return fmt.Errorf("an error of type %q", typ)
	}
	var e struct {
		Error     string `json:"error"`
		RequestID string `json:"request_id"`
	}
	if err := json.Unmarshal(body, &e); err != nil {
		return fmt.Errorf("an error that is not JSON: %w", err)
	}
	if e.Error == "" || e.RequestID == "" || e.RequestID != resp.Header.Get("X-Request-Id") {
		return fmt.Errorf("no error envelope")
	}
	return nil
}

func mustBe(status int, why string, statuses ...int) error {
	if slices.Contains(statuses, status) {
		return nil
	}
	return fmt.Errorf("%s", why)
}

func describe(errs []*errors.ValidationError) string {
	var b strings.Builder
	for _, e := range errs {
		fmt.Fprintf(&b, "%s: %s", e.Message, e.Reason)
		for _, s := range e.SchemaValidationErrors {
			fmt.Fprintf(&b, "; %s at %s", s.Reason, s.FieldPath)
		}
		b.WriteString("\n")
	}
	return b.String()
}
