package api

import (
	_ "embed" // of the document
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"strings"
	"sync"

	"go.yaml.in/yaml/v3"
)

//go:embed openapi.yaml
var document []byte

// OpenAPI is the description of the whole API, in JSON: OpenAPI 3.1.
func OpenAPI() ([]byte, error) {
	var doc map[string]any
	if err := yaml.Unmarshal(document, &doc); err != nil {
		return nil, fmt.Errorf("reading the API's description: %w", err)
	}
	// Anchors that the rest refers to.
	maps.DeleteFunc(doc, func(key string, _ any) bool { return strings.HasPrefix(key, "x-") })
	out, err := json.Marshal(doc)
	if err != nil {
		return nil, fmt.Errorf("writing the API's description: %w", err)
	}
	return out, nil
}

// openAPI answers GET /openapi.json.
func openAPI() func(http.ResponseWriter, *http.Request) error {
	asJSON := sync.OnceValues(OpenAPI)
	return func(w http.ResponseWriter, _ *http.Request) error {
		doc, err := asJSON()
		if err != nil {
			return err
		}
		w.Header().Set("Content-Type", "application/json; charset=utf-8")
		w.Header().Set("X-Content-Type-Options", "nosniff")
		_, _ = w.Write(doc) // a client that is gone is no error of ours
		return nil
	}
}
